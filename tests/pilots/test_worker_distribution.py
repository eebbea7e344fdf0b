"""Unified pilot streaming on worked cases whose results come from PanDA's own function."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.pilots.model.worker_distribution import SlotType, StreamedQueue, Workers, mean_memory_mb, new_workers

TYPES = {
    "SCORE": SlotType(1, 1, 2000),
    "SCORE_HIMEM": SlotType(1, 1, None),
    "MCORE": SlotType(2, None, 2000),
    "MCORE_HIMEM": SlotType(2, None, None),
}
BUSY = {"SCORE": Workers(100, 20), "MCORE": Workers(200, 55)}


def jobs(*groups: tuple[int, str]) -> list[str]:
    return [name for number, name in groups for _ in range(number)]


def workers_for(workers: dict[str, Workers], waiting_jobs: list[str], **queue: Any) -> dict[str, int]:
    return new_workers(StreamedQueue(cores=8, **queue), TYPES, workers, waiting_jobs)


@pytest.mark.parametrize(
    ("workers", "waiting_jobs", "queue", "expected"),
    [
        ({}, [], {}, {"SCORE": 1}),
        (BUSY, jobs((500, "MCORE"), (1000, "SCORE")), {}, {"MCORE": 28, "SCORE": 0}),
        (
            {"SCORE": Workers(100, 20), "MCORE": Workers(200, 50)},
            jobs((30, "MCORE"), (25, "SCORE")),
            {},
            {"MCORE": 0, "SCORE": 6},
        ),
        # ten below the limit, which does not shrink while workers are assigned
        ({"MCORE": Workers(200)}, jobs((500, "MCORE")), {"limits": {"MCORE": 210}}, {"MCORE": 81}),
        (
            {"MCORE": Workers(200)},
            jobs((500, "MCORE"), (10, "SCORE")),
            {"limits": {"MCORE": 200}},
            {"MCORE": 0, "SCORE": 11},
        ),
        (
            {"MCORE": Workers(200)},
            jobs((500, "MCORE_HIMEM"), (10, "SCORE")),
            # no type is below the mean: no type is filtered out
            {"meanrss_mb": 1999, "maxrss_mb": 16000},
            {"MCORE": 0, "MCORE_HIMEM": 81},
        ),
        ({}, jobs((9000, "SCORE")), {"core_target": 10_000}, {"SCORE": 4001}),
        # the core target does not apply to a queue in test
        ({}, jobs((9000, "SCORE")), {"core_target": 10_000, "status": "test"}, {"SCORE": 601}),
        # five full nodes even above the target
        ({"SCORE": Workers(10, 900)}, jobs((2000, "SCORE")), {}, {"SCORE": 40}),
        # ready workers count as waiting, like submitted ones
        ({"SCORE": Workers(10, 450, 450)}, jobs((2000, "SCORE")), {}, {"SCORE": 40}),
        ({"SCORE": Workers(10, 5)}, [], {}, {"SCORE": 1}),
        # high-memory types share the limit: 25 of 26 cores run
        (
            {"SCORE_HIMEM": Workers(1), "MCORE_HIMEM": Workers(3)},
            jobs((5, "MCORE_HIMEM"), (2, "SCORE")),
            {"limits": {"HIMEM": 26}},
            {"SCORE_HIMEM": 0, "MCORE_HIMEM": 6, "SCORE": 3},
        ),
        (
            {"SCORE_HIMEM": Workers(2), "MCORE_HIMEM": Workers(3)},
            jobs((5, "MCORE_HIMEM"), (2, "SCORE")),
            {"limits": {"HIMEM": 26}},
            {"SCORE_HIMEM": 0, "MCORE_HIMEM": 0, "SCORE": 3},
        ),
    ],
)
def test_the_worked_cases(
    workers: dict[str, Workers], waiting_jobs: list[str], queue: dict[str, Any], expected: dict[str, int]
) -> None:
    counts = workers_for(workers, waiting_jobs, **queue)
    assert counts == {**dict.fromkeys(counts, 0), **expected}


def test_above_the_mean_memory_only_smaller_types_get_workers() -> None:
    queue = StreamedQueue(cores=8, meanrss_mb=2000, maxrss_mb=16800)
    workers = {"MCORE_HIMEM": Workers(200)}
    assert mean_memory_mb(queue, TYPES, workers, ("running",)) == 2100
    waiting_jobs = jobs((500, "MCORE_HIMEM"), (10, "SCORE"))
    assert new_workers(queue, TYPES, workers, waiting_jobs) == {"MCORE_HIMEM": 0, "SCORE": 11}
    queue_at_the_mean = StreamedQueue(cores=8, meanrss_mb=2100, maxrss_mb=16800)
    assert new_workers(queue_at_the_mean, TYPES, workers, waiting_jobs)["MCORE_HIMEM"] == 81
    queue_without_the_mean = StreamedQueue(cores=8, meanrss_mb=2000, maxrss_mb=16800, ignores_meanrss=True)
    assert new_workers(queue_without_the_mean, TYPES, workers, waiting_jobs)["MCORE_HIMEM"] == 81
    queue_per_core = StreamedQueue(cores=8, meanrss_mb=2000, maxrss_mb=2100, per_core=True)
    assert new_workers(queue_per_core, TYPES, workers, waiting_jobs) == {"MCORE_HIMEM": 0, "SCORE": 11}


KINDS = st.sampled_from(sorted(TYPES))


def one_by_one(workers: dict[str, Workers], waiting_jobs: list[str], cores: int, to_submit: int) -> dict[str, int]:
    """Step 4 as PanDA describes it: job by job."""
    remaining = {name: count.queued for name, count in workers.items()}
    for name in waiting_jobs:
        remaining[name] = remaining.get(name, 0) - 1
        if remaining[name] <= 0:
            to_submit -= cores if TYPES[name].is_multi_core else 1
        if to_submit <= 0:
            break
    counts = {name: 0 if rest >= 0 else -rest + 1 for name, rest in remaining.items()}
    return counts if any(counts.values()) else {"SCORE": 1}


@given(
    st.dictionaries(KINDS, st.integers(0, 60).map(lambda number: Workers(submitted=number))),
    st.lists(KINDS, max_size=200),
    st.integers(1, 3),
)
def test_counting_all_jobs_at_once_equals_counting_one_by_one(
    workers: dict[str, Workers], waiting_jobs: list[str], cores: int
) -> None:
    queued_cores = sum(count.queued * (cores if TYPES[name].is_multi_core else 1) for name, count in workers.items())
    to_submit = max(75 * cores - queued_cores, 5 * cores)
    counts = new_workers(StreamedQueue(cores=cores), TYPES, workers, waiting_jobs)
    expected = one_by_one(workers, waiting_jobs, cores, to_submit)
    assert {name: number for name, number in counts.items() if number} == {
        name: number for name, number in expected.items() if number
    }
