"""Jumbo jobs need enough events."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.rules.contract import Filter, JobPairs, Reason
from broker.rules.shared.observing import limit_number, number
from broker.rules.shared.preassigned import not_single


class Fewevents(Filter[JobPairs]):
    """Rejects queues whose ``minEventsForJumbo`` is larger than the ready events of a jumbo chunk.

    Events that are not counted are 0. Not for a single pre-assigned queue. Source: PanDA production brokerage, jumbo
    job check.
    """

    name = "fewevents"
    reason = Reason(
        code="fewevents",
        title="A jumbo chunk has enough events for the queue",
        violation="The jumbo chunk has too few events for the queue",
        no_candidate="takes so few events for jumbo jobs",
        who="you",
        cure="Submit with more events in a chunk, or the site lowers `minEventsForJumbo`.",
    )
    sources = ("queues",)
    provenance = "PanDA production brokerage, jumbo job check"

    def applies(self, pairs: JobPairs) -> Bools:
        """(T, 1): jumbo chunks, unless exactly one queue is pre-assigned."""
        return np.asarray(pairs.chunks.jumbo & not_single(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q); a limit that is NULL is none."""
        return np.asarray(~(np.nan_to_num(pairs.chunks.ready_events) < pairs.candidates.min_events_for_jumbo))

    def observe(self, pairs: JobPairs) -> Observation:
        """Events of the chunk that are ready."""
        limit = limit_number(pairs.candidates.min_events_for_jumbo)
        return Observation(number(pairs.chunks.ready_events) or 0.0, ">=", limit, "events", "queue.minEventsForJumbo")
