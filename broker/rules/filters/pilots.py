"""The queue must have had pilots."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Kind, Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import flag, number
from broker.rules.preassigned import not_preassigned


class Pilots(Filter):
    """Rejects queues without pilots in the last 3 hours.

    Not for queues that publish slots for the share and resource type, jumbo chunks on queues for jumbo jobs, and
    tasks with "test" in their label unless they are urgent. Not for pre-assigned queues. Source: ATLAS Production Job
    Brokerage, queues without pilots.
    """

    name = "pilots"
    code = "nopilot"
    title = "Pilots were seen at the queue in the last 3 hours"
    kind: ClassVar[Kind] = "temporary"
    sources = ("pilots",)

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are no test, and urgent ones."""
        labels = tasks.prodsourcelabel
        is_test = np.array(["test" in (label or "") for label in labels.ravel()], dtype=np.bool_).reshape(labels.shape)
        return np.asarray((~is_test | facts.express) & not_preassigned(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray((facts.n_pilots > 0) | facts.has_slots | (tasks.jumbo & candidates.use_jumbo))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Pilots seen; no limit where none are needed."""
        slots, jumbo = flag(facts.has_slots), flag(tasks.jumbo & candidates.use_jumbo)
        limit = None if slots or jumbo else 0.0
        return Observation(number(facts.n_pilots), ">", limit, "pilots", "rule", {"has_slots": slots, "jumbo": jumbo})
