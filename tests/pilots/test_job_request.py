from __future__ import annotations

from typing import Any

import pytest

from broker.pilots.model.job_request import (
    JobRequest,
    RequestRefused,
    conditions_of,
    cpu_time_left_s,
    read_arguments,
    read_form,
)

# What version 3.7.0.36 of the pilot sends.
FORM = {
    "siteName": "GRID_TEST", "computingElement": "GRID_TEST", "prodSourceLabel": "managed", "diskSpace": "20000",
    "workingGroup": "", "cpu": "2000.0", "mem": "32000.5", "node": "host.org", "harvester_id": "h", "worker_id": "12",
}  # fmt: skip


def test_a_form_is_read() -> None:
    request = read_form(FORM)
    assert request == JobRequest(
        "GRID_TEST", "managed", 32000, 20000, node="host.org", computing_element="GRID_TEST", harvester="h", worker=12
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mem": "-1"}, {"memory_mb": 0}),
        ({"mem": "much"}, {"memory_mb": 0}),
        ({"mem": "1e400"}, {"memory_mb": 0}),
        ({"mem": "nan", "diskSpace": ""}, {"memory_mb": 0, "disk_mb": 0}),
        ({"taskID": "None"}, {"task": None}),
        ({"taskID": "17"}, {"task": 17}),
        ({"worker_id": "x"}, {"worker": None}),
        ({"nJobs": "3"}, {"jobs": 3, "in_bulk": True}),
        ({"nJobs": "0"}, {"jobs": 1, "in_bulk": True}),
        ({"nJobs": "100000"}, {"jobs": 100, "in_bulk": True}),
        ({"nJobs": "many"}, {"jobs": 1, "in_bulk": False}),
        ({"node": "a\0b" + "c" * 200}, {"node": "a\ufffdb" + "c" * 125}),
        ({"remaining_time": "3600"}, {"remaining_s": 3600}),
    ],
)
def test_unreadable_values_set_no_limit(changes: dict[str, str], expected: dict[str, Any]) -> None:
    request = read_form(FORM | changes)
    assert {name: getattr(request, name) for name in expected} == expected


@pytest.mark.parametrize("site", [None, "", "NULL"])
def test_the_queue_must_be_named(site: str | None) -> None:
    with pytest.raises(RequestRefused, match="siteName"):
        read_form(FORM | {"siteName": site})


def test_arguments_are_read() -> None:
    request = read_arguments({"site_name": "Q", "memory": 10.5, "n_jobs": 2, "scheduler_id": "s", "worker_id": 4})
    assert request == JobRequest("Q", memory_mb=10, jobs=2, in_bulk=True, scheduler="s", harvester="s", worker=4)


@pytest.mark.parametrize(
    ("label", "labels"),
    [
        (None, ("managed", "test", "prod_test", "install")),
        ("managed", ("managed", "test", "prod_test", "install")),
        ("user", ("user", "panda", "install")),
        ("unified", ("managed", "test", "prod_test", "install", "user", "panda")),
        ("rc_test", ("rc_test",)),
        ("test", ("test",)),
    ],
)
def test_a_label_accepts_jobs_of_several_labels(label: str | None, labels: tuple[str, ...]) -> None:
    assert conditions_of(JobRequest("Q", label)).labels == labels


def test_a_queue_in_test_gives_tests_only() -> None:
    request = JobRequest("Q", "managed", computing_element="ce", job_type="user")
    assert request.at_queue_in("online") == request
    request_at_test_queue = request.at_queue_in("test")
    assert request_at_test_queue.label == "test"
    conditions = conditions_of(request_at_test_queue)
    assert (conditions.labels, conditions.processing_type) == (("test", "prod_test", "install"), "gangarobot")
    assert conditions.job_labels == ("user", "panda")
    assert JobRequest("Q", "rc_test").at_queue_in("test").label == "rc_test"


@pytest.mark.parametrize(
    ("remaining_s", "maxtime_s", "corepower", "cores", "expected"),
    [
        (0, 0, 10, 1, None),
        (0, 1000, 0, 1, None),
        (0, 1000, 10, 8, 80_000),
        (500, 1000, 10, 0, 5_000),
        (500, 0, 10, 1, 5_000),
    ],
)
def test_cpu_time_follows_from_the_walltime(
    remaining_s: int, maxtime_s: float, corepower: float, cores: int, expected: int | None
) -> None:
    assert cpu_time_left_s(JobRequest("Q", remaining_s=remaining_s), maxtime_s, corepower, cores) == expected
