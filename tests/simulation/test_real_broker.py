from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from broker.brokerages.job.assign import assign_chunks
from broker.engine.job.cycle import JobCycle
from broker.simulation.model.bounds import makespan_bound_s, useful_use_bound
from broker.simulation.model.conservation import violations
from broker.simulation.model.generated_grid import GridParameters, generate
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.merit import stats
from broker.simulation.model.policies.base import Factory, find_policy
from broker.simulation.model.policies.simple import LeastLoaded
from broker.simulation.model.real.brokered import Brokered
from broker.simulation.model.real.chunk_work import chunk_work
from broker.simulation.model.real.grid_rows import endpoint
from tests.simulation.small_grids import closed, queue, task

pytestmark = pytest.mark.slow

SMALL = GridParameters(days=0.3, queues=8, cores=600, nuclei=2, users=10, outage_mean_days=1.0, warm_up_s=3600.0)


def start_loop(policy: Factory, seconds: float = 9000.0) -> ClosedLoop:
    loop = ClosedLoop(generate(SMALL, 3), policy, 3)
    loop.events.run(seconds)
    return loop


def test_the_snapshot_equals_the_grid() -> None:
    loop = start_loop(Brokered)
    policy = loop.policy
    assert isinstance(policy, Brokered)
    view = loop.information.view()
    snapshot = policy.keeper.snapshot(view)
    shares = [name for name, _ in loop.scenario.shares]
    assert snapshot.dropped_rows == ()
    for place, name in enumerate(snapshot.unified.name):
        number = next(n for n, q in enumerate(loop.scenario.queues) if q.name == name)
        for tag, counts in zip(snapshot.jobs.accounting_keys, snapshot.jobs.by_accounting_key[place], strict=True):
            expected = view.counts[number, shares.index(tag)].copy()
            expected[0] += view.assigned[number, shares.index(tag)]
            assert counts.tolist() == expected.tolist()
    assert (snapshot.taken_at.hour, snapshot.taken_at.minute) == (2, 30)
    free = dict(zip(snapshot.storages.name, snapshot.storages.space_free_gb, strict=True))
    for site, free_bytes in zip(loop.scenario.sites, view.free_bytes, strict=True):
        assert free[endpoint(site.name)] == free_bytes // 2**30


def test_a_queue_that_is_down_is_offline_in_the_next_reading() -> None:
    loop = start_loop(Brokered)
    policy = loop.policy
    assert isinstance(policy, Brokered)
    loop.grid.online[2] = False
    name = loop.scenario.queues[2].name

    def status() -> str:
        unified = policy.keeper.snapshot(loop.information.view()).unified
        return str(dict(zip(unified.name, unified.status, strict=True))[name])

    assert status() == "online", "the last reading of queues is older"
    loop.grid.events.run(loop.events.now + loop.scenario.ages.queues_s + 1.0)
    loop.grid.online[2] = False
    loop.grid.events.run(loop.events.now + loop.scenario.ages.queues_s + 1.0)
    assert status() == "offline"


def test_chunks_of_tasks_are_split_into_the_jobs_of_the_task() -> None:
    loop = start_loop(Brokered)
    policy = loop.policy
    assert isinstance(policy, Brokered)
    states = [loop.grid.arrive(task, 0) for task in loop.scenario.tasks if task.number not in loop.grid.tasks][:5]
    work = chunk_work(loop.scenario, states)
    assert work.work.chunks.n_files.tolist() == [state.task.jobs for state in states]
    cycle = JobCycle(policy.keeper.snapshot(loop.information.view()), work.work, policy.tuning, policy.chain)
    for chunk in assign_chunks(cycle, work, 1):
        assert len(chunk.candidate) <= states[chunk.row].task.jobs
        for candidate in np.unique(chunk.candidate):
            sim_queue = loop.scenario.queues[policy.keeper.queue_of[candidate]]
            kind = states[chunk.row].kind
            assert sim_queue.node_cores >= kind.cores
            assert sim_queue.node_memory_gb >= kind.cores * kind.memory_gb_core


@pytest.mark.parametrize("policy", ["seed", "panda", "flow"])
def test_the_loop_closes_and_nothing_is_lost(policy: str) -> None:
    loop = start_loop(find_policy(policy))
    assert violations(loop.grid) == []
    run = loop.run()
    assert violations(loop.grid) == []
    assert isinstance(loop.policy, Brokered) and loop.policy.faults == {}
    assert run.tally.assigned_jobs > 50 and stats(run).use > 0.1


@pytest.mark.parametrize("policy", ["seed", "panda", "flow"])
def test_the_same_seed_gives_the_same_decisions(policy: str) -> None:
    first, second = (ClosedLoop(generate(SMALL, 3), find_policy(policy), 3).run() for _ in range(2))
    assert first.runs.start_s.tobytes() == second.runs.start_s.tobytes()
    assert first.runs.queue.tobytes() == second.runs.queue.tobytes()


@pytest.mark.parametrize("policy", ["least_loaded", "seed", "flow"])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_policy_beats_the_bounds(policy: str, seed: int) -> None:
    parameters = dataclasses.replace(SMALL, load=0.5 + 0.4 * seed)
    scenario = generate(parameters, seed)
    figures = stats(ClosedLoop(scenario, find_policy(policy), seed).run())
    assert 0 < figures.useful_use <= useful_use_bound(scenario, seed)


def test_the_bound_of_use_is_reached_without_losses() -> None:
    # 32 cores, 32 jobs an hour long in one batch, and a day to run them: 32 core hours of 768
    scenario = closed(task(1, jobs=32))
    assert useful_use_bound(scenario, 1) == pytest.approx(1 / 24)
    assert stats(ClosedLoop(scenario, LeastLoaded, 1).run()).useful_use == pytest.approx(1 / 24)


@pytest.mark.parametrize(("jobs", "bound"), [(32, 3600.0), (64, 7200.0), (1, 3600.0)])
def test_the_bound_of_the_makespan(jobs: int, bound: float) -> None:
    scenario = closed(task(1, jobs=jobs))
    assert makespan_bound_s(scenario, 1) == pytest.approx(bound)
    assert stats(ClosedLoop(scenario, LeastLoaded, 1).run()).makespan_s >= bound


def test_the_bound_knows_the_true_speed() -> None:
    fast = dataclasses.replace(closed(task(1, jobs=1)), queues=(queue(0, hidden_speed=2.0), queue(1)))
    assert makespan_bound_s(fast, 1) == pytest.approx(1800.0)
