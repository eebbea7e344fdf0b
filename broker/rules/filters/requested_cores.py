"""A job that asks for a number of cores runs in slots that have one of those it accepts."""

from __future__ import annotations

import numpy as np

from broker.domain.alternatives import accepts_cores
from broker.domain.arrays import Bools, distinct
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number, text


class RequestedCores(Filter):
    """Keeps queues whose core count is among those that the chunk accepts; a queue without one has one core.

    Only for work that came with conditions on its processors: for all other, single-core or multi-core is all that is
    asked. Source: Scalable Systems Software Job Object Specification 3.0.3, requested processors.
    """

    name = "requested_cores"
    code = "requested_cores"
    title = "The slots of the queue have a number of cores that the job accepts"
    sources = ("queues",)
    provenance = "Scalable Systems Software Job Object Specification 3.0.3"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that came with conditions, when they are not merged."""
        asked = np.array([one is not None for one in tasks.accepted_cores.ravel()], dtype=np.bool_)
        return np.asarray(asked.reshape(tasks.accepted_cores.shape) & ~tasks.merging)

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q): each distinct condition is compared once with each distinct number of cores."""
        conditions, of_task = distinct(tasks.accepted_cores.ravel())
        cores, of_queue = np.unique(np.nan_to_num(candidates.cores.ravel()), return_inverse=True)
        table = np.array([[accepts_cores(one, float(count)) for count in cores] for one in conditions], dtype=np.bool_)
        return np.asarray(table[np.ix_(of_task, of_queue)])

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """The cores of a slot, and whether they are among those accepted."""
        accepted = text(tasks.accepted_cores)
        cores = number(candidates.cores) or 1.0
        seen = "accepted" if accepts_cores(accepted, cores) else "not accepted"
        return Observation(
            seen, "==", "accepted", "cores", "task.Processors", {"queue_cores": cores, "accepted_cores": accepted}
        )
