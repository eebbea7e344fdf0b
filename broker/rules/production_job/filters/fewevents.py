"""Jumbo jobs need enough events."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_single
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, flag, limit_number, number

#: ``usejumbo`` of tasks that want jumbo jobs: waiting, running, pending or lacking; not disabled.
WANTED = ("W", "R", "P", "L")


class Fewevents(Filter[JobPairs]):
    """Rejects queues whose ``minEventsForJumbo`` is larger than the ready events of a jumbo chunk.

    At queues for jumbo jobs it judges all chunks of tasks that want such jobs, so that the reason shown is too few
    events. Events that are not counted are 0. Not for a single pre-assigned queue. Source: PanDA production brokerage,
    jumbo job check.
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
        """(T, 1): jumbo chunks and those of tasks that want jumbo jobs, unless exactly one queue is pre-assigned."""
        wanted = np.isin(pairs.chunks.usejumbo.astype(np.str_), WANTED)
        return np.asarray((pairs.chunks.jumbo | wanted) & not_single(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where there are enough events; a NULL limit is none."""
        few = np.nan_to_num(pairs.chunks.ready_events) < pairs.candidates.min_events_for_jumbo
        return np.asarray(~(few & (pairs.chunks.jumbo | pairs.candidates.use_jumbo)))

    def observe(self, pairs: JobPairs) -> Observation:
        """The ready events of the chunk."""
        judged = flag(pairs.chunks.jumbo) or flag(pairs.candidates.use_jumbo)
        limit = limit_number(pairs.candidates.min_events_for_jumbo) if judged else None
        return Observation(number(pairs.chunks.ready_events) or 0.0, ">=", limit, "events", "queue.minEventsForJumbo")
