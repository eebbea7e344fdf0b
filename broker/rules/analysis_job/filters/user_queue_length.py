"""One user must not fill a queue."""

from __future__ import annotations

import numpy as np

from broker.domain.analysis import KEYS, USER_LENGTH, AnalysisFacts, Stabilized, load_of, stabilize, stats
from broker.rules.contract import (
    AnalysisPairs,
    Bools,
    CompiledStep,
    Filter,
    Observation,
    Reason,
    TuningView,
    flag,
    number,
)

PROVENANCE = "ATLAS Analysis Job Brokerage"


class UserQueueLength(Filter[AnalysisPairs]):
    """The user does not have too many queued jobs at the queue.

    Rejects queues at which the user has more queued jobs of the share than max_q_len, if the queue can be throttled at
    all. Not for merging, nor for the one queue that a task names.

    Source: ATLAS Analysis Job Brokerage, Analysis Stabilizer.
    """

    name = "user_queue_length"
    reason = Reason(
        code="user_queue_length",
        title="The user has not too many queued jobs at the queue",
        violation="Enough of your jobs wait at the queue already",
        no_candidate="has room for more jobs of the user",
        who="wait",
        cure="Wait: the queue takes more of your jobs as those that are there start.",
    )
    kind = "temporary"
    temporary_issue = True
    problem_for_user = True
    moving = True
    stabilizer = True
    keys = KEYS
    sources = (
        "jobs",
        "user_jobs",
    )
    unknown_policy = "keep"
    provenance = PROVENANCE
    pair_by_pair = True

    @property
    def compiled_step(self) -> CompiledStep:
        """The step of the compiled loop that judges again with placed jobs, bit for bit the same."""
        return CompiledStep("user_queue_length", keys={key: key for key in KEYS})

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks that neither merge nor name their one queue."""
        return np.asarray(~pairs.chunks.merging & ~pairs.facts.site_named)

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where the user does not have too many queued jobs at the queue."""
        known = pairs.facts
        # every user may have this many queued jobs anywhere: nothing else has to be checked
        if not (known.user_queued > pairs.tuning.number(USER_LENGTH)).any():
            return np.ones((1, 1), dtype=np.bool_)
        stabilized = stabilize(load_of(known), pairs.tuning.number)
        return np.asarray(_exempt(stabilized, known) | (known.user_queued <= stabilized.max_q_len))

    def may_reject(self, facts: AnalysisFacts, tuning: TuningView) -> Bools:
        """(T, Q): False up to the number of queued jobs that every user may have anywhere."""
        return np.asarray(facts.user_queued > tuning.number(USER_LENGTH))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """The user's queued jobs, and every figure behind the limit."""
        known = pairs.facts
        load = load_of(known)
        stabilized = stabilize(load, pairs.tuning.number)
        limit = None if flag(_exempt(stabilized, known)) else number(stabilized.max_q_len)
        return Observation(number(known.user_queued), "<=", limit, "jobs", "rule", dict(stats(load, stabilized)))


def _exempt(stabilized: Stabilized, facts: AnalysisFacts) -> Bools:
    """(T, Q): queues that cannot be throttled, and users whom the stabilizer ignores."""
    return np.asarray(~stabilized.can_be_throttled | facts.user_ignored)
