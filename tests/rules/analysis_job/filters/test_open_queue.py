"""A queue must be online; a named queue may have any status but offline."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.open_queue import OpenQueue
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(queue_status="online"),
    *(
        rejected(queue_status=status)
        for status in ("brokeroff", "test", "paused", "standby", "offline", "Online", None)
    ),
    kept(queue_status="online", named=True),
    *(kept(queue_status=status, named=True) for status in ("brokeroff", "test", "paused", "standby", None)),
    rejected(queue_status="offline", named=True),
    # the single queue of a task is also a named one, but this is a separate fact
    rejected(queue_status="brokeroff", site_named=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_open_queue(case: Case) -> None:
    check(OpenQueue(), case)
