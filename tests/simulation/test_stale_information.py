"""Joining the emptiest queue with old statistics: the published table that a broker simulation must reproduce."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from broker.simulation.model.job_kinds import Weibull, fixed_kind
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.simple import LeastLoaded
from broker.simulation.model.scenario import Ages, Scenario, Task
from tests.simulation.small_grids import ONE_HOUR_HS06S, closed, queue, task

pytestmark = pytest.mark.validation
ARRIVALS_A_MINUTE = 15.0
EXPONENTIAL = fixed_kind("exponential", 1, Weibull(1.0, ONE_HOUR_HS06S))


def scenario(tasks: list[Task], days: float, cycle_s: float, age_s: float, own_counters: bool) -> Scenario:
    """50 queues of 20 cores, exponential jobs of an hour, load .9."""
    base = closed(
        *tasks,
        days=days,
        cycle_s=cycle_s,
        task_cycle_s=cycle_s,
        kinds={"exponential": EXPONENTIAL},
        ages=Ages(age_s, 0.0, 0.0, 0.0, own_counters),
        job_timeout_s=1e9,
        closed=False,
    )
    return dataclasses.replace(base, queues=tuple(queue(number, cores=20) for number in range(50)))


def mean_wait_min(grid: Scenario) -> float:
    waits = [state.first_start_s - state.assignable_s for state in ClosedLoop(grid, LeastLoaded, 1).run().tasks]
    together = np.concatenate(waits)
    return float(together[~np.isnan(together)].mean()) / 60.0


def minute_by_minute(days: float, age_min: float, own_counters: bool) -> float:
    counts = np.random.default_rng(1).poisson(ARRIVALS_A_MINUTE, int(1440 * days))
    tasks = [
        task(n + 1, jobs=int(jobs), arrival_s=60.0 * n, kind="exponential") for n, jobs in enumerate(counts) if jobs
    ]
    return mean_wait_min(scenario(tasks, days, 60.0, 60.0 * age_min, own_counters))


@pytest.mark.parametrize(("age_min", "minutes"), [(1, 5.0), (5, 60.0), (15, 229.0)])
def test_old_statistics_alone_are_worse_than_chance(age_min: float, minutes: float) -> None:
    # the table is from one seed; seeds scatter by some 15 %
    assert minute_by_minute(4.0, age_min, own_counters=False) == pytest.approx(minutes, rel=0.2)


@pytest.mark.parametrize(("age_min", "minutes"), [(5, 0.02), (15, 0.3)])
def test_own_counters_make_up_for_age(age_min: float, minutes: float) -> None:
    assert minute_by_minute(2.0, age_min, own_counters=True) == pytest.approx(minutes, abs=0.12)


def test_with_fresh_statistics_no_job_waits() -> None:
    random = np.random.default_rng(1)
    arrivals = np.sort(random.uniform(0, 21_600, random.poisson(ARRIVALS_A_MINUTE * 360)))
    tasks = [task(n + 1, jobs=1, arrival_s=float(at), kind="exponential") for n, at in enumerate(arrivals)]
    # a cycle every 2 s adds a second on average
    assert mean_wait_min(scenario(tasks, 0.25, 2.0, 0.0, own_counters=False)) < 0.05
