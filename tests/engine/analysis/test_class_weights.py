"""The new basic weight against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.engine.analysis.class_weights import (
    EPSILON_1,
    EPSILON_2,
    LEAST,
    Competition,
    class_weight,
    new_basic_weight,
    queue_weight,
    weight_by_room,
)
from tests.brokerages.job.random_analysis import random_analysis

HI, MID, LO = 1.0, 0.0, -1.0


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)[:, None]


@pytest.mark.parametrize(
    ("task_class", "weights"),
    [
        (2.0, (40, EPSILON_1, EPSILON_2)),
        (1.0, (40, EPSILON_1, EPSILON_2)),
        (np.nan, (40, EPSILON_1, EPSILON_2)),
        (0.0, (EPSILON_2, 40, EPSILON_1)),
        (-1.0, (EPSILON_2, EPSILON_1, 40)),
    ],
)
def test_the_table_of_classes(task_class: float, weights: tuple[float, ...]) -> None:
    classes = np.array([[HI, MID, LO]])
    weight = class_weight(column(40), column(task_class), classes, np.array([[True]]))
    assert weight.tolist() == [list(weights)]
    assert class_weight(column(40), column(task_class), classes, np.array([[False]])).tolist() == [[40, 40, 40]]


def test_a_queue_without_a_class_is_mid() -> None:
    weight = class_weight(column(40), column(1.0), np.array([[np.nan]]), np.array([[True]]))
    assert weight.tolist() == [[EPSILON_1]]


def queue_weights(room: list[float], jobs: float, w_s: float = 1.0, merging: bool = False) -> list[float]:
    rooms = np.array([room])
    feasible = ~np.isnan(rooms)
    flags = np.array([[merging]])
    return list(queue_weight(np.nan_to_num(rooms), np.full(rooms.shape, w_s), column(jobs), feasible, flags)[0])


def test_room_of_the_user() -> None:
    # 3 candidates, room 30 + 20 + 10 = 60, 6 jobs: (room - 2) / (60 - 6)
    assert queue_weights([30, 20, 10], 6) == pytest.approx([28 / 54, 18 / 54, 8 / 54])
    # the floor is a thousandth of W_s
    assert queue_weights([60, 1, 0], 6, w_s=5.0) == pytest.approx([58 / 55, 0.005 / 55, 0.005 / 55])
    # more jobs than room: by room alone; merging likewise
    assert queue_weights([30, 20, 10], 60) == pytest.approx([0.5, 1 / 3, 1 / 6])
    assert queue_weights([30, 20, 10], 6, merging=True) == pytest.approx([0.5, 1 / 3, 1 / 6])
    # no room at all: equal weights
    assert queue_weights([0, 0, -5, 0], 6) == pytest.approx([0.25] * 4)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8),
    st.floats(1, 1e6),
    st.sampled_from([2.0, 1.0, 0.0, -1.0, np.nan]),
    st.booleans(),
)
def test_weights_are_finite_and_above_zero(room: list[float], jobs: float, task_class: float, merging: bool) -> None:
    rooms = np.array([room])
    classes = (column(task_class), np.resize([HI, MID, LO, np.nan], (1, len(room))), np.array([[True]]))
    weight = new_basic_weight(rooms, column(jobs), classes, np.ones_like(rooms, dtype=np.bool_), np.array([[merging]]))
    assert np.isfinite(weight).all()
    assert (weight >= LEAST).all()


@pytest.mark.parametrize(
    ("room", "jobs", "merging", "weights"),
    [
        ([30, 20, 10], 6, False, [6 * 28 / 54, 6 * 18 / 54, 6 * 8 / 54]),
        # the floor is a thousandth of the jobs
        ([60, 1, 0], 6, False, [6 * 58 / 55, 6 * 0.006 / 55, 6 * 0.006 / 55]),
        # no more room than jobs: by room alone; merging likewise
        ([30, 20, 10], 60, False, [30, 20, 10]),
        ([30, 20, 10], 6, True, [3, 2, 1]),
        ([0, 0], 6, False, [3, 3]),
    ],
)
def test_jobs_spread_by_room(room: list[float], jobs: float, merging: bool, weights: list[float]) -> None:
    competition = Competition(np.array(room, dtype=float), np.array([1] * len(room)), jobs, np.nan, False, merging)
    assert weight_by_room(competition).tolist() == pytest.approx([value + LEAST for value in weights], rel=1e-9)


@pytest.mark.parametrize(
    ("task_class", "room", "jobs", "weights"),
    [
        # a task of class C runs at low queues, however much room there is elsewhere
        (-1.0, [30, 0, 10], 6, [0.001, 0.001, 6]),
        (-1.0, [30, 0, 10], 100, [0.001, 0.001, 40]),
        # class B fills the middle queues, except for a tenth of a job, and gives the rest to the low ones
        (0.0, [0, 4, 10], 6, [0.001, 3.9, 2.1]),
        (0.0, [0, 0, 10], 6, [0.001, 0, 6]),
        # class A, or no class, fills the high queues first
        (1.0, [2, 3, 10], 6, [2 - EPSILON_1 - EPSILON_2, 3 + EPSILON_1, 1 + EPSILON_2]),
        (np.nan, [2, 3, 10], 6, [2 - EPSILON_1 - EPSILON_2, 3 + EPSILON_1, 1 + EPSILON_2]),
        (1.0, [0, 3, 10], 6, [0, 3, 3]),
    ],
)
def test_jobs_spread_by_room_and_class(task_class: float, room: list[float], jobs: float, weights: list[float]) -> None:
    competition = Competition(np.array(room, dtype=float), np.array([1, 0, -1]), jobs, task_class, True, False)
    assert weight_by_room(competition).tolist() == pytest.approx([value + LEAST for value in weights], rel=1e-9)


def test_a_chunk_has_bitwise_the_same_weight_in_a_block_and_alone() -> None:
    cycle, _ = random_analysis(1, 60, 150, (), True)
    block = cycle.evaluate_block(slice(0, 60))
    (weight,) = block.fixed()
    # fractional rooms summed in another order differ in the last bits
    assert len(np.unique(weight[block.evaluation.feasible])) > 1000
    for row in range(0, 60, 4):
        (alone,) = cycle.evaluate_block(slice(row, row + 1)).fixed()
        assert alone.tobytes() == weight[row].tobytes()
