"""Queues at which jobs of the task were closed get no more of them."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Reason, number


class ClosedJobs(Filter[AnalysisPairs]):
    """No job of the task was closed at the queue.

    Rejects queues at which a job of the task was closed within TW_DONE_JOB_STAT hours. Not for merging, nor for the one
    queue that a task names. Source: PanDA analysis brokerage, closed jobs.
    """

    name = "closed_jobs"
    reason = Reason(
        code="closed",
        title="No job of the task was closed at the queue",
        violation="A job of the task was closed at the queue recently",
        no_candidate="has closed no job of this task recently",
        who="wait",
        cure="Wait: closed jobs are forgotten after `TW_DONE_JOB_STAT` hours, and the queue may have the task again.",
    )
    provenance = "PanDA analysis brokerage, closed jobs"
    pair_by_pair = True

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that neither merge nor name their one queue."""
        return np.asarray(~pairs.chunks.merging & ~pairs.facts.site_named)

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where no job of the task was closed at the queue."""
        return np.asarray(~(pairs.facts.jobs_closed > 0))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """The jobs of the task that were closed at the queue; no limit if their number is unknown."""
        closed = number(pairs.facts.jobs_closed)
        return Observation(closed, "<=", None if closed is None else 0.0, "jobs", "rule")
