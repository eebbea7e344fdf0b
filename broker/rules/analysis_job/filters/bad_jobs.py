"""Queues at which the task fails get no more of its jobs."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.rules.contract import (
    AnalysisPairs,
    Bools,
    Filter,
    Floats,
    Observation,
    Operator,
    Options,
    Reason,
    TuningView,
    flag,
    number,
)

PROVENANCE = "ATLAS Analysis Job Brokerage"
LEAST_BAD = "MIN_BAD_JOBS_TO_SKIP_PQ"
TIMES_FINISHED = 2.0


class BadJobsOptions(Options):
    """Where bad jobs count.

    Attributes:
        asked: at all queues, or only where the stabilizer applies to the user; and then not for merging.
        equality: whether exactly the limit is too many.
    """

    asked: Literal["everywhere", "with_stabilizer"] = "everywhere"
    equality: Literal["rejects", "passes"] = "rejects"


class BadJobs(Filter[AnalysisPairs]):
    """Not too many jobs of the task failed at the queue or were closed.

    Rejects queues at which the failed and closed jobs of the task within TW_DONE_JOB_STAT hours are not fewer
    than 2 x the finished ones and than MIN_BAD_JOBS_TO_SKIP_PQ. Not for the one queue that a task names.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "bad_jobs"
    reason = Reason(
        code="bad_jobs",
        title="Not too many jobs of the task failed at the queue or were closed",
        violation="Too many jobs of the task failed at the queue or were closed there",
        no_candidate="runs jobs of this task without failures",
        who="wait",
        cure="Look at the errors of the failed jobs: where the program is at fault, correct it and submit the task "
        "again. Where the queue is at fault, wait: jobs that failed there are forgotten after `TW_DONE_JOB_STAT` "
        "hours.",
    )
    kind = "temporary"
    temporary_issue = True
    problem_for_user = True
    keys = (LEAST_BAD,)
    provenance = PROVENANCE
    pair_by_pair = True
    options: BadJobsOptions = BadJobsOptions()

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks of tasks with failed or closed jobs that do not name their one queue."""
        bad = pairs.facts.by_kind("jobs_bad")
        of_task = bad.of_table(np.asarray((bad.table > 0).any(axis=-1, keepdims=True)))
        return np.asarray(~pairs.facts.site_named & of_task.by_chunk)

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where not too many jobs of the task failed at the queue or were closed."""
        known, limit = pairs.facts, _limit(pairs.facts, pairs.tuning)
        fine = known.jobs_bad <= limit if self.options.equality == "passes" else known.jobs_bad < limit
        return np.asarray(fine | self._exempt(pairs))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Failed and closed jobs."""
        finished = number(pairs.facts.jobs_finished)
        limit = None if flag(self._exempt(pairs)) else number(_limit(pairs.facts, pairs.tuning))
        operator: Operator = "<=" if self.options.equality == "passes" else "<"
        return Observation(number(pairs.facts.jobs_bad), operator, limit, "jobs", LEAST_BAD, {"finished": finished})

    def _exempt(self, pairs: AnalysisPairs) -> Bools:
        """(1, 1), or (T, Q) under ``with_stabilizer``: true where bad jobs do not count."""
        if self.options.asked == "everywhere":
            return np.zeros((1, 1), dtype=np.bool_)
        known = pairs.facts
        return np.asarray(pairs.chunks.merging | ~known.can_be_throttled | known.user_ignored)


def _limit(facts: AnalysisFacts, tuning: TuningView) -> Floats:
    finished = facts.jobs_finished
    return np.asarray(np.maximum(TIMES_FINISHED * finished, tuning.number(LEAST_BAD)))
