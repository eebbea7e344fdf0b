from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from broker.pilots.model.worker_reports import (
    WorkerRefused,
    moment,
    normalized_cpu_model,
    read_gpus,
    read_node,
    read_worker,
)

NODE = {"site": "S", "host_name": "slot1_3@host.org", "cpu_model": "AMD EPYC 7351 16-Core"}


@pytest.mark.parametrize(
    "text",
    ["2024-11-02 00:02:18", "02-NOV-24 00:02:18", "2024-11-02T00:02:18", "2024-11-02T01:02:18+01:00",
     "datetime/2024-11-02 00:02:18.000000"],
)  # fmt: skip
def test_times_are_read_in_every_form(text: str) -> None:
    assert moment(text) == datetime(2024, 11, 2, 0, 2, 18, tzinfo=UTC).replace(tzinfo=None)


@pytest.mark.parametrize("value", ["", "now", 5, None, "2024-13-02 00:00:00"])
def test_an_invalid_time_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        moment(value)


def test_a_worker_is_read() -> None:
    report = read_worker({"workerID": 3, "status": "running", "nCore": 8, "endTime": None, "syncLevel": 0})
    assert (report.worker, dict(report.columns)) == (3, {"status": "running", "ncore": 8, "endtime": None})


@pytest.mark.parametrize(
    "values",
    [None, [], {}, {"workerID": "x"}, {"workerID": 1, "nCore": "many"}, {"workerID": 1, "startTime": "soon"},
     {"workerID": 1, "errorCode": 2**31}],
)  # fmt: skip
def test_a_bad_worker_is_refused(values: Any) -> None:
    with pytest.raises(WorkerRefused):
        read_worker(values)


def test_a_node_is_read_without_its_slot() -> None:
    report = read_node({**NODE, "panda_queue": "Q", "n_logical_cpus": 64, "clock_speed": 2400.5})
    assert report.key == {"site": "S", "host_name": "host.org", "cpu_model": NODE["cpu_model"]}
    assert (report.queue, report.columns["n_logical_cpus"], report.columns["clock_speed"]) == ("Q", 64, 2400.5)
    assert report.columns["total_memory"] is None


@pytest.mark.parametrize(
    "changes", [{"site": " "}, {"host_name": "slot@"}, {"n_sockets": 2**31}, {"total_memory": -1}, {"clock_speed": 1e9}]
)
def test_a_bad_node_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(WorkerRefused):
        read_node(NODE | changes)


def test_gpus_are_read() -> None:
    report = read_gpus({"site": "S", "host_name": "h", "vendor": "NVIDIA", "model": "A100", "count": 4, "vram": 40960})
    assert report.key == {"site": "S", "host_name": "h", "vendor": "NVIDIA", "model": "A100"}
    assert (report.columns["count"], report.columns["vram"], report.columns["framework"]) == (4, 40960, None)


def test_names_of_cpu_models_are_normalised() -> None:
    assert normalized_cpu_model("Intel(R) Xeon(R) CPU E5-2630 v3 @ 2.40GHz 20480 KB") == "Intel Xeon E5-2630 v3 20480"
