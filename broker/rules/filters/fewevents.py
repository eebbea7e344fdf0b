"""Jumbo jobs need enough events."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import limit_number, number
from broker.rules.preassigned import not_single


class Fewevents(Filter):
    """Rejects queues whose ``minEventsForJumbo`` is larger than the ready events of a jumbo chunk.

    Events that are not counted are 0. Not for a single pre-assigned queue. Source: PanDA production brokerage, jumbo
    job check.
    """

    name = "fewevents"
    code = "fewevents"
    title = "A jumbo chunk has enough events for the queue"
    sources = ("queues",)
    provenance = "PanDA production brokerage, jumbo job check"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Jumbo chunks."""
        return np.asarray(tasks.jumbo & not_single(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q); a limit that is NULL is none."""
        return np.asarray(~(np.nan_to_num(tasks.ready_events) < candidates.min_events_for_jumbo))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Ready events."""
        limit = limit_number(candidates.min_events_for_jumbo)
        return Observation(number(tasks.ready_events) or 0.0, ">=", limit, "events", "queue.minEventsForJumbo")
