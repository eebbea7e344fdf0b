"""Work rolled out ahead: what runs ends first, what waits starts in its turn, and the budget ends it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import count

import numpy as np
import pytest

from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.rolling_out import RolledOut, Rolling, roll_out
from broker.simulation.model.scenario import Pilots, Queue, Scenario, Site
from broker.simulation.model.work_ahead import RunningGroup, Shape, WaitingGroup, WorkAhead, begin, rest_s

SHAPE = Shape("s", "A", "MCORE", 8, 2.0, False, "simul", 0.0, 3600.0, 0.1)
QUEUES = tuple(Queue(name, 0, 1, 8, 32.0, 10.0, mode="push") for name in ("Q", "R"))
GRID = Scenario(
    "g", 1.0, (Site("S", True, 1e15, 0.0, 1e10, 1e10),), QUEUES, (("A", 1.0), ("B", 1.0)), (), warm_up_s=0.0,
    pilots=Pilots(0.0, 0.0, 0.0, 0.0),
)  # fmt: skip
HOW = Rolling(hours=6.0, seeds=3, cycle_s=60.0, budget_s=100.0, seed=1)
BUSY = (RunningGroup(0, "s", (1800.0,)), RunningGroup(1, "s", (600.0,)))


def waiting(task: int, queue: int, jobs: int = 1, priority: float = 1.0) -> WaitingGroup:
    return WaitingGroup(task, queue, "s", jobs, priority)


def work(*groups: WaitingGroup, running: tuple[RunningGroup, ...] = BUSY) -> WorkAhead:
    return WorkAhead(GRID, {"s": SHAPE}, (True, True), running, groups, (), 3600.0)


def rolled(ahead: WorkAhead, how: Rolling = HOW, spent: Callable[[], float] = lambda: 0.0) -> RolledOut:
    return roll_out(ahead, find_policy("least_loaded"), how, spent)


def test_what_waits_at_a_queue_starts_when_what_runs_there_ends_and_by_priority() -> None:
    found = rolled(work(waiting(1, 0), waiting(2, 0, priority=9.0), waiting(3, 1)))
    assert 1200.0 < found.tasks[2] < 2600.0
    assert 2400.0 < found.tasks[3] < 3800.0
    assert found.tasks[1] > found.tasks[2] + 2400.0
    assert (found.seeds, found.hours) == (3, 6.0)


def test_what_waits_for_a_queue_is_brokered_in_the_first_cycle() -> None:
    found = rolled(work(waiting(1, -1), running=()))
    assert found.tasks == {1: 60.0}


def test_the_next_jobs_of_a_queue_and_the_next_tasks_of_a_kind_are_told() -> None:
    came = tuple(dataclasses.replace(waiting(number, -1), waited_s=0.0) for number in range(4))
    found = rolled(dataclasses.replace(work(), came=came))
    assert set(found.kinds) == {("A", "MCORE")} and found.kinds["A", "MCORE"] > 60.0
    assert {queue for queue, _ in found.lines} == {"Q", "R"}
    assert rolled(work()).kinds == {}


def test_what_does_not_start_counts_as_the_end_and_a_queue_that_is_down_starts_nothing() -> None:
    ahead = dataclasses.replace(work(waiting(1, 0)), online=(False, True))
    assert rolled(ahead, dataclasses.replace(HOW, hours=1.0)).tasks == {1: 3600.0}


def test_jobs_of_unknown_shares_and_those_that_fit_nowhere_are_left_out() -> None:
    shapes = {
        "s": SHAPE,
        "large": dataclasses.replace(SHAPE, name="large", cores=64),
        "other": dataclasses.replace(SHAPE, name="other", share="C"),
    }
    groups = tuple(dataclasses.replace(waiting(number, 0), shape=name) for number, name in enumerate(shapes, 1))
    assert set(rolled(dataclasses.replace(work(*groups), shapes=shapes)).tasks) == {1}


def test_the_same_arguments_say_the_same_and_another_seed_something_else() -> None:
    ahead = work(waiting(1, 0), waiting(2, 1))
    other = dataclasses.replace(HOW, seed=50)
    assert rolled(ahead) == rolled(ahead)
    assert rolled(ahead).tasks != rolled(ahead, other).tasks


def test_the_budget_ends_it_within_a_seed_and_between_two() -> None:
    ahead = work(waiting(1, 0, 40))
    ticks = count()
    part = rolled(ahead, dataclasses.replace(HOW, budget_s=2.5), lambda: float(next(ticks)))
    assert part.seeds == 1 and 0.0 < part.hours < 6.0
    assert part.tasks == {}
    steps = count()
    two = rolled(ahead, dataclasses.replace(HOW, budget_s=95.0), lambda: float(next(steps)))
    assert two.seeds == 2 and two.hours == 6.0
    assert rolled(ahead, dataclasses.replace(HOW, budget_s=0.0)).seeds == 0


def test_a_scenario_begins_with_all_that_is_there() -> None:
    beginning = begin(work(waiting(1, 0, 3), waiting(2, -1, 2)), 6.0, 1)
    tasks = beginning.scenario.tasks
    assert sorted((task.jobs, task.running_at) for task in tasks) == [(1, 0), (1, 1), (2, -1), (3, 0)]
    assert {one.task for one in beginning.task_of.values()} == {1, 2}


@pytest.mark.parametrize("age_s", [0.0, 1800.0, 7200.0, 1e6])
def test_the_rest_of_a_run_is_positive_and_later_with_the_probability(age_s: float) -> None:
    left = rest_s(np.full(3, age_s), 3600.0, 0.5, np.array([0.1, 0.5, 0.9]))
    assert (left > 0).all() and (np.diff(left) >= 0).all()
