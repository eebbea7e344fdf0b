"""A job must end before the shutdown that was announced to most pilots of the queue."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Bools, Filter, Floats, JobPairs, Observation, Reason, limit_number, number
from broker.rules.shared.walltime import ONE_DAY_S, longest_walltime, walltime_inputs


class Draining(Filter[JobPairs]):
    """Rejects queues that are shut down before a job of the expected walltime, started now at best, would end.

    A queue is draining if most of its pilots report a shutdown. An undefined walltime, and that of a merge, counts as a
    day. Source: HSF-TN-2016-02, use cases 1 and 4; ATLAS Production Job Brokerage, 24 hours.
    """

    name = "draining"
    same_in_passes = True
    reason = Reason(
        code="draining",
        title="The job ends before the shutdown that most pilots of the queue report",
        violation="Most pilots of the queue end before the job would",
        no_candidate="runs long enough before its pilots end",
        who="wait",
        cure="Wait until the shutdown is over, or make the jobs shorter: fewer events or files for each.",
    )
    kind = "temporary"
    keys = ("FEATURES_DRAINING",)
    sources = ("features",)
    unknown_policy = "keep"
    provenance = "HSF-TN-2016-02, Machine/Job Features"

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q), or (1, Q) if no queue is draining."""
        unlimited = np.isnan(pairs.candidates.shutdown_s)
        if not pairs.tuning.flag("FEATURES_DRAINING"):
            return np.ones(unlimited.shape, dtype=np.bool_)
        if unlimited.all():
            return np.asarray(unlimited)
        return np.asarray(
            unlimited
            | (_expected_s(pairs.chunks, pairs.candidates, pairs.facts) <= _left_s(pairs.candidates, pairs.facts))
        )

    def observe(self, pairs: JobPairs) -> Observation:
        """The expected walltime and the remaining time; no limit while no shutdown is announced."""
        left = limit_number(_left_s(pairs.candidates, pairs.facts)) if pairs.tuning.flag("FEATURES_DRAINING") else None
        inputs = {
            "shutdown_at_s": number(pairs.candidates.shutdown_s),
            **walltime_inputs(pairs.chunks, pairs.candidates),
        }
        return Observation(
            number(_expected_s(pairs.chunks, pairs.candidates, pairs.facts)),
            "<=",
            left,
            "s",
            "features.shutdowntime",
            inputs,
        )


def _left_s(candidates: QueueTable, facts: JobFacts) -> Floats:
    return np.maximum(0.0, candidates.shutdown_s - facts.now_s)


def _expected_s(tasks: WorkTable, candidates: QueueTable, facts: JobFacts) -> Floats:
    expected = longest_walltime(tasks, facts).at(candidates)
    return np.where(np.isnan(expected) | tasks.merging, ONE_DAY_S, expected)
