"""The queue length limit of one user, by every figure of the stabilizer."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.user_queue_length import UserQueueLength
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

#: 100 jobs wait at the queue, so it can be throttled; no job starts, so none is expected soon.
FULL = {"activated": 100.0}
CASES = [
    # nQ_max = 100, for two users: 50
    kept(**FULL, users=2.0, user_queued=50.0),
    rejected(**FULL, users=2.0, user_queued=51.0),
    # one job fewer in the queue, and no user is throttled
    kept(activated=99.0, users=2.0, user_queued=99.0),
    *(rejected(**{state: 100.0}, users=2.0, user_queued=51.0) for state in ("defined", "assigned", "starting")),
    # 12.5 jobs start per hour: the queue holds 8 hours of work; nQ_max = 12 x 12.5 = 150
    kept(**FULL, to_running_rate=12.5, users=2.0, user_queued=75.0),
    rejected(**FULL, to_running_rate=12.5, users=2.0, user_queued=76.0),
    kept(**FULL, to_running_rate=12.6, users=2.0, user_queued=100.0),
    # 2 x 60 running = 120
    kept(**FULL, users_running=60.0, users=2.0, user_queued=60.0),
    rejected(**FULL, users_running=60.0, users=2.0, user_queued=61.0),
    # three quarters of the running jobs are the user's: 0.75 x 100
    kept(**FULL, users_running=40.0, user_running=30.0, users=9.0, user_queued=75.0),
    rejected(**FULL, users_running=40.0, user_running=30.0, users=9.0, user_queued=76.0),
    # every user may have 5, and 0.05 of the running jobs: 50 of 1,000
    kept(**FULL, users=100.0, user_queued=5.0),
    rejected(**FULL, users=100.0, user_queued=6.0),
    kept(**FULL, users_running=1000.0, users=1000.0, user_queued=50.0),
    rejected(**FULL, users_running=1000.0, users=1000.0, user_queued=51.0),
    # a queue without known users counts as one user's
    kept(**FULL, users=0.0, user_queued=100.0),
    rejected(**FULL, users=0.0, user_queued=101.0),
    # every tuning key
    rejected(activated=10.0, users=2.0, user_queued=6.0, BASE_QUEUE_LENGTH_PER_PQ=10),
    kept(**FULL, to_running_rate=12.5, users=2.0, user_queued=99.0, BASE_EXPECTED_WAIT_HOUR_ON_PQ=9),
    kept(**FULL, users=100.0, user_queued=6.0, BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER=6),
    kept(**FULL, users_running=1000.0, users=1000.0, user_queued=51.0, BASE_QUEUE_RATIO_ON_PQ=0.051),
    kept(**FULL, users_running=60.0, users=2.0, user_queued=61.0, STATIC_MAX_QUEUE_RUNNING_RATIO=2.1),
    kept(**FULL, to_running_rate=12.5, users=2.0, user_queued=76.0, MAX_EXPECTED_WAIT_HOUR=13),
    # exempt: merging, ignored users and a single named queue
    kept(**FULL, users=2.0, user_queued=51.0, merging=True),
    kept(**FULL, users=2.0, user_queued=51.0, user_ignored=True),
    kept(**FULL, users=2.0, user_queued=51.0, site_named=True),
    rejected(**FULL, users=2.0, user_queued=51.0, named=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_user_queue_length(case: Case) -> None:
    check(UserQueueLength(), case)
