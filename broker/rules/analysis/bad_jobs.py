"""Queues at which the task fails get no more of it."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number

PROVENANCE = "ATLAS Analysis Job Brokerage"
LEAST_BAD = "MIN_BAD_JOBS_TO_SKIP_PQ"
TIMES_FINISHED = 2.0


class BadJobs(Filter):
    """Not too many jobs of the task failed at the queue or were closed.

    Rejects queues at which the failed and closed jobs of the task within TW_DONE_JOB_STAT hours are not fewer
    than 2 x finished ones and than MIN_BAD_JOBS_TO_SKIP_PQ. Not for the one queue that a task names.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "bad_jobs"
    code = "bad_jobs"
    title = "Not too many jobs of the task failed at the queue or were closed"
    kind = "temporary"
    keys = (LEAST_BAD,)
    provenance = PROVENANCE

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks of tasks with such jobs."""
        return np.asarray(~of_analysis(facts).site_named & (of_analysis(facts).jobs_bad > 0).any(axis=1, keepdims=True))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q)."""
        return np.asarray(of_analysis(facts).jobs_bad < _limit(facts, tuning))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Failed and closed jobs."""
        finished = number(of_analysis(facts).jobs_finished)
        limit = number(_limit(facts, tuning))
        return Observation(number(of_analysis(facts).jobs_bad), "<", limit, "jobs", LEAST_BAD, {"finished": finished})


def _limit(facts: JobFacts, tuning: TuningView) -> Floats:
    finished = of_analysis(facts).jobs_finished
    return np.asarray(np.maximum(TIMES_FINISHED * finished, tuning.number(LEAST_BAD)))
