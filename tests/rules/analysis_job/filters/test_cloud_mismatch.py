"""A task of a cloud goes to the queues of that cloud."""

from __future__ import annotations

import pytest

from broker.rules.analysis_job.filters.cloud_mismatch import CloudMismatch
from tests.rules.analysis_job.analysis_cases import kept, rejected
from tests.rules.builders import Case, check

CASES = [
    kept(cloud="DE", cloud_of_queue="DE"),
    rejected(cloud="DE", cloud_of_queue="UK"),
    rejected(cloud="DE", cloud_of_queue="de"),
    rejected(cloud="DE", cloud_of_queue=None),
    *(kept(cloud=cloud, cloud_of_queue="UK") for cloud in (None, "", "any", "WORLD")),
    rejected(cloud="world", cloud_of_queue="UK"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.given))
def test_cloud_mismatch(case: Case) -> None:
    check(CloudMismatch(), case)
