from __future__ import annotations

import dataclasses
import gc
import math
from collections.abc import Callable

import numpy as np
import pytest

from broker.simulation.model.conservation import violations
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import DAY_S, GridParameters
from broker.simulation.model.grids import make_grid
from broker.simulation.model.job_states import Job, TaskState
from broker.simulation.model.loop import ClosedLoop, arrivals
from broker.simulation.model.merit import stats, survival_quantile
from broker.simulation.model.policies.simple import LeastLoaded
from broker.simulation.model.real.brokered import Brokered
from broker.simulation.model.records import RunLog
from broker.simulation.model.running_figures import BINS, RATIO, Sum, SummedFigures, TimeSketch
from broker.simulation.model.scenario import Scenario
from tests.simulation.small_grids import closed, queue, task

SMALL = GridParameters(
    days=0.6, queues=5, cores=160, nuclei=2, load=0.7, users=10, median_jobs=8.0, most_jobs=60,
    outage_mean_days=2.0, warm_up_s=3600.0,
)  # fmt: skip
QUANTILES = ("wait_median_s", "wait_95_s", "finish_median_s", "finish_95_s")


@pytest.mark.parametrize("grid", ["2018", "2026", "black_hole"])
def test_summed_figures_equal_those_of_the_full_record(grid: str) -> None:
    scenario = make_grid(grid, SMALL, 3)
    recorded = stats(ClosedLoop(scenario, LeastLoaded, 3).run()).as_dict()
    run = ClosedLoop(scenario, LeastLoaded, 3, figures=SummedFigures(scenario)).run()
    summed = stats(run).as_dict()
    assert not run.tasks and not len(run.runs)
    assert recorded["finished"] > 30 and recorded["failed"] > 0
    for name in QUANTILES:
        assert summed.pop(name) == pytest.approx(recorded.pop(name), rel=0.01, abs=1.0), name
    assert summed == pytest.approx(recorded, rel=1e-12, nan_ok=True)


def test_bytes_by_sample_equal_those_of_the_full_record() -> None:
    scenario = make_grid("2018", SMALL, 3)
    recorded = ClosedLoop(scenario, LeastLoaded, 3).run().tally
    figures = SummedFigures(scenario)
    samples = ClosedLoop(scenario, LeastLoaded, 3, figures=figures).run().series.time_s
    ends, sizes = np.array(recorded.wan_end_s), np.array(recorded.wan_bytes)
    by_then = [float(sizes[ends <= time_s].sum()) for time_s in samples.tolist()]
    assert by_then[-1] > 0
    assert list(figures.sent_bytes())[: len(samples)] == pytest.approx(by_then)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_sums() -> None:
    scenario = make_grid("2026_weeks", dataclasses.replace(SMALL, days=2.0), 1)
    runs = [
        stats(ClosedLoop(scenario, LeastLoaded, 1, figures=SummedFigures(scenario)).run()).as_dict() for _ in range(2)
    ]
    assert repr(runs[0]) == repr(runs[1])


@pytest.mark.parametrize("cut", [0.0, 0.2, 0.7])
def test_a_sketch_is_within_a_hundredth_of_kaplan_meier(cut: float) -> None:
    random = np.random.default_rng(4)
    times, ended = random.lognormal(8.0, 1.5, 4000), random.random(4000) >= cut
    sketch = TimeSketch()
    for part, part_ended in zip(np.array_split(times, 7), np.array_split(ended, 7), strict=True):
        sketch.add(part, part_ended)
    for probability in (0.1, 0.5, 0.95):
        assert sketch.quantile(probability) == pytest.approx(
            survival_quantile(times, ended, probability), rel=0.01, abs=1.0
        )
    assert sketch.sum.mean == pytest.approx(times.mean(), rel=1e-14)


def test_a_sketch_of_few_values() -> None:
    sketch = TimeSketch()
    assert math.isnan(sketch.quantile(0.5)) and math.isnan(sketch.sum.mean)
    sketch.add(np.array([0.0, 100.0]), np.array([True, False]))
    assert sketch.quantile(0.5) == pytest.approx(1.0, abs=0.01) and sketch.quantile(0.95) == math.inf
    sketch.add(np.array([1e12]), np.array([True]))
    assert sketch.quantile(0.95) == pytest.approx(RATIO ** (BINS - 1.5)), "the last bin holds all longer times"


def test_a_sum_loses_nothing_to_large_values() -> None:
    total = Sum()
    for values in ([1e16], [1.0, 1.0], [-1e16], [0.5]):
        total.add(np.array(values))
    assert (total.total, total.count) == (2.5, 5)


def count_instances(kind: type[object]) -> int:
    gc.collect()
    return sum(type(item) is kind for item in gc.get_objects())


@pytest.mark.slow
def test_the_objects_in_memory_do_not_grow_with_time() -> None:
    """Only open tasks and jobs stay in memory, besides those that planned events still refer to."""
    before = count_instances(TaskState), count_instances(Job)
    scenario = make_grid("2026_weeks", dataclasses.replace(SMALL, days=7.0, load=0.4), 2)
    loop = ClosedLoop(scenario, LeastLoaded, 2, figures=SummedFigures(scenario))
    grid, sizes = loop.grid, []
    for day in (2, 7):
        loop.events.run(day * DAY_S)
        assert violations(grid) == []
        open_jobs = sum(state.open_jobs for state in grid.tasks.values())
        tasks, jobs = count_instances(TaskState) - before[0], count_instances(Job) - before[1]
        assert len(grid.tasks) <= tasks <= len(grid.tasks) + len(loop.events)
        assert jobs <= open_jobs + len(loop.events)
        sizes.append((tasks, jobs, len(loop.events), grid.log.retained, len(grid.tally.wan_bytes), grid.arrived_jobs))
    early, late = np.array(sizes)
    assert late[-1] > 2.0 * early[-1] and grid.freed_jobs > 0.8 * grid.arrived_jobs
    assert (late[:-1] <= 1.5 * early[:-1] + 20).all(), sizes


def test_without_summed_figures_no_task_is_freed() -> None:
    scenario = make_grid("2026_weeks", SMALL, 2)
    loop = ClosedLoop(scenario, LeastLoaded, 2)
    run = loop.run()
    assert loop.grid.freed_jobs == 0
    assert sum(state.task.jobs for state in run.tasks) == loop.grid.arrived_jobs


def test_the_tasks_of_a_day_are_drawn_when_it_begins() -> None:
    scenario = make_grid("2026_weeks", dataclasses.replace(SMALL, days=5.0), 1)
    assert scenario.coming is not None and max(sim_task.arrival_s for sim_task in scenario.tasks) < DAY_S
    coming = list(scenario.coming)
    assert coming == list(scenario.coming)
    times = [sim_task.arrival_s for sim_task in coming]
    assert times == sorted(times) and DAY_S <= times[0] < 2 * DAY_S and 4 * DAY_S <= times[-1] < scenario.end_s
    assert len({sim_task.number for sim_task in (*scenario.tasks, *coming)}) == len(scenario.tasks) + len(coming)
    assert all((sim_task.share, sim_task.kind) in scenario.coming.shapes for sim_task in coming)
    assert all(sim_task.user < scenario.coming.users for sim_task in coming)
    by_day = [sum(sim_task.jobs for sim_task in coming if sim_task.arrival_s // DAY_S == day) for day in range(1, 5)]
    assert len(set(by_day)) == 4, "each day has draws of its own"


def test_more_jobs_bring_the_same_load() -> None:
    def work(jobs: int | None) -> tuple[int, float]:
        scenario = make_grid("2026_weeks", dataclasses.replace(SMALL, days=4.0, jobs=jobs), 1)
        tasks = [sim_task for sim_task in scenario.coming or ()]
        return sum(sim_task.jobs for sim_task in tasks), math.fsum(
            sim_task.jobs * sim_task.work_factor for sim_task in tasks
        )

    usual, twice = work(None), work(2 * work(None)[0])
    assert twice[0] > 1.3 * usual[0]
    assert twice[1] == pytest.approx(usual[1], rel=1e-9)


def test_arrivals_keep_their_order() -> None:
    scenario = closed(task(1, arrival_s=5.0), task(2, arrival_s=0.0), task(3, arrival_s=5.0), task(4, parents=(1,)))
    assert [sim_task.number for sim_task in arrivals(scenario)] == [2, 1, 3]


def test_a_task_that_arrives_at_the_time_of_a_cycle_is_in_it() -> None:
    run = ClosedLoop(closed(task(1, arrival_s=0.0), task(2, arrival_s=60.0), queues=2), LeastLoaded, 1).run()
    assert [float(state.first_start_s[0]) for state in run.tasks] == [60.0, 60.0]


@pytest.mark.parametrize("wrong", [{"kind": "none"}, {"share": 7}, {"sources": (9,)}])
def test_arriving_tasks_are_checked(wrong: dict[str, object]) -> None:
    class Arrivals:
        users, shapes = 1, ((0, "hour"),)

        def __iter__(self) -> object:
            return iter([task(1, arrival_s=100.0, **wrong)])

    with pytest.raises(SimulationError, match="task 1"):
        ClosedLoop(closed(queues=1, coming=Arrivals()), LeastLoaded, 1).run()


def test_dropped_runs_cannot_be_read_again() -> None:
    log = RunLog()
    add: Callable[..., None] = log.add
    for number in range(5):
        add(
            task=number, queue=0, share=0, user=0, cores=1, outcome="finished", assigned_s=0.0, start_s=0.0,
            end_s=float(number), execution_s=0.0, efficiency=1.0, hs06s=0.0, analysis=number == 4,
        )  # fmt: skip
    log.drop(3)
    log.drop(2)
    assert (len(log), log.retained, log.columns().task.tolist(), log.columns(4).task.tolist()) == (5, 2, [3, 4], [4])
    assert [(position, analysis) for position, *_, analysis in log.ends(3, 5)] == [(3, False), (4, True)]
    with pytest.raises(IndexError, match="run 2 has been dropped"):
        next(log.ends(2, 5))


def test_a_learning_policy_keeps_the_runs_that_it_has_not_read() -> None:
    class Learning(LeastLoaded):
        runs_read = 3

    scenario: Scenario = closed(task(1, jobs=10), queues=1)
    loop = ClosedLoop(
        dataclasses.replace(scenario, queues=(queue(0, cores=16),)), Learning, 1, figures=SummedFigures(scenario)
    )
    loop.events.run(7200.0)
    assert (len(loop.grid.log), loop.grid.log.retained) == (10, 7)


def test_a_broker_starts_with_no_runs_read() -> None:
    scenario = closed(task(1), queues=1)
    assert Brokered(scenario, 1).runs_read == 0
    assert Brokered(scenario, 1, {"LEARNED_TAKE_BACK": True}).runs_read == 0
