"""Queues with many waiting and no running jobs get no more, even if no other queue is left."""

from __future__ import annotations

import numpy as np

from broker.rules.analysis_job.filters.avoid_vp import MIN_QUEUE
from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Reason, number


class IdleOverload(Filter[AnalysisPairs]):
    """Jobs run at the queue, or few wait there.

    Rejects queues with more queued jobs of the share than OVERLOAD_MIN_QUEUE and no running one. Not for merging, nor
    for the one queue that a task names. Source: PanDA analysis brokerage, overload.
    """

    name = "idle_overload"
    reason = Reason(
        code="badsite",
        title="Something runs at the queue, or little waits there",
        violation="Jobs wait at the queue and none runs",
        no_candidate="runs jobs of the share or has few that wait",
        who="wait",
        cure="Wait until the queue runs jobs again. If it does not, tell the site.",
    )
    kind = "temporary"
    temporary_issue = True
    problem_for_user = True
    keys = (MIN_QUEUE,)
    sources = ("jobs",)
    provenance = "PanDA analysis brokerage, overload"

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that neither merge nor name their one queue."""
        return np.asarray(~pairs.chunks.merging & ~pairs.facts.site_named)

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where jobs run at the queue, or few wait there."""
        known = pairs.facts
        queued = known.defined + known.assigned + known.activated + known.starting
        return np.asarray((known.running > 0) | (queued <= pairs.tuning.number(MIN_QUEUE)))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Queued and running jobs; no limit if some run."""
        known = pairs.facts
        queued = known.defined + known.assigned + known.activated + known.starting
        running = number(known.running)
        limit = None if running is not None and running > 0 else pairs.tuning.number(MIN_QUEUE)
        return Observation(number(queued), "<=", limit, "jobs", MIN_QUEUE, {"running": running})
