"""A job that states which core counts it accepts runs only in slots with one of them."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import distinct, holds_of
from broker.domain.work import AcceptedCores
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, number


class RequestedCores(Filter[JobPairs]):
    """Keeps queues whose core count is among those that the chunk accepts; a queue without one has one core.

    Only for work with conditions on its processors; all other work only requests single-core or multi-core. Source:
    Scalable Systems Software Job Object Specification 3.0.3, requested processors.
    """

    name = "requested_cores"
    same_in_passes = True
    reason = Reason(
        code="requested_cores",
        title="The slots of the queue have a number of cores that the job accepts",
        violation="The slots of the queue have a number of cores that the job does not accept",
        no_candidate="has the cores that the task accepts",
        who="you",
        cure="Accept the number of cores that the slots have (`Processors` of the request).",
    )
    sources = ("queues",)
    provenance = "Scalable Systems Software Job Object Specification 3.0.3"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks with conditions that are not merged."""
        return np.asarray(holds_of(pairs.chunks.accepted_cores, lambda _: True) & ~pairs.chunks.merging)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): each distinct condition is compared once with each distinct number of cores."""
        conditions, of_task = distinct(pairs.chunks.accepted_cores.ravel())
        cores, of_queue = np.unique(np.nan_to_num(pairs.candidates.cores.ravel()), return_inverse=True)
        table = np.array(
            [[one is None or one.accepts(float(count)) for count in cores] for one in conditions], dtype=np.bool_
        )
        return np.asarray(table[np.ix_(of_task, of_queue)])

    def observe(self, pairs: JobPairs) -> Observation:
        """The cores of a slot, and whether they are among those accepted."""
        accepted: AcceptedCores | None = pairs.chunks.accepted_cores.item()
        cores = number(pairs.candidates.cores) or 1.0
        seen = "accepted" if accepted is None or accepted.accepts(cores) else "not accepted"
        inputs = {"queue_cores": cores, "accepted_cores": None if accepted is None else str(accepted)}
        return Observation(seen, "==", "accepted", "cores", "task.Processors", {**inputs})
