from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from broker.simulation.model.conservation import violations
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters
from broker.simulation.model.grids import make_grid
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.merit import stats
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.policies.simple import LeastLoaded, RandomPolicy
from broker.simulation.model.real.brokered import Brokered
from broker.simulation.model.real.several_vos import SeveralVos, by_profile
from broker.simulation.model.scenario import Scenario, Task
from broker.simulation.model.scenario_file import read_scenario
from tests.simulation.small_grids import closed, queue, task

SMALL = GridParameters(days=0.15, queues=6, cores=300, nuclei=2, users=10, warm_up_s=1800.0, median_jobs=8.0)


def task_of_b(number: int, jobs: int = 10, **changes: object) -> Task:
    return task(number, jobs, share=1, vo="b", **changes)


def two_vos(*tasks: Task, **changes: object) -> Scenario:
    """Share A belongs to VO atlas and B to VO b; queue 0 takes atlas, 1 takes b, and 2 takes both."""
    base = closed(*tasks, queues=3, share_vos={"B": "b"}, **changes)
    queue_vos: tuple[tuple[str, ...], ...] = (("atlas",), ("b",), ())
    return dataclasses.replace(base, queues=tuple(queue(n, vos=vos) for n, vos in enumerate(queue_vos)))


@pytest.mark.parametrize("policy", ["least_loaded", "random", "clairvoyant", "shortest_delay", "seed", "flow"])
def test_a_job_never_runs_at_a_queue_that_does_not_take_its_vo(policy: str) -> None:
    scenario = two_vos(task(1, jobs=40), task_of_b(2, jobs=40))
    loop = ClosedLoop(scenario, find_policy(policy), 1)
    for until in (3000.0, 9000.0, scenario.end_s):
        loop.events.run(until)
        assert violations(loop.grid) == []
    runs = loop.result(0.0).runs
    queues_used = {number: set(runs.queue[runs.task == number].tolist()) for number in (1, 2)}
    assert queues_used[1] and queues_used[2]
    assert queues_used[1] <= {0, 2} and queues_used[2] <= {1, 2}


def test_each_vo_is_brokered_with_its_own_tuning_and_the_highest_priority_comes_first() -> None:
    scenario = two_vos(task(1, priority=300.0), task_of_b(2, priority=700.0))
    policy = by_profile(scenario, 1)
    assert isinstance(policy, SeveralVos) and isinstance(by_profile(closed(task(1)), 1), Brokered)
    assert {vo: part.tuning.vo for vo, part in policy.parts.items()} == {"atlas": "atlas", "b": "b"}
    assert policy.parts["b"].keeper.health is policy.parts["atlas"].keeper.health
    names = {vo: set(part.keeper.base.unified.name.tolist()) for vo, part in policy.parts.items()}
    assert names == {"atlas": {"QUEUE_0", "QUEUE_2"}, "b": {"QUEUE_1", "QUEUE_2"}}
    loop = ClosedLoop(scenario, lambda scenario, seed: policy, 1)
    loop.events.run(59.0)
    states = [loop.grid.tasks[number] for number in (1, 2)]
    view = loop.information.view()
    for state, nucleus in zip(states, policy.choose_nuclei(view, states, 1), strict=True):
        state.nucleus = nucleus
    assert next(iter(policy.assign(view, states, 1))).task == 2


def test_running_cores_count_by_vo() -> None:
    scenario = two_vos(task(1, jobs=8), task_of_b(2, jobs=24))
    loop = ClosedLoop(scenario, LeastLoaded, 1)
    loop.events.run(1000.0)
    part = Brokered(scenario, 1, vo="b")
    jobs = part.keeper.snapshot(loop.information.view()).jobs
    assert jobs.core_keys == (("atlas", "managed"), ("b", "managed"))
    assert jobs.running_cores.sum(axis=0)[1] == 24 * 8.0


def test_a_policy_that_sends_jobs_to_queues_of_other_vos_is_refused() -> None:
    class Wrong(RandomPolicy):
        def _choose(self, view, state, queues, load):  # type: ignore[no-untyped-def]
            return np.full(len(state.unassigned), 0)

    with pytest.raises(SimulationError, match="VO b at queue QUEUE_0"):
        ClosedLoop(two_vos(task_of_b(1)), Wrong, 1).run()


def test_the_deviation_of_vos_counts_their_shares_together() -> None:
    alone = ClosedLoop(closed(task(1)), LeastLoaded, 1).run()
    assert math.isnan(stats(alone).vo_deviation)
    both = ClosedLoop(two_vos(task(1, jobs=10), task_of_b(2, jobs=10)), LeastLoaded, 1).run()
    figures = stats(both)
    assert figures.vo_deviation == figures.share_deviation == pytest.approx(0.0, abs=0.01)
    # shares A and C of one VO get 10 jobs together, B of the other VO gets 10: the shares are uneven, the VOs are not
    shares = (("A", 1.0), ("B", 2.0), ("C", 1.0))
    scenario = two_vos(task(1, jobs=9), task_of_b(2, jobs=10), task(3, jobs=1, share=2), shares=shares)
    figures = stats(ClosedLoop(scenario, LeastLoaded, 1).run())
    assert figures.vo_deviation == pytest.approx(0.0, abs=0.01)
    assert figures.share_deviation == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("policy", ["least_loaded", "seed"])
def test_the_stress_grid_of_one_vo_has_five_vos(policy: str) -> None:
    scenario = make_grid("one_vo", SMALL, 2)
    assert scenario.vos == ("VO 1", "VO 2", "VO 3", "VO 4", "VO 5")
    assert {task.vo for task in scenario.tasks} <= set(scenario.vos)
    run = ClosedLoop(scenario, find_policy(policy), 2).run()
    assert stats(run).vo_deviation > 0.05 and len(run.runs) > 10


def test_a_file_names_vos_of_shares_tasks_and_queues() -> None:
    text = """
name: two
days: 0.1
warm_up_s: 0
shares: {A: 1, B: 2}
share_vos: {B: b}
sites:
  - {name: S1, is_nucleus: true, storage_total: 1.0e+15, storage_used: 0, storage_out: 1.0e+9, storage_in: 1.0e+9}
queues:
  - {name: Q1, site: 0, nodes: 2, node_cores: 16, node_memory_gb: 64, corepower: 10, vos: [b]}
tasks:
  - {number: 1, kind: merge, jobs: 3, arrival_s: 0, share: 1, user: 0, priority: 500, sources: [0], vo: b}
"""
    scenario = read_scenario(text, "vos.yaml")(1)
    assert scenario.vos == ("atlas", "b") and scenario.queues[0].vos == ("b",) and scenario.tasks[0].vo == "b"
    with pytest.raises(SimulationError, match="VO atlas, and share B of VO b"):
        read_scenario(text.replace(", vo: b}", "}"), "vos.yaml")(1)
    with pytest.raises(SimulationError, match="fit no queue that takes VO b"):
        read_scenario(text.replace("vos: [b]", "vos: [c]"), "vos.yaml")(1)
