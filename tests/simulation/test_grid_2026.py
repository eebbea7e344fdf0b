"""The grid 2026 and its additions to 2018: scouts, varied tasks, failing transfers, slots in use at the start."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from broker.simulation.model.conservation import violations
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.events import EventQueue
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grid import Grid
from broker.simulation.model.grids import GRIDS, USUAL, make_grid
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.real.user_figures import analysis_request
from broker.simulation.model.records import Tally
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.scenario_checks import check
from broker.simulation.model.scenario_parts import TransferFailures
from broker.simulation.model.transfers import MOST_ATTEMPTS, Transfers
from tests.simulation.small_grids import ONE_HOUR_HS06S, closed, queue, task

SIZE = GridParameters(days=0.3, queues=12, cores=1500, nuclei=3, warm_up_s=7200.0)


def run_to(scenario: Scenario, hours: float, policy: str = "least_loaded") -> Grid:
    loop = ClosedLoop(scenario, find_policy(policy), 1)
    loop.events.run(3600.0 * hours)
    return loop.grid


def test_the_2026_grid_is_the_default_and_the_2018_grid_is_unchanged() -> None:
    assert USUAL == "2026" and {"2018", "2026"} <= set(GRIDS)
    old = make_grid("2018", SIZE, 1)
    assert make_grid("generated", SIZE, 1) == old
    assert (old.scouts, old.transfer_failures, old.memory_slack, old.enforce_walltime) == (
        0, TransferFailures(), -1.0, False,
    )  # fmt: skip
    assert all(
        (sim_task.work_factor, sim_task.memory_factor, sim_task.failure_rate, sim_task.running_at)
        == (1.0, 1.0, 0.0, -1)
        for sim_task in old.tasks
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["least_loaded_local", "seed"])
def test_no_jobs_are_lost_on_the_2026_grid(policy: str) -> None:
    loop = ClosedLoop(make_grid("2026", SIZE, 1), find_policy(policy), 1)
    for hour in range(1, 8):
        loop.events.run(3600.0 * hour)
        assert violations(loop.grid) == []
    tally = loop.grid.tally
    assert tally.failed_transfers and tally.failed_attempts and tally.wasted_bytes


@pytest.mark.slow
def test_slots_are_in_use_at_the_beginning() -> None:
    run = ClosedLoop(make_grid("2026", SIZE, 2), find_policy("least_loaded"), 2).run()
    use = run.series.busy_hs06 / run.series.up_hs06
    assert use[6] > 0.6, "an hour after the beginning"
    empty = ClosedLoop(make_grid("2018", SIZE, 2), find_policy("least_loaded"), 2).run()
    assert (empty.series.busy_hs06 / empty.series.up_hs06)[1] < 0.3


def test_tasks_of_a_kind_differ_and_requests_are_wrong() -> None:
    tasks = make_grid("2026", dataclasses.replace(SIZE, days=20.0), 3).tasks
    ordinary = [sim_task for sim_task in tasks if sim_task.running_at < 0 and not sim_task.scouted]
    assert len(ordinary) > 100
    work, rates = (
        np.log([sim_task.work_factor for sim_task in ordinary]),
        np.array([sim_task.failure_rate for sim_task in ordinary]),
    )
    believed = np.log([sim_task.believed_factor for sim_task in ordinary])
    assert work.std() == pytest.approx(0.8, abs=0.12) and believed.std() == pytest.approx(0.7, abs=0.12)
    # a quarter never fail, and a tenth fail in more than 8 % of their jobs
    assert (rates == 0).mean() == pytest.approx(0.25, abs=0.08) and np.quantile(rates, 0.9) > 0.08


def test_queues_fail_unequally_and_few_links_fail_most() -> None:
    rates, links = [], []
    for seed in range(1, 11):
        scenario = make_grid("2026", dataclasses.replace(SIZE, queues=40, nuclei=8), seed)
        rates += [sim_queue.failure_rate for sim_queue in scenario.queues]
        links += list(scenario.transfer_failures.links.values())
    assert np.median(rates) < 0.03 and np.quantile(rates, 0.97) > 0.15
    # links of ATLAS with at least 100 attempts: 1.9, 8.6 and 32 %
    for part, real in ((0.5, 0.0193), (0.75, 0.0855), (0.9, 0.321)):
        assert abs(math.log(np.quantile(links, part) / real)) < 0.8, "ten grids of 24 sites"


SCOUTED = closed(task(1, jobs=12), scouts=4)


def test_scouts_run_before_the_other_jobs_and_measure_their_work() -> None:
    early = run_to(SCOUTED, 0.5).tasks[1]
    assert (len(early.held), early.unassigned) == (8, []) and early.measured_work_hs06s is None
    late = run_to(SCOUTED, 1.5).tasks[1]
    assert late.held == [] and late.measured_work_hs06s == pytest.approx(ONE_HOUR_HS06S)
    assert np.isfinite(late.first_start_s).sum() == 12
    wrong = dataclasses.replace(SCOUTED, tasks=(task(1, jobs=12, believed_factor=3.0),))
    assert run_to(wrong, 0.5).tasks[1].believed_work_hs06s == pytest.approx(3 * ONE_HOUR_HS06S)
    assert run_to(wrong, 1.5).tasks[1].believed_work_hs06s == pytest.approx(ONE_HOUR_HS06S)


@pytest.mark.parametrize(("jobs", "held"), [(4, 0), (5, 1)])
def test_a_task_with_no_more_jobs_than_scouts_has_no_scouts(jobs: int, held: int) -> None:
    assert len(run_to(closed(task(1, jobs=jobs), scouts=4), 0.1).tasks[1].held) == held


def test_a_task_without_a_finished_scout_is_broken() -> None:
    grid = run_to(dataclasses.replace(SCOUTED, tasks=(task(1, jobs=12, failure_rate=1.0),)), 12.0)
    assert (grid.tally.broken_tasks, grid.tally.failed_jobs, grid.tasks[1].open_jobs) == (1, 4, 0)
    assert np.isinf(grid.tasks[1].done_s).all() and violations(grid) == []


def test_the_work_of_a_task_is_the_work_of_its_kind_times_its_factor() -> None:
    grid = run_to(closed(task(1, jobs=2, work_factor=2.0)), 1.5)
    assert np.isnan(grid.tasks[1].done_s).all()
    assert run_to(closed(task(1, jobs=2, work_factor=2.0)), 2.2).tasks[1].open_jobs == 0


def test_initially_running_jobs_have_a_part_of_their_work_left() -> None:
    grid = run_to(closed(task(1, jobs=8, running_at=1)), 1.1)
    assert grid.slots[0].busy_cores == 0 and grid.tasks[1].open_jobs == 0
    ends = np.sort(grid.tasks[1].done_s)
    assert 0 < ends[0] < 1800 < ends[-1] <= 3600


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_transfer_is_tried_five_times(rate: float) -> None:
    scenario = closed(task(1), transfer_failures=TransferFailures({(1, 0): rate}))
    events, tally, outcomes = EventQueue(), Tally(), []
    transfers = Transfers(scenario, events, tally, 1)
    transfers.send(1, 0, 1e9, outcomes.append)
    events.run(30 * 86_400.0)
    assert outcomes == [rate == 0.0]
    assert tally.failed_transfers == (MOST_ATTEMPTS if rate else 0)
    assert (0 < tally.wasted_bytes < 5e9) if rate else tally.wasted_bytes == 0.0
    assert sum(tally.wan_bytes) == pytest.approx(tally.wasted_bytes if rate else 1e9)


def test_a_part_of_the_attempts_fails_by_link() -> None:
    scenario = closed(task(1), transfer_failures=TransferFailures({(1, 0): 0.3}))
    events, tally, outcomes = EventQueue(), Tally(), []
    transfers = Transfers(scenario, events, tally, 1)
    for _ in range(2000):
        transfers.send(1, 0, 1e6, outcomes.append)
        transfers.send(0, 1, 1e6, outcomes.append)
    events.run(30 * 86_400.0)
    attempts = len(tally.wan_bytes) - 2000
    assert tally.failed_transfers / attempts == pytest.approx(0.3, abs=0.03)
    assert (len(outcomes), outcomes.count(False)) == (4000, pytest.approx(2000 * 0.3**5, abs=8))


def test_output_that_never_arrives_and_input_that_cannot_be_read_fail_the_attempt() -> None:
    base = closed(task(1, jobs=4, sources=(0,)), queues=2)
    kind = dataclasses.replace(base.kinds["hour"], input_gb=0.1)
    reading = dataclasses.replace(base, kinds={"hour": kind}, transfer_failures=TransferFailures({}, 1.0))
    grid = run_to(reading, 4.0)
    assert grid.tally.failed_stage_ins == 12 and grid.tally.failed_jobs == 4 and violations(grid) == []


def test_the_analysis_brokerage_gets_the_job_outcomes_of_a_task_by_queue() -> None:
    scenario = closed(task(1, jobs=6), counts_bad_jobs=True)
    failing = (queue(0, failure_rate=1.0), queue(1))
    grid = run_to(dataclasses.replace(scenario, queues=failing), 1.2)
    counts = json.loads(str(analysis_request([grid.tasks[1]]).bad_jobs[0]))
    assert counts["QUEUE_0"][0] == 0 and counts["QUEUE_0"][1] > 0 and counts["QUEUE_1"][0] > 0
    assert run_to(dataclasses.replace(scenario, queues=failing, counts_bad_jobs=False), 1.2).tasks[1].ended == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"work_factor": 0.0}, "work_factor"),
        ({"failure_rate": 1.1}, "failure_rate"),
        ({"running_at": 2}, "no queue 2"),
        ({"running_at": -2}, "no queue -2"),
    ],
)
def test_impossible_values_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        check(closed(task(1, **changes)))
    with pytest.raises(SimulationError, match="rates from 0 to 1"):
        check(closed(task(1), transfer_failures=TransferFailures({(0, 1): 1.5})))
