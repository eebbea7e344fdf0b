"""Job counts, pilots, workers, slots, software and CPU levels."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import pytest

from broker.domain.grid import COUNTED_STATUSES
from broker.snapshot.snapshot import Snapshot
from tests.snapshot.raw_grid import NOW, ago, at_site, build, jobs, queue

QUEUES = [queue("A"), queue("ANALY_B", type="analysis"), queue("C")]
NUCLEUS: dict[str, Any] = {
    "panda_site": [at_site("A", "NUC")],
    "site": [{"site_name": "NUC", "role": "nucleus"}],
}


def count(snapshot: Snapshot, name: str, tag: str, status: str) -> float:
    row = list(snapshot.unified.name).index(name)
    return float(
        snapshot.jobs.by_accounting_key[row, snapshot.jobs.accounting_keys.index(tag), COUNTED_STATUSES.index(status)]
    )


def total(snapshot: Snapshot, name: str, status: str) -> float:
    return float(snapshot.jobs.total[list(snapshot.unified.name).index(name), COUNTED_STATUSES.index(status)])


def codes(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    return [(entry.source, entry.identifier, entry.code) for entry in snapshot.dropped_rows]


def test_jobs_are_counted_by_queue_share_and_status() -> None:
    snapshot = build(
        schedconfig_json=QUEUES,
        job_counts=[
            *(jobs("A", status, index + 1) for index, status in enumerate(COUNTED_STATUSES)),
            jobs("A", "running", 10, resource_type="MCORE"),
            jobs("A", "running", 100, gshare="Derivation"),
            jobs("A", "holding", 1000),
            jobs("A", "activated", 7, gshare=None),
            jobs("UNKNOWN", "running", 5),
            jobs("C", "running", None),
        ],
    )
    assert [count(snapshot, "A", "Simulation", status) for status in COUNTED_STATUSES] == [1, 2, 3, 4, 15, 6]
    assert count(snapshot, "A", "Derivation", "running") == 100
    assert count(snapshot, "A", "", "activated") == 7
    assert total(snapshot, "A", "running") == 115
    assert total(snapshot, "A", "activated") == 10
    assert total(snapshot, "C", "running") == 0
    assert snapshot.dropped_rows == ()


@pytest.mark.parametrize(
    ("function", "status", "special"),
    [
        ("Resource", "active", True),
        ("Resource", None, True),
        ("Resource", "inactive", False),
        ("gshare", "active", False),
    ],
)
def test_jobs_of_a_resource_work_queue_count_under_its_id_and_their_share(
    function: str, status: str | None, special: bool
) -> None:
    work_queue = {"queue_id": 55, "queue_name": "hpc", "status": status, "queue_function": function}
    counts = [jobs("A", "running", 3, workqueue_id=55), jobs("A", "running", 4, workqueue_id=1)]
    snapshot = build(schedconfig_json=QUEUES, jedi_work_queue=[work_queue], job_counts=counts)
    assert ("#55" in snapshot.jobs.accounting_keys) is special
    assert snapshot.jobs.resource_work_queues == (frozenset({55}) if special else frozenset())
    if special:
        assert count(snapshot, "A", "#55", "running") == 3
    assert count(snapshot, "A", "Simulation", "running") == 7
    assert total(snapshot, "A", "running") == 7


@pytest.mark.parametrize(("queue_id", "code"), [(None, "missing"), ("x", "wrong_type")])
def test_a_resource_queue_without_a_number(queue_id: Any, code: str) -> None:
    rows = [{"queue_id": queue_id, "queue_name": "hpc", "queue_function": "Resource"}]
    snapshot = build(schedconfig_json=QUEUES, jedi_work_queue=rows)
    assert codes(snapshot) == [("work_queues", "hpc", code)]


@pytest.mark.parametrize(("column", "value", "code"), [("njobs", -1, "negative"), ("ncores", math.nan, "not_finite")])
def test_an_invalid_count_is_dropped(column: str, value: float, code: str) -> None:
    rows = [jobs("A", "running", 5) | {column: value}, jobs("A", "running", 2)]
    snapshot = build(schedconfig_json=QUEUES, job_counts=rows)
    assert total(snapshot, "A", "running") == 2
    assert codes(snapshot) == [("jobs", "A", code)]


def test_transferring_jobs_by_nucleus() -> None:
    snapshot = build(
        schedconfig_json=QUEUES,
        **NUCLEUS,
        job_counts=[
            jobs("C", "transferring", 4, nucleus="NUC"),
            jobs("C", "transferring", 2, nucleus="NUC", gshare="Derivation"),
            jobs("C", "transferring", 8, nucleus="GONE"),
            jobs("C", "transferring", 16, nucleus=None),
            jobs("C", "running", 32, nucleus="NUC"),
        ],
    )
    assert snapshot.jobs.transferring_to[2].tolist() == [6]
    assert total(snapshot, "C", "transferring") == 30


def test_running_cores_by_vo_and_label() -> None:
    snapshot = build(
        schedconfig_json=QUEUES,
        job_counts=[
            jobs("A", "running", 2, ncores=16),
            jobs("A", "running", 1, ncores=8, gshare="Derivation"),
            jobs("A", "running", 5, ncores=5, prodsourcelabel="user"),
            jobs("A", "running", 5, ncores=None, prodsourcelabel=None, vo=None),
            jobs("A", "starting", 5, ncores=500),
            jobs("A", "running", 5, ncores=0),
        ],
    )
    keys = {key: snapshot.jobs.running_cores[0, index] for index, key in enumerate(snapshot.jobs.core_keys)}
    assert keys == {("atlas", "managed"): 24, ("atlas", "user"): 5, (None, None): 0}


@pytest.mark.parametrize(
    ("rows", "average"),
    [
        ([(4, 2000.0)], 500),
        ([(4, 2000.0), (1, 0.0)], 400),
        ([(0, 0.0)], 0),
        ([(None, None)], 0),
        ([(None, None), (2, 100.0)], 50),
        ([], 0),
    ],
)
def test_average_disk_io(rows: list[tuple[Any, Any]], average: float) -> None:
    counts = [jobs("A", "running", 9, diskio_jobs=count_of_jobs, diskio_per_core=io) for count_of_jobs, io in rows]
    counts.append(jobs("A", "activated", 9, diskio_jobs=9, diskio_per_core=1e6))
    assert build(schedconfig_json=QUEUES, job_counts=counts).unified.average_diskio_kbps[0] == average


def pilots(site: str, getjob: Any, updatejob: Any, **columns: Any) -> dict[str, Any]:
    row = {"site": site, "flag": "production", "hours": 3, "getjob": getjob, "updatejob": updatejob, "laststart": NOW}
    return {**row, **columns}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (pilots("A", 2, 3), 5),
        (pilots("A", 0, 0), 0),
        (pilots("A", None, 4), 4),
        (pilots("A", 2, 3, hours=1), 0),
        (pilots("A", 2, 3, flag="analysis"), 0),
        (pilots("A", 2, 3, flag="host.cern.ch"), 0),
        (pilots("ANALY_B", 2, 3), 0),
        (pilots("ANALY_B", 2, 3, flag="analysis"), 5),
        (pilots("GONE", 2, 3), 0),
    ],
)
def test_pilots(row: dict[str, Any], expected: float) -> None:
    unified = build(schedconfig_json=QUEUES, sitedata=[row]).unified
    assert unified.n_pilots.sum() == expected
    stamps = [stamp for stamp in unified.laststart_s if not math.isnan(stamp)]
    assert len(stamps) == (0 if row["hours"] == 1 or (expected == 0 and row["getjob"] == 2) else 1)


@pytest.mark.parametrize(
    ("columns", "code"),
    [({"getjob": -1}, "negative"), ({"updatejob": "x"}, "wrong_type"), ({"laststart": "yesterday"}, "wrong_type")],
)
def test_an_invalid_row_of_pilots_is_dropped_as_a_whole(columns: dict[str, Any], code: str) -> None:
    snapshot = build(schedconfig_json=QUEUES, sitedata=[pilots("A", 2, 3) | columns, pilots("C", 1, 1)])
    assert list(snapshot.unified.n_pilots) == [0, 0, 2]
    assert math.isnan(snapshot.unified.laststart_s[0])
    assert codes(snapshot) == [("pilots", "A", code)]


def workers(site: str, status: str, number: Any, stamp: datetime | None = NOW) -> dict[str, Any]:
    row = {"harvester_id": "h", "computingsite": site, "resourcetype": "SCORE", "jobtype": "managed"}
    return {**row, "status": status, "n_workers": number, "lastupdate": stamp}


def test_workers_of_the_last_hour() -> None:
    snapshot = build(
        schedconfig_json=QUEUES,
        harvester_worker_stats=[
            workers("A", "running", 1),
            workers("A", "submitted", 2, ago(minutes=59, seconds=59)),
            workers("A", "running", 4, ago(minutes=60)),
            workers("A", "running", 8, ago(minutes=61)),
            workers("A", "finished", 16),
            workers("A", "running", None),
            workers("GONE", "running", 32),
            workers("C", "running", 64, ago(minutes=5).replace(tzinfo=None)),
        ],
    )
    assert list(snapshot.unified.n_workers) == [3, 0, 64]
    assert snapshot.dropped_rows == ()


@pytest.mark.parametrize(
    ("number", "stamp", "code"), [(-1, NOW, "negative"), (3, None, "missing"), ("x", NOW, "wrong_type")]
)
def test_an_invalid_row_of_workers_is_dropped(number: Any, stamp: datetime | None, code: str) -> None:
    snapshot = build(schedconfig_json=QUEUES, harvester_worker_stats=[workers("A", "running", number, stamp)])
    assert codes(snapshot) == [("workers", "A", code)]


def slots(name: str, number: Any, share: Any = None, kind: Any = None, expiry: Any = None, **times: Any) -> Any:
    return {
        "pandaqueuename": name,
        "gshare": share,
        "resourcetype": kind,
        "numslots": number,
        "expirationtime": expiry,
        **times,
    }


@pytest.mark.parametrize(
    ("first", "second", "number"),
    [
        # each row: number of slots, minutes since its change, further columns
        ((10, 60), (50, 6), 50),
        ((10, 6), (50, 60), 10),
        ((50, 60), (10, 6), 10),
        ((50, 6), (10, 6), 10),
        # a row without a time is older than any row with one; without times the last row counts
        ((50, 60), (10, None), 50),
        ((50, None), (10, 60), 10),
        ((50, None), (10, None), 10),
        # an expired row or an invalid number of slots does not count, however new it is
        ((10, 60), (50, 6, {"expiry": NOW}), 10),
        ((10, 60), (-1, 6), 10),
        # other keys
        ((10, 60), (50, 6, {"kind": "SCORE"}), 10),
        ((10, 60), (50, 6, {"share": "Other"}), 10),
    ],
)
def test_the_newest_of_two_rows_of_slots_counts(first: Any, second: Any, number: int) -> None:
    rows = [
        slots(
            "A",
            slots_,
            **(further_columns[0] if further_columns else {}),
            modificationtime=None if ago_ is None else ago(minutes=ago_),
        )
        for slots_, ago_, *further_columns in (first, second)
    ]
    table = build(schedconfig_json=QUEUES, harvester_slots=rows).slots
    entries = zip(table.gshare, table.resource_type, table.numslots, strict=True)
    assert [slots_ for share, kind, slots_ in entries if (share, kind) == (None, None)] == [number]


def test_expired_and_invalid_slots_are_ignored() -> None:
    snapshot = build(
        schedconfig_json=QUEUES,
        harvester_slots=[
            slots("A", 10, "Simulation", "SCORE"),
            slots("A", 0),
            slots("A", -1, "Derivation"),
            slots("A", 30, expiry=NOW),
            slots("A", 40, "Other", expiry=ago(seconds=-1)),
            slots("GONE", 50),
            slots("C", None),
            slots("C", "x"),
            slots("C", 5, share=7),
        ],
    )
    table = snapshot.slots
    rows = sorted(zip(table.unified, table.gshare, table.resource_type, table.numslots, strict=True), key=str)
    assert rows == sorted([(0, None, None, 0), (0, "Other", None, 40), (0, "Simulation", "SCORE", 10)], key=str)
    assert codes(snapshot) == [("slots", "C", "wrong_type"), ("slots", "C", "wrong_type")]


def test_software_and_gpus() -> None:
    snapshot = build(
        schedconfig_json=QUEUES,
        sw_tags=[
            {"panda_queue": "A", "data": '{"tags": []}'},
            {"panda_queue": "C", "data": "["},
            {"panda_queue": "ALL"},
        ],
        mv_worker_node_gpu_summary=[
            {"panda_queue": "C", "model": "A100"},
            {"panda_queue": "C", "model": "H100"},
            {"panda_queue": "GONE"},
        ],
    )
    assert [None if tags is None else tags.readable for tags in snapshot.unified.software] == [True, None, False]
    assert codes(snapshot) == [("software", "C", "invalid_json"), ("software", "ALL", "wrong_type")]
    assert [[row.model for row in rows] for rows in snapshot.unified.gpus] == [[], [], ["A100", "H100"]]


def test_cpu_levels() -> None:
    def node(name: str, level: str | None, percent: Any) -> dict[str, Any]:
        return {"panda_queue": name, "cpu_architecture_level": level, "pct_within_pq": percent}

    snapshot = build(
        schedconfig_json=QUEUES,
        mv_worker_node_summary=[
            *(node("A", "x86-64-v3", 40), node("A", "x86-64-v3", 30), node("A", "x86-64-v2", 10), node("A", None, 20)),
            *(node("C", "x86-64-v4", 80), node("C", "x86-64-v4", 80), node("C", "x86-64-v3", -1), node("GONE", "v", 1)),
        ],
    )
    assert snapshot.unified.cpu_levels == ({"x86-64-v3": 70, "x86-64-v2": 10}, {}, {"x86-64-v4": 100})
    assert codes(snapshot) == [("worker_nodes", "C", "negative")]
