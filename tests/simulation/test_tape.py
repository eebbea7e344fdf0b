from __future__ import annotations

import dataclasses

import pytest

from broker.simulation.model.conservation import violations
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grids import make_grid
from broker.simulation.model.limits_of_work import mean_wait_bound_s
from broker.simulation.model.loop import ClosedLoop, Run
from broker.simulation.model.merit import stats
from broker.simulation.model.policies.simple import LeastLoaded, RandomPolicy
from broker.simulation.model.scenario import Scenario, Task
from broker.simulation.model.scenario_file import read_scenario
from broker.simulation.model.scenario_parts import Tape
from tests.simulation.small_grids import closed, task

SURE = Tape(requests_at_once=2, median_s=600.0, spread=0.0, failure=0.0)


def with_input(*tasks: Task, tape: Tape = SURE, **changes: object) -> Scenario:
    scenario = closed(*tasks, tape=tape, **changes)
    kinds = {name: dataclasses.replace(kind, input_gb=1e-6) for name, kind in scenario.kinds.items()}
    return dataclasses.replace(scenario, kinds=kinds)


def simulate(scenario: Scenario, seed: int = 1) -> Run:
    return ClosedLoop(scenario, LeastLoaded, seed).run()


def test_a_task_is_brokered_when_its_last_file_is_read() -> None:
    run = simulate(with_input(task(1, jobs=5, on_tape=True), task(2, jobs=5)))
    on_disk, recalled = run.tasks
    assert (on_disk.task.number, on_disk.assignable_s) == (2, 0.0)
    # five files, two at a time: three turns of ten minutes
    assert (recalled.task.number, recalled.assignable_s) == (1, 1800.0)
    assert (run.tally.recalled_files, run.tally.failed_recalls) == (5, 0)


def test_requests_of_a_site_wait_in_order_and_other_sites_do_not() -> None:
    run = simulate(
        with_input(
            task(1, jobs=4, on_tape=True), task(2, jobs=2, on_tape=True), task(3, jobs=2, on_tape=True, sources=(1,))
        )
    )
    assert {state.task.number: state.assignable_s for state in run.tasks} == {1: 1200.0, 2: 1800.0, 3: 600.0}


def test_recall_time_counts_to_the_task_and_not_to_waits() -> None:
    scenario = with_input(task(1, jobs=2, on_tape=True), queues=2)
    run = simulate(scenario)
    figures = stats(run)
    assert figures.finish_mean_s >= 600.0 + 3600.0 and figures.wait_mean_s <= 120.0
    assert mean_wait_bound_s(scenario, 1) == 0.0


def test_failed_recalls_are_repeated_and_are_the_same_for_all_policies() -> None:
    tape = Tape(requests_at_once=3, median_s=600.0, spread=1.0, failure=0.5)
    scenario = with_input(task(1, jobs=40, on_tape=True), tape=tape)
    runs = [ClosedLoop(scenario, policy, 5).run() for policy in (LeastLoaded, RandomPolicy)]
    assert [run.tally.recalled_files for run in runs] == [40, 40]
    assert 10 < runs[0].tally.failed_recalls == runs[1].tally.failed_recalls < 120
    assert runs[0].tasks[0].assignable_s == runs[1].tasks[0].assignable_s > 600.0
    assert ClosedLoop(scenario, LeastLoaded, 6).run().tasks[0].assignable_s != runs[0].tasks[0].assignable_s


def test_nothing_is_read_without_input() -> None:
    run = simulate(closed(task(1, on_tape=True), tape=dataclasses.replace(SURE, part=1.0)))
    assert run.tasks[0].assignable_s == 0.0 and run.tally.recalled_files == 0


def test_a_child_is_read_after_its_parent() -> None:
    run = simulate(with_input(task(1, jobs=1), task(2, jobs=2, parents=(1,), on_tape=True)))
    first, child = run.tasks
    assert child.assignable_s == float(first.done_s[0]) + 600.0


def test_a_part_of_the_tasks_of_a_grid_is_on_tape() -> None:
    text = """
grid: "2026"
parameters: {days: 0.3, queues: 5, cores: 160, nuclei: 2, median_jobs: 8, most_jobs: 60, warm_up_s: 3600}
changes: {tape: {part: 0.5, median_s: 60}}
"""
    scenario = read_scenario(text, "tape.yaml")(2)
    assert scenario.tape == Tape(part=0.5, median_s=60.0)
    loop = ClosedLoop(scenario, LeastLoaded, 2)
    on_tape = [loop.tapes.holds(sim_task) for sim_task in scenario.tasks if sim_task.running_at < 0]
    assert 0.2 < sum(on_tape) / len(on_tape) < 0.8
    assert not any(loop.tapes.holds(sim_task) for sim_task in scenario.tasks if sim_task.running_at >= 0)
    loop.events.run(scenario.end_s)
    assert violations(loop.grid) == [] and loop.grid.tally.recalled_files > 20


def test_the_shipped_grid_has_nothing_on_tape() -> None:
    size = GridParameters(days=0.1, queues=5, cores=160, nuclei=2, warm_up_s=360.0)
    scenario = make_grid("2026", size, 1)
    loop = ClosedLoop(scenario, LeastLoaded, 1)
    assert not any(loop.tapes.holds(sim_task) for sim_task in scenario.tasks)


@pytest.mark.parametrize(
    "wrong", [{"part": 1.5}, {"failure": 1.0}, {"median_s": 0.0}, {"requests_at_once": 0}, {"spread": -1.0}]
)
def test_a_tape_with_impossible_figures_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SimulationError, match="tape"):
        ClosedLoop(closed(task(1), tape=Tape(**wrong)), LeastLoaded, 1)  # type: ignore[arg-type]
