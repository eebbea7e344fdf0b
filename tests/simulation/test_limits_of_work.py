"""Bounds on delivered work and on waits: computed by hand, and not beaten by any policy."""

from __future__ import annotations

import dataclasses
import math

import pytest

from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grids import make_grid
from broker.simulation.model.limits_of_work import delivered_bound, mean_wait_bound_s
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.merit import stats
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.scenario import Outage, Scenario
from tests.simulation.small_grids import closed, queue, task


def window(jobs: int, hours: float, cores: int = 16, **changes: object) -> Scenario:
    """One queue, and one-hour jobs on one core that all arrive at the beginning."""
    base = closed(task(1, jobs=jobs), closed=False, days=hours / 24.0, **changes)
    return dataclasses.replace(base, queues=(queue(0, cores),))


@pytest.mark.parametrize(
    ("jobs", "hours", "part"),
    [
        (16, 5.0, 1.0),
        (80, 5.0, 1.0),  # five rounds of sixteen
        (160, 5.0, 0.5),
        (16, 1.0, 1.0),
        (16, 0.99, 0.0),  # none can end in time
    ],
)
def test_cores_and_time_limit_the_delivered_work(jobs: int, hours: float, part: float) -> None:
    assert delivered_bound(window(jobs, hours), 1) == pytest.approx(part)


def test_a_job_that_always_fails_is_not_delivered() -> None:
    assert delivered_bound(dataclasses.replace(window(16, 5.0), queues=(queue(0, failure_rate=1.0),)), 1) == 0.0
    mended = dataclasses.replace(window(16, 5.0), queues=(queue(0, failure_rate=1.0), queue(1)))
    assert delivered_bound(mended, 1) == 1.0


def test_a_queue_that_is_down_delivers_nothing() -> None:
    down = dataclasses.replace(window(160, 5.0), outages=(Outage((0,), 0.0, 2.5 * 3600.0),))
    assert delivered_bound(down, 1) == pytest.approx(0.25)


@pytest.mark.slow
def test_jobs_wait_for_each_other() -> None:
    assert mean_wait_bound_s(window(16, 8.0), 1) == 0.0
    # rounds begin after 0, 1, 2, 3 and 4 hours: 2 hours on average, less with slots of half an hour
    bound_s = mean_wait_bound_s(window(80, 8.0), 1)
    assert 1800.0 <= bound_s <= 7200.0
    assert mean_wait_bound_s(window(160, 16.0), 1) > 2 * bound_s


def test_waits_have_no_bound_where_runs_may_be_cut_short() -> None:
    assert mean_wait_bound_s(window(80, 8.0, memory_slack=0.5), 1) == 0.0
    assert math.isnan(mean_wait_bound_s(dataclasses.replace(window(1, 8.0), tasks=()), 1))
    assert math.isnan(delivered_bound(dataclasses.replace(window(1, 8.0), tasks=()), 1))


@pytest.mark.parametrize("policy", ["least_loaded", "clairvoyant", "seed"])
@pytest.mark.parametrize("name", ["calm", "full", "black_hole"])
def test_no_policy_beats_the_bounds(name: str, policy: str) -> None:
    size = GridParameters(days=0.2, queues=6, cores=300, nuclei=2, warm_up_s=3600.0)
    scenario = make_grid(name, size, 4)
    figures = stats(ClosedLoop(scenario, find_policy(policy), 4).run())
    assert figures.delivered <= delivered_bound(scenario, 4) + 1e-9
    assert figures.wait_mean_s >= mean_wait_bound_s(scenario, 4) - 1e-6
