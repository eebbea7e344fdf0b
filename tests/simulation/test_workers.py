from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from broker.pilots.model.pilot_demand import Limits
from broker.simulation.model.conservation import violations
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grids import make_grid
from broker.simulation.model.job_kinds import fixed_kind
from broker.simulation.model.loop import ClosedLoop, Run
from broker.simulation.model.policies.simple import LeastLoaded, RandomPolicy
from broker.simulation.model.records import OUTCOMES
from broker.simulation.model.scenario import Outage, Scenario
from broker.simulation.model.scenario_file import read_scenario
from broker.simulation.model.scenario_parts import Workers
from tests.simulation.small_grids import closed, queue, task

ANY = Limits(most_waiting=None, most_pilots=None, most_new=None, least_waiting=1_000_000)
AT_ONCE = Workers(
    enabled=True,
    period_s=0.0,
    wait_median_s=0.0,
    wait_spread=0.0,
    walltime_s=math.inf,
    idle_s=0.0,
    lost=0.0,
    limits=ANY,
)
SURE = dataclasses.replace(AT_ONCE, period_s=60.0, wait_median_s=300.0)
SMALL = GridParameters(days=0.5, queues=6, cores=500, nuclei=2, users=10, outage_mean_days=1.0, warm_up_s=7200.0)


def simulate(scenario: Scenario, seed: int = 1) -> Run:
    return ClosedLoop(scenario, LeastLoaded, seed).run()


def start_times(run: Run) -> list[float]:
    return sorted(float(at) for state in run.tasks for at in state.first_start_s)


def test_jobs_start_when_a_worker_has_been_counted_submitted_and_has_waited() -> None:
    # assigned at 60 s; counted at 60 s before that and at 120 s; 5 min in the batch system
    run = simulate(closed(task(1, jobs=16), queues=1, workers=SURE))
    assert start_times(run) == [420.0] * 16
    assert (run.tally.workers, run.tally.empty_workers) == (16, 0)


def test_a_worker_takes_the_next_job_and_ends_when_none_fits() -> None:
    limited = dataclasses.replace(SURE, limits=Limits(most_waiting=2, most_pilots=2))
    run = simulate(closed(task(1, jobs=6), queues=1, workers=limited))
    assert start_times(run) == [420.0, 420.0, 4020.0, 4020.0, 7620.0, 7620.0]
    assert run.tally.workers == 2


def test_slots_limit_workers_and_workers_without_a_job_are_counted() -> None:
    # a worker waits for each job; the 16 workers with slots take all jobs, and the others get none
    run = simulate(closed(task(1, jobs=32), queues=1, workers=SURE))
    assert start_times(run) == [420.0] * 16 + [4020.0] * 16
    assert (run.tally.workers, run.tally.empty_workers) == (32, 16)


def test_a_worker_takes_only_jobs_of_its_type_that_end_in_its_time() -> None:
    # an hour of work is estimated to take 4600 s
    long = dataclasses.replace(SURE, walltime_s=5000.0, limits=Limits(most_pilots=1))
    run = simulate(closed(task(1, jobs=2), queues=1, workers=long))
    first, second = start_times(run)
    assert (first, run.tally.workers) == (420.0, 2)
    assert second >= 4020.0 + 300.0
    never = simulate(closed(task(1, jobs=2), queues=1, workers=dataclasses.replace(SURE, walltime_s=4000.0)))
    assert never.tally.workers == 0 and len(never.runs) == 0
    both = closed(task(1, jobs=1), task(2, jobs=1, kind="wide"), queues=1, workers=SURE)
    assert simulate(both).tally.workers == 2


def test_the_batch_system_ends_a_worker_with_its_job() -> None:
    scenario = closed(
        task(1, jobs=1, believed_factor=0.1), queues=1, workers=dataclasses.replace(SURE, walltime_s=2000.0)
    )
    run = simulate(scenario)
    assert [OUTCOMES[outcome] for outcome in run.runs.outcome] == ["failed"] * 3
    assert (run.runs.end_s - run.runs.start_s).tolist() == [2000.0] * 3
    assert run.tally.over_walltime == 3


def test_a_lost_worker_loses_its_job_which_the_heartbeat_detects() -> None:
    scenario = closed(task(1, jobs=4), queues=1, workers=dataclasses.replace(SURE, lost=1.0), heartbeat_s=600.0)
    loop = ClosedLoop(scenario, LeastLoaded, 1)
    loop.events.run(3600.0)
    assert violations(loop.grid) == []
    run = loop.run()
    assert run.tally.lost == run.tally.lost_workers > 2
    assert run.tally.workers >= run.tally.lost_workers


def test_no_worker_starts_during_an_outage() -> None:
    outage = Outage((0,), 100.0, 7200.0)
    run = simulate(closed(task(1, jobs=4), queues=1, workers=SURE, outages=(outage,)))
    assert start_times(run) == [7200.0] * 4


def test_a_queue_can_have_its_own_worker_wait() -> None:
    scenario = closed(task(1, jobs=4), queues=1, workers=SURE)
    scenario = dataclasses.replace(scenario, queues=(queue(0, worker_wait=(900.0, 0.0)),))
    assert start_times(simulate(scenario)) == [1020.0] * 4


def run_m_m_c(workers: Workers, seed: int, servers: int = 8, load: float = 7.0, jobs: int = 300) -> Run:
    """A run with the arrivals and services of M/M/c at one queue, with a mean service of 600 s."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(600.0 / load, jobs))
    tasks = [task(n + 1, jobs=1, arrival_s=float(at), kind="served") for n, at in enumerate(arrivals)]
    kinds = {"served": fixed_kind("served", 1, _Exponential())}
    scenario = closed(*tasks, kinds=kinds, workers=workers, cycle_s=20.0, closed=False, days=0.6)
    return simulate(dataclasses.replace(scenario, queues=(queue(0, cores=servers),)), seed)


class _Exponential:
    def quantile(self, probability: np.ndarray) -> np.ndarray:
        return np.asarray(-np.log1p(-probability) * 6000.0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_enough_workers_without_delay_give_the_same_run_as_no_workers(seed: int) -> None:
    without, with_them = run_m_m_c(Workers(), seed), run_m_m_c(AT_ONCE, seed)
    for name in ("start_s", "end_s", "task", "assigned_s"):
        assert getattr(without.runs, name).tobytes() == getattr(with_them.runs, name).tobytes(), name
    assert (without.runs.start_s > without.runs.assigned_s).sum() > 30, "some jobs wait for a slot"
    late = run_m_m_c(dataclasses.replace(AT_ONCE, wait_median_s=60.0), seed)
    assert late.runs.start_s.tobytes() != without.runs.start_s.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("grid", ["2018", "2026"])
def test_no_jobs_are_lost_at_any_time_and_a_seed_gives_the_same_run(grid: str) -> None:
    scenario = make_grid(grid, SMALL, 3)
    scenario = dataclasses.replace(scenario, workers=Workers(enabled=True, lost=0.1))
    times = []
    for _ in range(2):
        loop = ClosedLoop(scenario, RandomPolicy, 3)
        for until in np.arange(600.0, scenario.end_s, 1800.0):
            loop.events.run(float(until))
            assert violations(loop.grid) == []
        run = loop.result(0.0)
        assert len(run.runs) > 100 and run.tally.lost_workers > 0 and run.tally.lost > run.tally.lost_workers
        times.append(run.runs.start_s.tobytes() + run.runs.end_s.tobytes())
    assert times[0] == times[1]
    other_run = ClosedLoop(scenario, RandomPolicy, 4).run()
    assert other_run.runs.start_s[:100].tolist() != run.runs.start_s[:100].tolist()


def test_violations_of_workers_are_detected() -> None:
    scenario = dataclasses.replace(make_grid("2018", SMALL, 3), workers=Workers(enabled=True))
    loop = ClosedLoop(scenario, RandomPolicy, 3)
    loop.events.run(20_000.0)
    loop.grid.slots[0].busy_cores += 1
    faults = violations(loop.grid)
    assert len(faults) == 2 and "no worker has" in faults[1]


def test_the_file_of_a_scenario_switches_workers_on() -> None:
    text = """
grid: "2018"
parameters: {days: 0.3, queues: 5, cores: 160, nuclei: 2, median_jobs: 8, most_jobs: 60, warm_up_s: 3600}
changes: {workers: {enabled: true, lost: 0, limits: {most_waiting: 7}}}
"""
    scenario = read_scenario(text, "workers.yaml")(1)
    assert scenario.workers == Workers(enabled=True, lost=0.0, limits=Limits(most_waiting=7))
    assert not make_grid("2018", SMALL, 1).workers.enabled and not make_grid("2026", SMALL, 1).workers.enabled
    run = simulate(scenario)
    assert run.tally.workers > 5 and len(run.runs) > 20


@pytest.mark.parametrize("wrong", [{"period_s": 0.01}, {"lost": 1.5}, {"idle_s": -1.0}, {"wait_median_s": math.nan}])
def test_impossible_workers_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SimulationError, match="workers"):
        ClosedLoop(closed(task(1), workers=Workers(enabled=True, **wrong)), LeastLoaded, 1)  # type: ignore[arg-type]
