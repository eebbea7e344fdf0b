"""Jobs, slots, cores and the readings of "running"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from broker.domain.arrays import texts
from broker.domain.grid import COUNTED_STATUSES
from broker.engine.job.count_facts import (
    JobCountReading,
    accounting_keys_of,
    counts_by_status,
    preferred_cpus,
    running_cores,
    slots_of,
    transferring,
)
from broker.engine.job.running import Running, RunningInputs
from broker.snapshot.snapshot import Snapshot
from tests.engine.small_work import chunk_table
from tests.snapshot.raw_grid import at_site, build, endpoint, jobs, queue, ucore, uses

TYPES = [{"resource_name": "SCORE", "mincore": 1, "maxcore": 1}, {"resource_name": "MCORE", "mincore": 2}]

RUNNING = COUNTED_STATUSES.index("running")


def grid(**tables: Any) -> Snapshot:
    return build(schedconfig_json=[queue("A"), ucore("B")], resource_types=TYPES, **tables)


@pytest.mark.parametrize(
    ("workqueue", "share", "accounting_key"),
    [(5.0, "Sim", "#5"), (6.0, "Sim", "Sim"), (None, "Sim", "Sim"), (6.0, None, ""), (5.0, None, "#5")],
)
def test_accounting_keys(workqueue: float | None, share: str | None, accounting_key: str) -> None:
    assert accounting_keys_of(chunk_table(1, workqueue_id=workqueue, gshare=share), frozenset({5})).tolist() == [
        accounting_key
    ]


def test_jobs_count_by_unified_queue_and_accounting_key() -> None:
    counts = [jobs("B", status, index + 1) for index, status in enumerate(COUNTED_STATUSES)]
    snapshot = grid(job_counts=[*counts, jobs("A", "running", 50, gshare="Other")])
    by_status = counts_by_status(snapshot, texts(["Simulation", "Other", "Nobody", "Simulation"])).every
    assert by_status.shape == (6, 4, 3)
    assert list(snapshot.queues.name) == ["A", "B/MCORE", "B/SCORE"]
    assert by_status[:, 0].tolist() == [[0, n, n] for n in range(1, 7)]
    assert by_status[4, 1].tolist() == [50, 0, 0]
    assert not by_status[:, 2].any()
    assert by_status[:, 3].tolist() == by_status[:, 0].tolist()


def test_a_resource_queue_counts_all_labels_or_the_label_of_the_task() -> None:
    rows = [
        jobs("A", "running", 3, workqueue_id=5, prodsourcelabel="managed"),
        jobs("A", "running", 4, workqueue_id=5, prodsourcelabel="user"),
        jobs("A", "running", 50, workqueue_id=6, prodsourcelabel="managed", gshare="Sim"),
    ]
    snapshot = grid(job_counts=rows)
    keys, labels = texts(["#5", "#5", "Sim"]), texts(["managed", "user", "managed"])
    of_all_labels = JobCountReading().counts(snapshot, keys, labels).every[RUNNING]
    by_label = JobCountReading().configured({"resource_queues": "label_of_task"})
    of_task_label = by_label.counts(snapshot, keys, labels).every[RUNNING]
    assert of_task_label.tolist() == [[3, 0, 0], [4, 0, 0], [50, 0, 0]]
    assert of_all_labels[:, 0].tolist() == counts_by_status(snapshot, keys).every[RUNNING][:, 0].tolist()


def slot(share: str | None, kind: str | None, number: float) -> dict[str, Any]:
    return {"pandaqueuename": "A", "gshare": share, "resourcetype": kind, "numslots": number}


ROWS = [
    slot("Sim", "MCORE", 1),
    slot("Sim", None, 2),
    slot(None, "MCORE", 4),
    slot(None, None, 8),
    slot("Empty", "X", 0),
    slot("101", None, 16),
]


@pytest.mark.parametrize(
    ("rows", "share", "kind", "expected"),
    [
        (ROWS, "Sim", "MCORE", 1),
        (ROWS, "Sim", "SCORE", 2),
        (ROWS, "Sim", None, 3),
        (ROWS, "Other", "MCORE", 4),
        (ROWS, "Other", "SCORE", 8),
        (ROWS, "Other", None, 12),
        (ROWS, "", "MCORE", 4),
        (ROWS, "Empty", "X", 0),  # none is not 0
        (ROWS, "Empty", None, 0),
        (ROWS, "Empty", "MCORE", math.nan),  # the share's own rows win, even without this type
        (ROWS[:1], "Other", "MCORE", math.nan),
        (ROWS[:1], "Sim", "SCORE", math.nan),
        (ROWS, "#101", "MCORE", 16),  # a work queue has its rows under its number
        (ROWS, "#102", "MCORE", 4),
        ([], "Sim", "MCORE", math.nan),
    ],
)
def test_slots(rows: list[dict[str, Any]], share: str, kind: str | None, expected: float) -> None:
    slots = slots_of(grid(harvester_slots=rows), texts([share]), texts([kind])).every
    np.testing.assert_array_equal(slots, [[expected, math.nan]])


@pytest.mark.parametrize(
    ("running", "starting", "workers", "slots", "cores", "expected"),
    [
        (5, 0, 0, None, 1, 5),
        (5, 0, 10, None, 1, 10),
        (5, 0, 30, None, 1, 20),  # workers count up to 20
        (19, 0, 30, None, 1, 20),
        (20, 0, 30, None, 1, 20),
        (21, 0, 30, None, 1, 21),
        (10, 0, 10, None, 1, 10),
        (10, 0, 9, None, 1, 10),
        (0, 0, 0, 100, 8, 12),
        (13, 0, 0, 100, 8, 13),
        (0, 0, 0, 100, 0, 100),  # at least one core
        (0, 0, 0, 7, 8, 0),
        (5, 9, 0, 0, 1, 9),  # no slots published: the starting jobs
        (5, 3, 0, 0, 1, 5),
        (5, 9, 0, 1, 1, 5),
        (5, 9, 0, None, 1, 5),
        (0, 15, 18, 0, 1, 18),
    ],
)
def test_the_largest_reading_of_running(
    running: float, starting: float, workers: float, slots: float | None, cores: float, expected: float
) -> None:
    assert reading(Running(), running, starting, slots, workers=workers, cores=cores) == expected


def reading(step: Running, running: float, starting: float, slots: float | None, **inputs: float) -> float:
    values = {"workers": 0.0, "cores": 1.0, "pilots": 1.0, **inputs}
    flags = {name: np.array([[bool(inputs.get(name, True))]]) for name in ("pull_ups", "low_priority", "pilots_count")}
    numbers = {name: np.array([[value]], dtype=float) for name, value in values.items() if name not in flags}
    jobs = (np.array([[value]], dtype=float) for value in (running, starting, slots))
    return float(step.equivalent(*jobs, RunningInputs(**numbers, **flags)).item())


@pytest.mark.parametrize(
    ("running", "starting", "slots", "inputs", "expected"),
    [
        (3, 0, None, {"workers": 9}, 9),
        (3, 0, None, {"workers": 9, "pull_ups": 0}, 3),
        (3, 0, None, {"workers": 9, "pilots": 0}, 3),
        (3, 0, None, {"workers": 9, "low_priority": 0}, 3),
        (0, 0, None, {"workers": 9, "low_priority": 0}, 0),
        (3, 0, 40, {"cores": 8}, 5),
        (3, 0, 40, {"cores": 8, "low_priority": 0}, 3),
        (3, 2, 0, {}, 5),  # starting jobs are added, even to batch workers
        (3, 2, 0, {"workers": 9}, 11),
    ],
)
def test_running_as_panda_reads_it(
    running: float, starting: float, slots: float | None, inputs: dict[str, float], expected: float
) -> None:
    step = Running().configured({"gates": "bootstrap", "combine": "in_turn"})
    assert reading(step, running, starting, slots, **inputs) == expected


def test_running_cores() -> None:
    counts = [jobs("B", "running", 1, ncores=8), jobs("B", "running", 1, ncores=2, prodsourcelabel="user")]
    snapshot = grid(job_counts=counts)
    vos, labels = texts(["atlas", "atlas", "cms", None]), texts(["managed", "user", "managed", None])
    assert running_cores(snapshot, vos, labels).every.tolist() == [[0, 8], [0, 2], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("role", "status", "default_write", "expected"),
    [
        ("nucleus", "ON", "Y", 9),
        ("nucleus", "OFF", "Y", 4),
        ("nucleus", "TEST", "Y", 4),
        ("nucleus", "OFF", "N", 9),  # without a default output endpoint the nucleus is not known to be closed
        ("satellite", "OFF", "Y", 9),
        ("tier3", "OFF", "Y", 9),
    ],
)
def test_jobs_transferring_to_a_closed_nucleus_do_not_count(
    role: str, status: str, default_write: str, expected: float
) -> None:
    snapshot = build(
        schedconfig_json=[queue("A"), queue("N")],
        panda_site=[at_site("N", "NUC")],
        site=[{"site_name": "NUC", "role": role}],
        ddm_endpoint=[endpoint("D", "NUC", detailed_status=f'{{"write_wan": "{status}"}}')],
        panda_ddm_relation=[uses("N", "D", default_write=default_write)],
        job_counts=[jobs("A", "transferring", 5, nucleus="NUC"), jobs("A", "transferring", 4, nucleus="ELSEWHERE")],
    )
    assert transferring(snapshot).tolist() == [expected, 0]


@pytest.mark.parametrize(("releases", "percent"), [(["AUTO"], 40), (["ANY"], 0), ([], 0), (["AUTO", "x"], 0)])
def test_preferred_cpus(releases: list[str], percent: float) -> None:
    node = {"panda_queue": "A", "cpu_architecture_level": "x86-64-v3", "pct_within_pq": 40}
    snapshot = build(
        schedconfig_json=[queue("A", releases=releases), ucore("B")],
        resource_types=TYPES,
        mv_worker_node_summary=[node],
    )
    preference = '{"cpu_pref": {"preferred_architecture_level": "%s"}}'
    percentages = preferred_cpus(
        snapshot, texts([preference % "x86-64-v3", preference % "x86-64-v4", None, "{", "x86_64-el9"])
    ).every
    assert percentages.tolist() == [[percent, 0], [0, 0], [0, 0], [0, 0], [0, 0]]
