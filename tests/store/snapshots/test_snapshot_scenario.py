"""Counts of jobs back to jobs: the same counts come out of them again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from broker.snapshot.counted_rows import IS_DEFINED, job_rows, start_rows
from broker.snapshot.raw import RawSource, Rows
from broker.store.snapshots.snapshot_scenario import scenario_of
from tests.brokerages.small_grid import NOW

QUEUED = ("defined", "assigned", "activated", "starting")
PLACE = ("computingsite", "gshare", "prodsourcelabel")

jobs_of_grid = st.lists(
    st.fixed_dictionaries(
        {
            "computingsite": st.sampled_from(["A", "B"]),
            "gshare": st.sampled_from(["X", None]),
            "workqueue_id": st.sampled_from([1, None]),
            "jobstatus": st.sampled_from([*QUEUED, "running", "throttled", "transferring"]),
            "resource_type": st.just("SCORE"),
            "nucleus": st.none(),
            "vo": st.just("atlas"),
            "prodsourcelabel": st.sampled_from(["user", "managed"]),
            "produsername": st.sampled_from(["ann", "bob", None]),
            "workinggroup": st.sampled_from(["higgs", None, None]),
            "processingtype": st.sampled_from(["pmerge", "x"]),
            "corecount": st.integers(0, 9),
            "actualcorecount": st.none() | st.integers(0, 9),
            "diskio": st.none() | st.integers(0, 50),
        }
    ),
    max_size=25,
)


def counted(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the source of all jobs holds of them."""
    by = ("computingsite", "gshare", "workqueue_id", "jobstatus", "resource_type", "nucleus", "vo", "prodsourcelabel")
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for job in jobs:
        key = tuple(job[name] for name in by)
        zero = {"njobs": 0, "ncores": 0, "diskio_jobs": 0, "diskio_per_core": 0.0}
        row = found.setdefault(key, {**dict(zip(by, key, strict=True)), **zero})
        actual = job.get("actualcorecount")
        row["njobs"] += 1
        row["ncores"] += (job.get("corecount") if actual is None else actual) or 0
        if job.get("diskio") is not None:
            row["diskio_jobs"] += 1
            row["diskio_per_core"] += job["diskio"] / max(job.get("corecount") or 1, 1)
    return sorted(found.values(), key=str)


def owned(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the source of users' jobs holds of them."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    names = ("computingsite", "gshare", "produsername", "workinggroup", "prodsourcelabel", "is_merge", IS_DEFINED)
    counts = ("running_jobs", "throttled_jobs", "queued_jobs", "running_cores", "queued_cores")
    for job in jobs:
        full = {**job, "is_merge": job.get("processingtype") == "pmerge"}
        key = tuple(full.get(name) for name in names)
        row = found.setdefault(key, {**dict(zip(names, key, strict=True)), **dict.fromkeys(counts, 0)})
        status, cores = job["jobstatus"], job.get("corecount") or 0
        if status == "running":
            row["running_jobs"] += 1
            row["running_cores"] += cores
        elif status == "throttled" or status in QUEUED:
            row["throttled_jobs" if status == "throttled" else "queued_jobs"] += 1
            row["queued_cores"] += cores
    return sorted(found.values(), key=str)


@settings(max_examples=60, deadline=None)
@given(jobs_of_grid)
def test_the_same_counts_come_out(jobs: list[dict[str, Any]]) -> None:
    jobs = [{**job, IS_DEFINED: job["jobstatus"] in ("defined", "assigned")} for job in jobs]
    counts, owners = counted(jobs), owned(jobs)
    again = job_rows(counts, owners)
    assert len({row["pandaid"] for row in again}) == len(jobs)
    exact = ("njobs", "ncores", "diskio_jobs")
    for one, other in zip(counted(again), counts, strict=True):
        assert [one[name] for name in exact] == [other[name] for name in exact]
        # jobs of owners have the cores of the owners' count, so that their disk IO is rounded to whole kB/s
        assert one["diskio_per_core"] == pytest.approx(other["diskio_per_core"], abs=0.51)
    stats = [row for row in owned(again) if any(row[name] for name in row if name.endswith("_jobs"))]
    assert stats == [row for row in owners if any(row[name] for name in row if name.endswith("_jobs"))]
    assert _present(again) == _present(jobs)


def _present(jobs: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    names = ("computingsite", "gshare", "prodsourcelabel", "produsername", "workinggroup")
    return {tuple(row.get(name) for name in names) for row in owned(jobs)}


def test_jobs_of_a_status_that_is_not_counted_make_no_owner_more() -> None:
    place = {"computingsite": "A", "gshare": "X", "prodsourcelabel": "managed", "vo": "atlas", "processingtype": "x"}
    rest = {"workqueue_id": 1, "resource_type": "SCORE", "nucleus": None, "workinggroup": None, "is_defined": False}
    jobs = [
        {**place, **rest, "produsername": "ann", "jobstatus": status, "corecount": 8}
        for status in ("running", "transferring", "transferring", "holding")
    ]
    assert owned(job_rows(counted(jobs), owned(jobs))) == owned(jobs)


def test_disk_io_of_jobs_without_owner_is_exact() -> None:
    count = counted(
        [{**dict.fromkeys(("gshare", "workqueue_id", "resource_type", "nucleus", "vo", "prodsourcelabel"))}
         | {"computingsite": "A", "jobstatus": "running", "corecount": 8, "diskio": value} for value in (100, 37, 5)]
    )  # fmt: skip
    assert counted(job_rows(count, []))[0]["diskio_per_core"] == pytest.approx(142 / 8, rel=1e-12)


def test_starts() -> None:
    rows = start_rows([{"computingsite": "A", "njobs": 2}, {"computingsite": "B", "njobs": 1}], NOW, 7)
    assert Counter(row["computingsite"] for row in rows) == {"A": 2, "B": 1}
    assert [row["pandaid"] for row in rows] == [7, 8, 9]


def source(name: str, table: str, **columns: Any) -> RawSource:
    return RawSource(name, {table: Rows(tuple(columns), (tuple(columns.values()),))})


def test_what_scenarios_do_not_hold_is_named() -> None:
    empty = dict.fromkeys(("workqueue_id", "resource_type", "nucleus", "vo", "diskio_jobs", "diskio_per_core"))
    place = {"computingsite": "A", "gshare": "X", "prodsourcelabel": "user"}
    counts = {**place, "jobstatus": "running", "njobs": 0, "ncores": 5, **empty}
    owner = {"produsername": "ann", "workinggroup": None, "is_merge": False, IS_DEFINED: False}
    stats = {"running_jobs": 1, "throttled_jobs": 0, "queued_jobs": 0, "running_cores": 1, "queued_cores": 0}
    found = scenario_of(
        NOW,
        {
            "features": source("features", "queue_features", queue="A"),
            "jobs": source("jobs", "job_counts", **counts),
            "user_jobs": source("user_jobs", "user_job_counts", **place, **owner, **stats),
        },
    )
    assert found.lost == (
        "queue_features: 1 rows, which scenarios do not hold",
        "job_counts: 5 cores that are of no job",
        "user_job_counts: 1 jobs that no other count has",
    )
    assert not found.scenario.tables
