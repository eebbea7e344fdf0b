"""At most 2 x max(20, running) jobs of the share and resource type may be queued."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.queue_cap import QueueCap
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(queued_of_type=40.0),
    rejected(queued_of_type=41.0),
    kept(queued_of_type=40.0, running_of_type=20.0),
    rejected(queued_of_type=41.0, running_of_type=20.0),
    kept(queued_of_type=42.0, running_of_type=21.0),
    rejected(queued_of_type=43.0, running_of_type=21.0),
    # jobs of other resource types do not count
    kept(defined=500.0),
    # merging is not exempt; a single named queue is
    rejected(queued_of_type=41.0, merging=True),
    kept(queued_of_type=41.0, site_named=True),
    rejected(queued_of_type=41.0, named=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_queue_cap(case: Case) -> None:
    check(QueueCap(), case)
