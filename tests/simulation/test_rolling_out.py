"""Roll-outs of the work ahead: running jobs end first, waiting jobs start in order, and a budget limits the time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import count

import numpy as np
import pytest

from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.rolling_out import RolledOut, RollOutSettings, roll_out
from broker.simulation.model.scenario import Pilots, Queue, Scenario, Site
from broker.simulation.model.work_ahead import RunningGroup, Shape, WaitingGroup, WorkAhead, begin, rest_s

SHAPE = Shape("s", "A", "MCORE", 8, 2.0, False, "simul", 0.0, 3600.0, 0.1)
QUEUES = tuple(Queue(name, 0, 1, 8, 32.0, 10.0, mode="push") for name in ("Q", "R"))
GRID = Scenario(
    "g", 1.0, (Site("S", True, 1e15, 0.0, 1e10, 1e10),), QUEUES, (("A", 1.0), ("B", 1.0)), (), warm_up_s=0.0,
    pilots=Pilots(0.0, 0.0, 0.0, 0.0),
)  # fmt: skip
HOW = RollOutSettings(hours=6.0, seeds=3, cycle_s=60.0, budget_s=100.0, seed=1)
BUSY = (RunningGroup(0, "s", (1800.0,)), RunningGroup(1, "s", (600.0,)))


def waiting_group(task: int, queue: int, jobs: int = 1, priority: float = 1.0) -> WaitingGroup:
    return WaitingGroup(task, queue, "s", jobs, priority)


def work(*groups: WaitingGroup, running: tuple[RunningGroup, ...] = BUSY) -> WorkAhead:
    return WorkAhead(GRID, {"s": SHAPE}, (True, True), running, groups, (), 3600.0)


def roll(ahead: WorkAhead, how: RollOutSettings = HOW, spent: Callable[[], float] = lambda: 0.0) -> RolledOut:
    return roll_out(ahead, find_policy("least_loaded"), how, spent)


def test_waiting_jobs_start_when_running_jobs_end_and_by_priority() -> None:
    outcome = roll(work(waiting_group(1, 0), waiting_group(2, 0, priority=9.0), waiting_group(3, 1)))
    assert 1200.0 < outcome.tasks[2] < 2600.0
    assert 2400.0 < outcome.tasks[3] < 3800.0
    assert outcome.tasks[1] > outcome.tasks[2] + 2400.0
    assert (outcome.seeds, outcome.hours) == (3, 6.0)


def test_jobs_without_a_queue_are_brokered_in_the_first_cycle() -> None:
    outcome = roll(work(waiting_group(1, -1), running=()))
    assert outcome.tasks == {1: 60.0}


def test_the_waits_of_new_jobs_at_queues_and_of_new_tasks_by_kind_are_reported() -> None:
    arrivals = tuple(dataclasses.replace(waiting_group(number, -1), waited_s=0.0) for number in range(4))
    outcome = roll(dataclasses.replace(work(), came=arrivals))
    assert set(outcome.kinds) == {("A", "MCORE")} and outcome.kinds["A", "MCORE"] > 60.0
    assert {queue for queue, _ in outcome.lines} == {"Q", "R"}
    assert roll(work()).kinds == {}


def test_jobs_that_do_not_start_count_as_the_end_and_a_queue_that_is_down_starts_none() -> None:
    ahead = dataclasses.replace(work(waiting_group(1, 0)), online=(False, True))
    assert roll(ahead, dataclasses.replace(HOW, hours=1.0)).tasks == {1: 3600.0}


def test_jobs_of_unknown_shares_and_those_that_fit_nowhere_are_left_out() -> None:
    shapes = {
        "s": SHAPE,
        "large": dataclasses.replace(SHAPE, name="large", cores=64),
        "other": dataclasses.replace(SHAPE, name="other", share="C"),
    }
    groups = tuple(dataclasses.replace(waiting_group(number, 0), shape=name) for number, name in enumerate(shapes, 1))
    assert set(roll(dataclasses.replace(work(*groups), shapes=shapes)).tasks) == {1}


def test_the_same_arguments_give_the_same_result_and_another_seed_does_not() -> None:
    ahead = work(waiting_group(1, 0), waiting_group(2, 1))
    other_seed = dataclasses.replace(HOW, seed=50)
    assert roll(ahead) == roll(ahead)
    assert roll(ahead).tasks != roll(ahead, other_seed).tasks


def test_the_budget_ends_a_roll_out_within_a_seed_and_between_seeds() -> None:
    ahead = work(waiting_group(1, 0, 40))
    ticks = count()
    part = roll(ahead, dataclasses.replace(HOW, budget_s=2.5), lambda: float(next(ticks)))
    assert part.seeds == 1 and 0.0 < part.hours < 6.0
    assert part.tasks == {}
    steps = count()
    two = roll(ahead, dataclasses.replace(HOW, budget_s=95.0), lambda: float(next(steps)))
    assert two.seeds == 2 and two.hours == 6.0
    assert roll(ahead, dataclasses.replace(HOW, budget_s=0.0)).seeds == 0


def test_a_scenario_begins_with_all_running_and_waiting_jobs() -> None:
    beginning = begin(work(waiting_group(1, 0, 3), waiting_group(2, -1, 2)), 6.0, 1)
    tasks = beginning.scenario.tasks
    assert sorted((task.jobs, task.running_at) for task in tasks) == [(1, 0), (1, 1), (2, -1), (3, 0)]
    assert {group.task for group in beginning.task_of.values()} == {1, 2}


@pytest.mark.parametrize("age_s", [0.0, 1800.0, 7200.0, 1e6])
def test_the_rest_of_a_run_is_positive_and_grows_with_the_probability(age_s: float) -> None:
    rests = rest_s(np.full(3, age_s), 3600.0, 0.5, np.array([0.1, 0.5, 0.9]))
    assert (rests > 0).all() and (np.diff(rests) >= 0).all()
