"""Queues must be online unless they are listed."""

from __future__ import annotations

import pytest

from broker.rules.production_job.filters.status import Status
from tests.rules.builders import Case, check, kept, rejected

CASES = [
    kept(),
    rejected(queue_status="standby"),
    rejected(queue_status="offline"),
    rejected(queue_status="test"),
    rejected(queue_status="ONLINE"),
    rejected(queue_status=None),
    rejected(queue_status="brokeroff"),
    kept(queue_status="offline", one_preassigned=True),
    kept(queue_status="test", listed=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_status(case: Case) -> None:
    check(Status(), case)


@pytest.mark.parametrize(
    "case",
    [
        kept(queue_status="online"),
        kept(queue_status="test"),
        kept(queue_status="brokeroff"),
        rejected(queue_status="offline"),
    ],
    ids=lambda case: str(case.given),
)
def test_status_with_options(case: Case) -> None:
    check(Status().configured({"also": ("test", "brokeroff")}), case)
