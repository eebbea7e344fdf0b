from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from broker.simulation.model.bounds import up_core_s
from broker.simulation.model.conservation import violations
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.generated_grid import GridParameters, generate
from broker.simulation.model.loop import ClosedLoop, Run
from broker.simulation.model.merit import stats
from broker.simulation.model.policies.simple import DataFirst, LeastLoaded, RandomPolicy, SimplePolicy
from broker.simulation.model.scenario import Ages, Outage, Scenario
from tests.simulation.small_grids import closed, queue, site, task

SMALL = GridParameters(days=0.6, queues=8, cores=800, nuclei=2, users=10, outage_mean_days=1.0, warm_up_s=7200.0)


def simulate(scenario: Scenario, policy: type[SimplePolicy] = RandomPolicy, seed: int = 1) -> Run:
    return ClosedLoop(scenario, policy, seed).run()


def test_an_hour_of_work_takes_an_hour() -> None:
    run = simulate(closed(task(1, jobs=16), queues=1))
    figures = stats(run)
    # the cycle is at 60 s, and all 16 jobs run in parallel
    assert run.tasks[0].done_s.tolist() == [3660.0] * 16
    assert (figures.makespan_s, figures.wait_median_s, figures.wait_95_s) == (3660.0, 60.0, 60.0)
    assert figures.use == figures.useful_use == pytest.approx(3600 / 86_400)


@pytest.mark.parametrize(("speed", "seconds"), [(1.0, 3600.0), (0.5, 7200.0), (2.0, 1800.0)])
def test_the_hidden_speed_counts_and_is_hidden_from_policies(speed: float, seconds: float) -> None:
    loop = ClosedLoop(
        closed(
            task(1),
            queues=1,
        ),
        RandomPolicy,
        1,
    )
    assert not hasattr(loop.information.view().queues, "hidden_speed")
    run = simulate(closed(task(1), queues=(1), **{}) if speed == 1 else _with_speed(speed))
    assert run.tasks[0].done_s[0] == 60.0 + seconds


def _with_speed(speed: float) -> Scenario:
    return dataclasses.replace(closed(task(1)), queues=(queue(0, hidden_speed=speed),))


@pytest.mark.parametrize("policy", [RandomPolicy, LeastLoaded, DataFirst])
def test_no_jobs_are_lost_at_any_time(policy: type[SimplePolicy]) -> None:
    loop = ClosedLoop(generate(SMALL, seed=3), policy, 3)
    checks = 0
    for until in np.arange(600.0, loop.scenario.end_s, 1800.0):
        loop.events.run(float(until))
        assert violations(loop.grid) == []
        checks += 1
    run = loop.result(0.0)
    assert checks > 25
    assert len(run.runs) > 100
    assert run.tally.failed_attempts > 0 and run.tally.lost > 0, "an outage and failures took part"
    assert run.tally.wan_bytes


def test_violations_are_detected() -> None:
    loop = ClosedLoop(generate(SMALL, seed=3), RandomPolicy, 3)
    loop.events.run(20_000.0)
    loop.grid.slots[0].busy_cores += 1
    loop.grid.share_hs06[0] += 100
    loop.grid.storages.used[0] += 1e12
    next(iter(loop.grid.tasks.values())).open_jobs += 1
    assert len(violations(loop.grid)) == 5


def test_the_same_seed_gives_the_same_run_and_another_seed_another_run() -> None:
    runs = [simulate(generate(SMALL, seed=1), RandomPolicy, seed) for seed in (1, 1, 2)]
    columns = [np.concatenate([run.runs.start_s, run.runs.end_s, run.runs.queue]) for run in runs]
    assert columns[0].tobytes() == columns[1].tobytes() != columns[2].tobytes()
    assert stats(runs[0]).as_dict() == pytest.approx(stats(runs[1]).as_dict(), nan_ok=True, abs=0, rel=0)


def test_a_policy_does_not_change_the_random_draws() -> None:
    runs = [simulate(generate(SMALL, seed=5), policy, 5) for policy in (RandomPolicy, DataFirst)]
    for first, second in zip(*(run.tasks for run in runs), strict=False):
        assert first.task == second.task
        assert first.draws.work_hs06s.tobytes() == second.draws.work_hs06s.tobytes()
        assert first.draws.fails.tobytes() == second.draws.fails.tobytes()


@pytest.mark.validation
def test_twice_the_grid_with_twice_the_work_keeps_the_use_and_shortens_waits() -> None:
    def use_and_slowdown(factor: int, seed: int) -> tuple[float, float]:
        random = np.random.default_rng(seed)
        # 4 queues of 16 cores, one-hour jobs at load .9, twice: 8 queues and twice the arrivals
        count = 1200 * factor
        arrivals = np.sort(random.uniform(0, 86_400 * 0.9, count))
        tasks = [task(n + 1, jobs=1, arrival_s=float(at)) for n, at in enumerate(arrivals)]
        scenario = closed(*tasks, queues=4 * factor, cycle_s=1.0, closed=False, warm_up_s=14_400.0)
        figures = stats(simulate(scenario, LeastLoaded, seed))
        return figures.use, figures.slowdown

    small, large = (
        np.array([use_and_slowdown(1, seed) for seed in range(3)]),
        np.array([use_and_slowdown(2, seed) for seed in range(3)]),
    )
    assert large[:, 0].mean() == pytest.approx(small[:, 0].mean(), rel=0.03)
    assert large[:, 1].mean() <= small[:, 1].mean()


def test_output_goes_to_the_nucleus_and_waits_for_the_link() -> None:
    kind = dataclasses.replace(closed().kinds["hour"], output_gb=closed().kinds["hour"].efficiency)  # 1 GB
    scenario = closed(task(1, jobs=4), kinds={"hour": kind}, transfers_a_link=1, network_batch_s=0.0)
    scenario = dataclasses.replace(scenario, queues=(queue(0, cores=1), queue(1)), default_link_bytes_s=1e6)
    loop = ClosedLoop(scenario, _Second, 1)
    run = loop.run()
    # 1 GB over 1 MB/s, one after the other, after an hour and the stage-out
    gaps = np.diff(np.sort(run.tasks[0].done_s))
    assert gaps == pytest.approx([1000.0] * 3)
    assert sum(run.tally.wan_bytes) == pytest.approx(4e9)


class _Second(RandomPolicy):
    """Everything goes to the second queue, and output to the first site."""

    def _choose(self, view, state, queues, load):  # type: ignore[no-untyped-def]
        return np.full(len(state.unassigned), 1)


def test_a_full_storage_fails_the_write() -> None:
    kind = dataclasses.replace(closed().kinds["hour"], output_gb=closed().kinds["hour"].efficiency)
    scenario = closed(task(1, jobs=4), kinds={"hour": kind}, queues=1)
    scenario = dataclasses.replace(scenario, sites=(site(0, nucleus=True, total=2.5e9), site(1)))
    run = simulate(scenario)
    assert run.tally.no_space == 2 * scenario.attempts
    assert np.isinf(run.tasks[0].done_s).sum() == 2


@pytest.mark.parametrize(("announced", "lost"), [(False, 10), (True, 0)])
def test_an_outage_loses_running_jobs_unless_it_was_announced(announced: bool, lost: int) -> None:
    outage = Outage((0,), 1800.0, 7200.0, announced=announced, notice_s=1800.0)
    run = simulate(closed(task(1), queues=1, outages=(outage,), heartbeat_s=600.0))
    assert run.tally.lost == lost
    assert stats(run).makespan_s == pytest.approx(7200.0 + 3600.0, abs=660.0)
    # 5,400 s of down time do not count as capacity
    assert stats(run).use == pytest.approx(10 * (3600 + 1740 * (lost > 0)) / (16 * (86_400 - 5400)))


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("second_announced", [False, True])
def test_a_queue_is_up_when_the_last_of_its_outages_is_over(order: int, second_announced: bool) -> None:
    first = Outage((0,), 600.0, 7200.0, announced=True, notice_s=600.0)
    second = Outage((0,), 3600.0, 10_800.0, announced=second_announced, notice_s=1800.0)
    run = simulate(closed(task(1), queues=1, outages=(first, second)[::order]))
    assert run.tally.lost == 0
    assert run.runs.start_s.min() == pytest.approx(10_800.0, abs=660.0)
    # the overlap counts once
    assert stats(run).use == pytest.approx(10 * 3600 / (16 * (86_400 - 10_200)))
    slots = np.array([0.0, 3600.0, 7200.0, 10_800.0])
    assert up_core_s(run.scenario, 0, slots, 3600.0).tolist() == [9600.0, 0.0, 0.0, 57_600.0]
    long = up_core_s(run.scenario, 0, np.array([0.0]), 14_400.0)
    assert long.tolist() == [16 * (14_400.0 - 10_200.0)]


def test_the_end_of_an_outage_leaves_the_notice_of_the_next() -> None:
    first = Outage((0,), 0.0, 3600.0, announced=True, notice_s=0.0)
    second = Outage((0,), 5400.0, 7200.0, announced=True, notice_s=3600.0)
    run = simulate(closed(task(1), queues=1, outages=(first, second)))
    assert run.tally.lost == 0
    assert run.runs.start_s.min() == pytest.approx(7200.0, abs=660.0)


def test_a_task_waits_for_its_parents() -> None:
    run = simulate(closed(task(1), task(2, parents=(1,))))
    first, second = run.tasks
    assert second.assignable_s == first.done_s.max() == 3660.0


def test_jobs_that_wait_too_long_are_brokered_again() -> None:
    run = simulate(closed(task(1, jobs=64), queues=2, job_timeout_s=5000.0), _Crowding)
    assert run.tally.timed_out == run.tally.rebrokered > 0
    assert run.tally.returned == 0, "what was taken back does not return at once"
    assert set(run.runs.queue.tolist()) == {0, 1}


class _Crowding(RandomPolicy):
    """The first queue that fits takes all jobs."""

    def _choose(self, view, state, queues, load):  # type: ignore[no-untyped-def]
        return np.full(len(state.unassigned), queues[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queues": ()}, "no queue has any cores"),
        ({"queues": (queue(0, cores=0),)}, "no queue has any cores"),
        ({"tasks": (task(1, kind="wide"),), "queues": (queue(0, cores=4),)}, "fit no queue: 8 cores"),
        ({"tasks": (task(1, kind="wide"),), "queues": (queue(0, node_memory_gb=15.0),)}, "8 cores and 16 GB"),
        ({"default_link_bytes_s": 0.0}, "link without bandwidth"),
        ({"link_bytes_s": {(0, 1): 0.0}}, "SITE-0 to SITE-1"),
        ({"sites": (site(0, nucleus=True, rate=0.0), site(1))}, "storage without bandwidth.*SITE-0"),
        ({"sites": (site(0), site(1))}, "no site is a nucleus"),
        (
            {"tasks": (task(1, parents=(2,)), task(2, parents=(1,)))},
            "waits for itself.* -> ",
        ),
        ({"tasks": (task(1, parents=(1,)),)}, "waits for itself"),
        ({"tasks": (task(1, parents=(7,)),)}, "parent that does not exist"),
        ({"tasks": (task(1, arrival_s=-1.0),)}, "time not below 0"),
        ({"tasks": (task(1, arrival_s=math.nan),)}, "time not below 0"),
        ({"tasks": (task(1, jobs=0),)}, "at least one job"),
        ({"tasks": (task(1), task(1))}, "same number"),
        ({"tasks": (task(1, kind="none"),)}, "no kind of job"),
        ({"tasks": (task(1, share=2),)}, "no share 2"),
        ({"cycle_s": 0.0}, "cycle_s is 0.0"),
        ({"days": -1.0}, "days is -1.0"),
        ({"days": math.inf}, "days is inf"),
        ({"ages": Ages(jobs_s=-60.0)}, "ages.jobs_s is -60.0"),
        ({"warm_up_s": 86_400.0}, "warm-up"),
        ({"outages": (Outage((0,), 10.0, 5.0),)}, "ends after it starts"),
        ({"queues": (queue(0, corepower=0.0),)}, "core power"),
        ({"queues": (queue(0, failure_rate=1.5),)}, "no probability"),
        ({"queues": (queue(0, hidden_speed=math.inf),)}, "core power or speed"),
        ({"queues": (queue(0, cores=20_000_000),)}, "at most 10000000"),
        ({"cycle_s": 1e-9}, "never end"),
        ({"task_cycle_s": 1e-9}, "never end"),
        ({"ages": Ages(jobs_s=1e-9)}, "never end"),
        ({"days": 1e9}, "at most 1000 days"),
        ({"tasks": (task(1, jobs=2_000_000),)}, "at most 1000000"),
        ({"tasks": (task(1, sources=(7,)),)}, "site that does not exist"),
        ({"tasks": (task(1, believed_factor=0.0),)}, "believed_factor"),
        ({"tasks": (task(1, priority=math.nan),)}, "priority"),
        ({"tasks": (task(1, user=-1),)}, "user"),
        ({"link_bytes_s": {(0, 9): 1e9}}, "from site 0 to site 9"),
        ({"outages": (Outage((5,), 1.0, 5.0),)}, "queue that does not exist"),
    ],
)
def test_a_scenario_that_cannot_run_is_refused(change: dict[str, object], message: str) -> None:
    scenario = dataclasses.replace(closed(task(1)), **change)  # type: ignore[arg-type]
    with pytest.raises(SimulationError, match=message):
        ClosedLoop(scenario, RandomPolicy, 1)


def test_parameters_that_make_no_grid_are_refused() -> None:
    for change in ({"queues": 0}, {"cores": 3}, {"load": 0.0}, {"days": 0.0}, {"nuclei": 0}):
        with pytest.raises(SimulationError, match="grid parameters"):
            generate(dataclasses.replace(SMALL, **change), 1)
