"""The pseudo-queues of a unified queue, with every bound set or open."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from broker.snapshot.build_queues import pseudo_queues
from broker.snapshot.queue_rows import QueueRecord, read_queue
from broker.snapshot.snapshot import ResourceType

OPEN = math.nan


def parent(cores: float | None = 8, maxrss: float | None = 16000, minrss: float | None = 800) -> QueueRecord:
    return read_queue("Q", json.dumps({"capability": "ucore", "corecount": cores, "maxrss": maxrss, "minrss": minrss}))


def kind(mincore: float = OPEN, maxcore: float = OPEN, minram: float = OPEN, maxram: float = OPEN) -> ResourceType:
    return ResourceType("R", mincore, maxcore, minram, maxram)


@pytest.mark.parametrize(
    ("parent_cores", "mincore", "maxcore", "cores"),
    [
        (8, 1, 1, 1),
        (8, 2, OPEN, 8),
        (8, 2, 4, 4),
        (8, 8, 8, 8),
        (8, 9, 16, None),  # the queue has fewer cores than the type requires
        (8, OPEN, OPEN, 8),
        (8, OPEN, 4, 4),
        (8, OPEN, 16, 8),
        (8, 6, 4, 6),  # the minimum wins over the maximum
        (1, 2, OPEN, None),
        (0, 1, 1, 1),  # a queue without a number of cores has one
        (0, 2, OPEN, None),
        (None, OPEN, OPEN, 1),
        (0, OPEN, 4, 1),
        (8, 0, OPEN, 8),
    ],
)
def test_cores(parent_cores: float | None, mincore: float, maxcore: float, cores: float | None) -> None:
    queues = pseudo_queues(parent(parent_cores), [kind(mincore, maxcore)])
    assert [queue.cores for queue in queues] == ([] if cores is None else [cores])


@pytest.mark.parametrize(
    ("maxcore", "minram", "parent_minrss", "minrss"),
    [
        (1, 2001, 800, 2001),  # one core of a type from 2001 MB: 2001 - 1 + 1
        (4, 2001, 800, 4 * 2001 - 4 + 1),
        (4, 2001, 30000, 15000),  # half of the cores, half of the parent's
        (4, 0, 800, 400),
        (1, 0, 0, 0),
        (4, OPEN, 800, 400),  # an open bound: the queue's limit, by the share of its cores
        (1, OPEN, 800, 100),
        (8, OPEN, 800, 800),
        (4, 2001, None, 8001),
        (4, OPEN, None, OPEN),
    ],
)
def test_minimum_memory(maxcore: float, minram: float, parent_minrss: float | None, minrss: float) -> None:
    (queue,) = pseudo_queues(parent(minrss=parent_minrss), [kind(1, maxcore, minram)])
    assert queue.minrss_mb == pytest.approx(minrss, nan_ok=True)


@pytest.mark.parametrize(
    ("maxcore", "maxram", "parent_maxrss", "maxrss"),
    [
        (1, 2000, 16000, 2000),
        (1, 1500, 16000, 1500),
        (1, 4000, 16000, 2000),  # one core in eight, an eighth of the parent's
        (8, 2000, 16000, 16000),
        (4, OPEN, 16000, 8000),
        (8, OPEN, 16000, 16000),
        (4, 2000, None, 8000),  # the queue publishes no limit: the limit of the type
        (4, OPEN, None, OPEN),
        (4, 0, 16000, 0),
    ],
)
def test_maximum_memory(maxcore: float, maxram: float, parent_maxrss: float | None, maxrss: float) -> None:
    (queue,) = pseudo_queues(parent(maxrss=parent_maxrss), [kind(1, maxcore, OPEN, maxram)])
    assert queue.maxrss_mb == pytest.approx(maxrss, nan_ok=True)


def test_an_open_maximum_of_a_larger_job_keeps_the_parents_limit() -> None:
    (queue,) = pseudo_queues(parent(2, maxrss=4000, minrss=1000), [kind(1, OPEN)])
    assert (queue.name, queue.resource_type, queue.maxrss_mb, queue.minrss_mb) == ("Q/R", "R", 4000.0, 1000.0)


BOUND = st.one_of(st.just(OPEN), st.integers(0, 64).map(float))


@given(st.integers(0, 64), st.lists(st.tuples(BOUND, BOUND, BOUND, BOUND), max_size=5))
def test_pseudo_queues_exist_for_types_whose_minimum_fits(cores: int, bounds: list[tuple[float, ...]]) -> None:
    kinds = [ResourceType(f"R{index}", *bound) for index, bound in enumerate(bounds)]
    queues = pseudo_queues(parent(cores), kinds)
    parent_cores = max(1, cores)
    assert len(queues) == sum(not bound[0] > parent_cores for bound in bounds)
    for queue in queues:
        assert 0 <= queue.cores <= max(parent_cores, 64)
