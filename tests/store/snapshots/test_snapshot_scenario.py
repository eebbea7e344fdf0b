"""Job counts are converted back to jobs that give the same counts."""

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


def count_jobs(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the counts that the source of all jobs holds."""
    names = (
        "computingsite",
        "gshare",
        "workqueue_id",
        "jobstatus",
        "resource_type",
        "nucleus",
        "vo",
        "prodsourcelabel",
    )
    rows_by_key: dict[tuple[Any, ...], dict[str, Any]] = {}
    for job in jobs:
        key = tuple(job[name] for name in names)
        zero = {"njobs": 0, "ncores": 0, "diskio_jobs": 0, "diskio_per_core": 0.0}
        row = rows_by_key.setdefault(key, {**dict(zip(names, key, strict=True)), **zero})
        actual = job.get("actualcorecount")
        row["njobs"] += 1
        row["ncores"] += (job.get("corecount") if actual is None else actual) or 0
        if job.get("diskio") is not None:
            row["diskio_jobs"] += 1
            row["diskio_per_core"] += job["diskio"] / max(job.get("corecount") or 1, 1)
    return sorted(rows_by_key.values(), key=str)


def count_users_jobs(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the counts that the source of users' jobs holds."""
    rows_by_key: dict[tuple[Any, ...], dict[str, Any]] = {}
    names = ("computingsite", "gshare", "produsername", "workinggroup", "prodsourcelabel", "is_merge", IS_DEFINED)
    count_names = ("running_jobs", "throttled_jobs", "queued_jobs", "running_cores", "queued_cores")
    for job in jobs:
        full = {**job, "is_merge": job.get("processingtype") == "pmerge"}
        key = tuple(full.get(name) for name in names)
        row = rows_by_key.setdefault(key, {**dict(zip(names, key, strict=True)), **dict.fromkeys(count_names, 0)})
        status, cores = job["jobstatus"], job.get("corecount") or 0
        if status == "running":
            row["running_jobs"] += 1
            row["running_cores"] += cores
        elif status == "throttled" or status in QUEUED:
            row["throttled_jobs" if status == "throttled" else "queued_jobs"] += 1
            row["queued_cores"] += cores
    return sorted(rows_by_key.values(), key=str)


@settings(max_examples=60, deadline=None)
@given(jobs_of_grid)
def test_restored_jobs_give_the_same_counts(jobs: list[dict[str, Any]]) -> None:
    jobs = [{**job, IS_DEFINED: job["jobstatus"] in ("defined", "assigned")} for job in jobs]
    counts, owners = count_jobs(jobs), count_users_jobs(jobs)
    restored = job_rows(counts, owners)
    assert len({row["pandaid"] for row in restored}) == len(jobs)
    exact = ("njobs", "ncores", "diskio_jobs")
    for actual, expected in zip(count_jobs(restored), counts, strict=True):
        assert [actual[name] for name in exact] == [expected[name] for name in exact]
        # users' jobs have the cores of the users' counts, so their disk IO is rounded to whole kB/s
        assert actual["diskio_per_core"] == pytest.approx(expected["diskio_per_core"], abs=0.51)
    stats = [row for row in count_users_jobs(restored) if any(row[name] for name in row if name.endswith("_jobs"))]
    assert stats == [row for row in owners if any(row[name] for name in row if name.endswith("_jobs"))]
    assert _owners_present(restored) == _owners_present(jobs)


def _owners_present(jobs: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    names = ("computingsite", "gshare", "prodsourcelabel", "produsername", "workinggroup")
    return {tuple(row.get(name) for name in names) for row in count_users_jobs(jobs)}


def test_jobs_of_an_uncounted_status_add_no_owner() -> None:
    place = {"computingsite": "A", "gshare": "X", "prodsourcelabel": "managed", "vo": "atlas", "processingtype": "x"}
    rest = {"workqueue_id": 1, "resource_type": "SCORE", "nucleus": None, "workinggroup": None, "is_defined": False}
    jobs = [
        {**place, **rest, "produsername": "ann", "jobstatus": status, "corecount": 8}
        for status in ("running", "transferring", "transferring", "holding")
    ]
    assert count_users_jobs(job_rows(count_jobs(jobs), count_users_jobs(jobs))) == count_users_jobs(jobs)


def test_disk_io_of_jobs_without_owner_is_exact() -> None:
    count = count_jobs(
        [{**dict.fromkeys(("gshare", "workqueue_id", "resource_type", "nucleus", "vo", "prodsourcelabel"))}
         | {"computingsite": "A", "jobstatus": "running", "corecount": 8, "diskio": value} for value in (100, 37, 5)]
    )  # fmt: skip
    assert count_jobs(job_rows(count, []))[0]["diskio_per_core"] == pytest.approx(142 / 8, rel=1e-12)


def test_each_start_becomes_a_row() -> None:
    rows = start_rows([{"computingsite": "A", "njobs": 2}, {"computingsite": "B", "njobs": 1}], NOW, 7)
    assert Counter(row["computingsite"] for row in rows) == {"A": 2, "B": 1}
    assert [row["pandaid"] for row in rows] == [7, 8, 9]


def source(name: str, table: str, **columns: Any) -> RawSource:
    return RawSource(name, {table: Rows(tuple(columns), (tuple(columns.values()),))})


def test_data_that_scenarios_cannot_hold_are_reported() -> None:
    empty = dict.fromkeys(("workqueue_id", "resource_type", "nucleus", "vo", "diskio_jobs", "diskio_per_core"))
    place = {"computingsite": "A", "gshare": "X", "prodsourcelabel": "user"}
    counts = {**place, "jobstatus": "running", "njobs": 0, "ncores": 5, **empty}
    owner = {"produsername": "ann", "workinggroup": None, "is_merge": False, IS_DEFINED: False}
    stats = {"running_jobs": 1, "throttled_jobs": 0, "queued_jobs": 0, "running_cores": 1, "queued_cores": 0}
    result = scenario_of(
        NOW,
        {
            "features": source("features", "queue_features", queue="A"),
            "jobs": source("jobs", "job_counts", **counts),
            "user_jobs": source("user_jobs", "user_job_counts", **place, **owner, **stats),
        },
    )
    assert result.lost == (
        "queue_features: 1 rows, which scenarios do not hold",
        "job_counts: 5 cores that are of no job",
        "user_job_counts: 1 jobs that no other count has",
    )
    assert not result.scenario.tables
