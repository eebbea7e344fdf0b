"""The task brokerage, the analysis brokerage, timeouts and rebrokerage in the closed loop."""

from __future__ import annotations

import dataclasses
from collections import Counter
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from broker.gdpconfig import Tuning
from broker.simulation.model.errors import SimulationError, UnknownPolicyError
from broker.simulation.model.generated_grid import GridParameters, generate
from broker.simulation.model.job_states import NOT_YET, RUNNING, STAYS, TRANSFERRING
from broker.simulation.model.loop import ClosedLoop, WaitingColumns
from broker.simulation.model.policies import base
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.real.brokered import Brokered
from broker.simulation.model.real.ending import Endings
from broker.simulation.model.real.grid_rows import sources_of
from broker.simulation.model.real.user_figures import analysis_grid, user_name
from broker.simulation.model.scenario import VO
from broker.snapshot.draft import Draft
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.sources.user_jobs import COUNT_COLUMNS, USER_JOBS
from tests.simulation.small_grids import closed, queue, site, task

SMALL = GridParameters(days=0.3, queues=8, cores=600, nuclei=2, users=10, outage_mean_days=1.0, warm_up_s=3600.0)
HOUR_S = 3600.0


@pytest.fixture(scope="module")
def loop() -> ClosedLoop:
    closed_loop = ClosedLoop(generate(dataclasses.replace(SMALL, load=1.5), 3), Brokered, 3)
    closed_loop.events.run(21_000.0)
    return closed_loop


def policy_of(loop: ClosedLoop) -> Brokered:
    assert isinstance(loop.policy, Brokered)
    return loop.policy


@pytest.mark.slow
def test_user_counts_equal_those_of_the_source_of_the_snapshot(loop: ClosedLoop) -> None:
    loop.information._read_jobs()
    view, keeper = loop.information.view(), policy_of(loop).keeper
    rows = Counter[tuple[str, str, str, bool]]()
    for jobs in (*loop.grid.waiting_jobs, *loop.grid.running):
        for job in jobs:
            if job.task.kind.analysis:
                where, share = loop.scenario.queues[job.queue].name, loop.scenario.shares[job.share][0]
                rows[where, share, user_name(job.task.task.user), job.state == RUNNING] += 1
    count_rows = [
        (where, share, user, None, "user", False, False, count * runs, 0, count * (not runs), count * runs,
         count * (not runs))
        for (where, share, user, runs), count in rows.items()
    ]  # fmt: skip
    assert {row[7] > 0 for row in count_rows} == {True, False}
    sources = {source.name: source for source in sources_of(loop.scenario)}
    draft = Draft(sources, keeper.base.taken_at)
    expected = USER_JOBS.build(
        RawSource("user_jobs", {"user_job_counts": Rows(COUNT_COLUMNS, tuple(count_rows)),
                                "job_starts": Rows(("computingsite", "njobs"), ())}, keeper.base.taken_at), draft
    )  # fmt: skip
    users = sorted({job.task.task.user for jobs in loop.grid.running for job in jobs if job.task.kind.analysis})
    grid = analysis_grid(loop.scenario, view, keeper._order, users)
    for share, counts in expected.users.items():
        assert grid.users[share].tolist() == counts.tolist()
    for key, running in expected.users_running.items():
        assert np.array_equal(np.nan_to_num(grid.users_running[key], nan=-1), np.nan_to_num(running, nan=-1))
    for user in users:
        assert grid.of_user[user_name(user)] == expected.of_user[user_name(user)]
    for key, user_queue in expected.by_user.items():
        if key[0] in {user_name(user) for user in users}:
            pairs = sorted(
                zip(user_queue.unified.tolist(), user_queue.queued.tolist(), user_queue.running.tolist(), strict=True)
            )
            actual = grid.by_user[key]
            assert (
                list(zip(actual.unified.tolist(), actual.queued.tolist(), actual.running.tolist(), strict=True))
                == pairs
            )


@pytest.mark.slow
def test_user_counts_return_to_zero() -> None:
    loop = ClosedLoop(generate(SMALL, 3), Brokered, 3)
    loop.run()
    user_jobs = sum(
        1 for jobs in (*loop.grid.waiting_jobs, *loop.grid.running) for job in jobs
        if job.task.kind.analysis and job.state != TRANSFERRING
    )  # fmt: skip
    missed_events = sum(event[2].__name__ == "_missed" for event in loop.events._heap)
    assert user_jobs <= loop.grid.users._jobs.sum() <= user_jobs + missed_events
    assert (loop.grid.users._jobs >= 0).all()


def test_the_task_brokerage_skips_a_nucleus_without_space() -> None:
    scenario = closed(task(1), task(2), task(3), kinds={"hour": dataclasses.replace(closed().kinds["hour"], cores=1)})
    roomy, full = site(0, nucleus=True), dataclasses.replace(site(1, nucleus=True), storage_used=1e15)
    loop = ClosedLoop(
        dataclasses.replace(scenario, sites=(full, dataclasses.replace(roomy, name="SITE-9"))), Brokered, 1
    )
    loop.events.run(61.0)
    assert {state.nucleus for state in loop.grid.tasks.values()} == {1}
    assert policy_of(loop).faults == {}


def test_a_task_without_a_nucleus_is_retried_after_half_an_hour() -> None:
    full = dataclasses.replace(site(0, nucleus=True), storage_used=1e15)
    loop = ClosedLoop(dataclasses.replace(closed(task(1)), sites=(full, site(1))), Brokered, 1)
    loop.events.run(61.0)
    state = loop.grid.tasks[1]
    assert (state.nucleus, state.retry_s) == (NOT_YET, 60.0 + 1800.0)
    loop.grid.storages.used[0] = 0.0
    loop.information._read_storages()
    loop.events.run(1800.0)
    assert state.nucleus == NOT_YET
    loop.events.run(1921.0)
    assert state.nucleus == 0


def test_analysis_output_stays_and_analysis_chunks_go_through_the_analysis_brokerage(loop: ClosedLoop) -> None:
    states = [state for state in loop.grid.tasks.values() if state.kind.analysis]
    assert states and all(state.nucleus == STAYS for state in states)
    policy = policy_of(loop)
    cycle = policy.cycle_of("analysis_job", loop.information.view(), states[:3])
    assert type(cycle.engine).__name__ == "AnalysisCycle"
    assert cycle.engine.analysis_request is not None


def waiting_columns(loop: ClosedLoop, ages_h: dict[int, float], priority: float, **changes: object) -> WaitingColumns:
    """Jobs at the first queue, each with its age."""
    state = loop.grid.arrive(dataclasses.replace(task(77), **changes), 0)  # type: ignore[arg-type]
    now = loop.events.now
    size = len(ages_h)
    jobs = [now - age * HOUR_S for age in ages_h.values()]
    return WaitingColumns([], jobs, [0] * size, [priority] * size, [state] * size)


def idle_loop(at_h: float = 100.0, **changes: object) -> ClosedLoop:
    loop = ClosedLoop(closed(task(1, arrival_s=5.9 * 86_400), days=6.0, **changes), Brokered, 1)
    loop.events.run(at_h * HOUR_S)
    return loop


@pytest.mark.parametrize(("priority", "status", "ages_h", "overdue"), [
    (500.0, True, {0: 47.9, 1: 48.1, 2: 60.0}, [1, 2]),       # 2 days for activated jobs
    (900.0, True, {0: 5.0, 1: 3.0}, []),                      # of high priority only at queues that start nothing
    (900.0, False, {0: 5.0, 1: 3.0}, [0]),
    (500.0, False, {0: 5.0, 1: 3.0}, []),
])  # fmt: skip
def test_timeouts_are_those_of_the_broker(
    priority: float, status: bool, ages_h: dict[int, float], overdue: list[int]
) -> None:
    loop = idle_loop()
    loop.grid.last_start_s[0] = loop.events.now - 60.0
    loop.information._read_jobs()
    view = dataclasses.replace(loop.information.view(), online=np.array([status, True]))
    assert policy_of(loop).overdue(view, waiting_columns(loop, ages_h, priority)) == overdue


def test_fast_rebrokerage_takes_the_youngest_of_the_excess() -> None:
    loop = idle_loop()
    ages = {place: 1.0 + place / 10 for place in range(30)}
    columns = waiting_columns(loop, ages, 500.0)
    assert policy_of(loop).overdue(loop.information.view(), columns) == []
    tuning = Tuning.defaults(VO).with_values({"FAST_REBRO_THRESHOLD_NQUEUE_A": 20})
    overdue = Endings(loop.scenario, tuning).overdue(loop.information.view(), columns)
    assert overdue == list(range(10))


@pytest.mark.parametrize(
    ("active_h", "online", "overdue"), [(None, True, True), (0.5, True, False), (0.5, False, True)]
)
def test_user_jobs_leave_queues_without_progress(active_h: float | None, online: bool, overdue: bool) -> None:
    kind = dataclasses.replace(closed().kinds["hour"], analysis=True)
    loop = idle_loop(kinds={"hour": kind})
    columns = waiting_columns(loop, {0: 25.0}, 1000.0)
    if active_h is not None:
        columns.task[0].active_s[0] = loop.events.now - active_h * HOUR_S
    view = dataclasses.replace(loop.information.view(), online=np.array([online, True]))
    assert bool(policy_of(loop).overdue(view, columns)) is overdue


def test_a_chunk_without_a_queue_waits_for_the_retry_time_of_its_brokerage() -> None:
    user = dataclasses.replace(closed().kinds["hour"], name="user", analysis=True)
    scenario = closed(task(1), task(2, kind="user"), kinds={"hour": closed().kinds["hour"], "user": user})
    loop = ClosedLoop(scenario, Brokered, 1)
    loop.grid.online[:] = False
    loop.information._read_queues()
    loop.grid.arrive(task(3), 0)
    loop.events.run(61.0)
    assert {n: state.retry_s - 60.0 for n, state in loop.grid.tasks.items()} == {1: 1800.0, 2: 1200.0, 3: 3600.0}


@pytest.mark.slow
def test_panda_decides_by_its_own_profile() -> None:
    scenario = generate(dataclasses.replace(SMALL, load=1.2), 3)
    runs = [ClosedLoop(scenario, policy, 3).run() for policy in (Brokered, find_policy("panda"))]
    assert runs[1].policy == "panda" and runs[1].tally.assigned_jobs > 50
    assert runs[0].runs.queue.tobytes() != runs[1].runs.queue.tobytes()
    for run in runs:
        users = [state.task.jobs > len(state.unassigned) for state in run.tasks if state.kind.analysis]
        assert sum(users) > 0.5 * len(users), "users' tasks find queues by either profile"


@pytest.mark.parametrize("name", ["random", "least_loaded", "data_first", "seed", "panda", "flow", "demo"])
def test_every_policy_is_found_by_its_name(name: str) -> None:
    assert find_policy(name)(closed(task(1), queues=2), 1).name == name


def test_external_policies_are_found_and_must_not_reuse_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint("mine", "broker.simulation.model.policies.simple:RandomPolicy", base.GROUP),
             EntryPoint("broken", "broker.simulation.model.policies.simple:NoSuch", base.GROUP),
             EntryPoint("seed", "broker.simulation.model.policies.simple:RandomPolicy", base.GROUP)]  # fmt: skip
    monkeypatch.setattr(base, "entry_points", lambda group: entries)
    assert find_policy("mine").__name__ == "RandomPolicy"  # type: ignore[attr-defined]
    with pytest.raises(SimulationError, match="two policies are called seed"):
        find_policy("seed")
    with pytest.raises(SimulationError, match="cannot be loaded"):
        find_policy("broken")
    with pytest.raises(UnknownPolicyError, match="no policy is called ranbom"):
        find_policy("ranbom")


def test_a_queue_too_small_is_no_candidate() -> None:
    scenario = dataclasses.replace(closed(task(1, kind="wide")), queues=(queue(0), queue(1, cores=4)))
    loop = ClosedLoop(scenario, Brokered, 1)
    loop.events.run(7200.0)
    assert loop.grid.counts[1].sum() == 0 and loop.grid.tally.assigned_jobs > 0
