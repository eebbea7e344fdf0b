from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from broker.lifecycle.model.jobs import WaitingJob, youngest_first

CREATED = datetime(2026, 8, 1, 10)  # noqa: DTZ001 - as in PanDA's tables


def job(pandaid: int, **columns: Any) -> WaitingJob:
    defaults: dict[str, Any] = {"table": "jobsactive4", "jobstatus": "activated", "queue": "Q", "gshare": "MC"}
    times = {"modificationtime": CREATED, "creationtime": CREATED, "starttime": None}
    return WaitingJob(pandaid, **{**defaults, "jeditaskid": 1, "jobdefinitionid": 1, **times, **columns})


@pytest.mark.parametrize(
    ("columns", "was_started"),
    [
        ({}, False),
        ({"jobstatus": "defined"}, False),
        ({"jobstatus": "starting"}, True),
        ({"starttime": CREATED}, True),
        ({"starttime": datetime(1970, 1, 1)}, False),  # noqa: DTZ001
    ],
)
def test_whether_a_job_was_ever_started(columns: dict[str, Any], was_started: bool) -> None:
    assert job(1, **columns).was_started is was_started


def test_the_youngest_jobs_come_first_and_jobs_without_a_time_last() -> None:
    older = CREATED.replace(hour=9)
    jobs = [job(1), job(2), job(9, creationtime=older), job(99, creationtime=None), job(4, jobstatus="starting"),
            job(5, jobstatus="starting"), job(8, jobstatus="starting", creationtime=older)]  # fmt: skip
    assert youngest_first(jobs) == ([2, 1, 9, 99], [5, 4, 8])
    assert youngest_first([]) == ([], [])
