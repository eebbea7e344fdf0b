"""The agents on a database of the simulated grid make the same decisions as their functions on snapshots in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from agents.service.base import Agent
from broker.codec.work_codec import decode_load
from broker.domain.counted_load import ChunkPlan
from broker.simulation.answers.simulated_agents import ThroughDatabase
from broker.simulation.model.information import GridView
from broker.simulation.model.job_kinds import Fixed, fixed_kind
from broker.simulation.model.job_states import NOT_YET, TaskState
from broker.simulation.model.loop import ClosedLoop, WaitingColumns
from broker.simulation.model.policies.base import Assignment
from broker.simulation.model.real.brokered import JOBS, Brokered
from broker.simulation.model.real.grid_rows import instant
from broker.simulation.model.scenario import Ages, Outage, Queue, Scenario, Site, Task
from broker.store.connection.database import Database
from broker.store.decisions.stored_cycles import cycle_keys, read_cycle
from tests.agents.moving_jobs import config
from tests.simulation.small_grids import AT_ONCE, queue, site, task

pytestmark = pytest.mark.slow

HOUR_S = 3600.0
KINDS = {
    "one": dataclasses.replace(fixed_kind("one", 1, Fixed(36_000.0), 2.0), input_gb=1.5, events=1000),
    "wide": dataclasses.replace(fixed_kind("wide", 8, Fixed(288_000.0), 1.9), input_gb=0.3, events=20),
    "user": dataclasses.replace(fixed_kind("user", 1, Fixed(30_000.0), 1.8), input_gb=0.2, analysis=True),
}


@pytest.fixture(scope="module")
def database(shared_database: Database) -> Database:
    return shared_database


def arriving_tasks() -> list[Task]:
    """A user task each minute, and a production task every three minutes."""
    tasks = [
        task(number, 20 + 7 * number % 60, kind="user", arrival_s=60.0 * number - 30.0, share=1, user=number % 3,
             priority=1000.0 - number)
        for number in range(1, 22)
    ] + [
        task(number, 30 + 11 * number % 60, kind=("one", "wide")[number % 2], arrival_s=180.0 * (number - 100) - 130.0,
             priority=(450.0, 930.0)[number % 3 == 0], sources=(number % 3, 3), believed_factor=1.1)
        for number in range(101, 108)
    ]  # fmt: skip
    return tasks


def grid(*tasks: Task, **changes: object) -> Scenario:
    """Four sites, two of them nuclei; six queues, one with an outage; and readings of the default ages."""
    sites: tuple[Site, ...] = tuple(site(number, nucleus=number < 2, rate=2e8, total=4e14) for number in range(4))
    queues: tuple[Queue, ...] = tuple(
        queue(number, 64, node_cores=16, nodes=4, site=number % 4, node_memory_gb=64.0, corepower=8.0 + number,
              mode=("push", "pull")[number % 2])
        for number in range(6)
    )  # fmt: skip
    base = Scenario(
        name="both ways",
        days=2.0,
        sites=sites,
        queues=queues,
        shares=(("Production", 3.0), ("Analysis", 1.0)),
        tasks=tasks,
        kinds=KINDS,
        link_bytes_s={(0, 1): 3.3e8, (2, 0): 1.2e8, (3, 1): 4.4e9},
        outages=(Outage((5,), 300.0, 2 * HOUR_S, announced=True),),
        warm_up_s=0.0,
        task_cycle_s=300.0,
        pilots=AT_ONCE,
        ages=Ages(),
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


class Reading(ThroughDatabase):
    """Reads the plan that the agent of production jobs stored with each chunk."""

    plans: Mapping[int, ChunkPlan | None] = {}

    def _run(self, agent: Agent[Any], view: GridView, seed: int) -> list[dict[str, Any]]:
        decisions = super()._run(agent, view, seed)
        if agent.name == JOBS:
            now = instant(view.now_s)
            with self._database.read_snapshot() as connection:
                (key,) = cycle_keys(connection, since=now, until=now, brokerages=[JOBS])
                records = [item.record for item in read_cycle(connection, key).decisions]
            self.plans = {item.decision.jeditaskid: decode_load(item.work or b"").plan for item in records}
        return decisions


class BothWays:
    """Calls both, and follows the decisions in memory."""

    name = "both"

    def __init__(self, scenario: Scenario, seed: int, database: Database, profile: str) -> None:
        self.memory = Brokered(scenario, seed, profile=profile)
        self.agents = Reading(scenario, seed, database, profile)
        self.nuclei: list[int] = []
        self.assigned: list[list[Assignment]] = []
        self.analysis = self.plans = 0

    def choose_nuclei(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[int]:
        nuclei = self.memory.choose_nuclei(view, tasks, cycle)
        assert self.agents.choose_nuclei(view, tasks, cycle) == nuclei
        self.nuclei += nuclei
        return nuclei

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        assignments = self.memory.assign(view, tasks, cycle)
        assert self.agents.assign(view, tasks, cycle) == assignments
        assert [self.agents.retry_s(state) for state in tasks] == [self.memory.retry_s(state) for state in tasks]
        self.compare_plans(view, tasks, cycle)
        self.assigned.append(assignments)
        self.analysis += sum(state.kind.analysis for state in tasks)
        return assignments

    def compare_plans(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> None:
        """The agent stored the same plan for each chunk as the program of the cycle in memory."""
        production = [state for state in tasks if not state.kind.analysis]
        if self.memory.name != "flow" or not production:
            return
        chunks = self.memory.cycle_of(JOBS, view, production).assign(self.memory.seed + cycle)
        plans = {chunk.decision.jeditaskid: chunk.before.plan for chunk in chunks}
        agent_plans = self.agents.plans
        assert agent_plans == plans
        self.plans += sum(plan is not None and len(plan.queues) > 0 for plan in agent_plans.values())

    def retry_s(self, task: TaskState) -> float:
        return self.memory.retry_s(task)

    def retry_nucleus_s(self) -> float:
        assert self.agents.retry_nucleus_s() == self.memory.retry_nucleus_s()
        return self.memory.retry_nucleus_s()

    def overdue(self, view: GridView, waiting: WaitingColumns) -> Sequence[int]:
        return []


@pytest.mark.parametrize("profile", ["seed", "panda", "flow"])
def test_both_ways_decide_the_same_over_twenty_cycles(database: Database, profile: str) -> None:
    scenario = grid(*arriving_tasks())
    loop = ClosedLoop(scenario, lambda scenario, seed: BothWays(scenario, seed, database, profile), 7)
    loop.events.run(1270.0)
    policy = loop.policy
    assert isinstance(policy, BothWays)
    assert len(policy.assigned) >= 20 and policy.analysis >= 20
    assert {0, 1, NOT_YET} == set(policy.nuclei)
    queues = {assignment.queue for assignments in policy.assigned for assignment in assignments}
    assert (
        len(queues) >= 5 and sum(assignment.jobs for assignments in policy.assigned for assignment in assignments) > 300
    )
    assert (policy.plans >= 5) is (profile == "flow")


class Waiting:
    """Waiting jobs at the queues of a grid, with all columns that the rules for them read."""

    def __init__(self) -> None:
        self.loop = ClosedLoop(grid(task(99, kind="one", arrival_s=1.9 * 86_400.0, sources=(0,))), Brokered, 1)
        self.loop.events.run(40.0 * HOUR_S)
        self.columns = WaitingColumns([], [], [], [], [])

    def add(self, number: int, jobs: int, age_h: float, at: int, **changes: object) -> TaskState:
        state = self.loop.grid.arrive(dataclasses.replace(task(number, jobs, kind="one"), **changes), 0)  # type: ignore[arg-type]
        self.columns.since_s.extend(self.loop.events.now - age_h * HOUR_S - 60.0 * place for place in range(jobs))
        self.columns.queue.extend([at] * jobs)
        self.columns.priority.extend([state.task.priority] * jobs)
        self.columns.task.extend([state] * jobs)
        return state

    def view(self) -> GridView:
        self.loop.grid.last_start_s[:] = self.loop.events.now - 60.0
        self.loop.grid.last_start_s[3] = self.loop.events.now - 30.0 * HOUR_S
        self.loop.information._read_jobs()
        online = np.array([True, True, False, True, True, True])
        return dataclasses.replace(self.loop.information.view(), online=online)


@pytest.fixture(scope="module")
def waiting() -> Waiting:
    waiting_jobs = Waiting()
    waiting_jobs.add(1, 4, 30.0, 0)
    waiting_jobs.add(2, 3, 60.0, 1)  # over two days
    waiting_jobs.add(3, 3, 5.0, 2, priority=950.0)  # express, offline
    waiting_jobs.add(4, 3, 5.0, 3, priority=950.0)  # express, where nothing starts
    waiting_jobs.add(5, 30, 1.0, 4)  # more jobs than run there
    user: dict[str, object] = {"kind": "user", "share": 1, "user": 2}
    waiting_jobs.add(6, 2, 25.0, 0, **user)  # no progress
    waiting_jobs.add(7, 2, 25.0, 0, **user).active_s[0] = waiting_jobs.loop.events.now - 1800.0
    waiting_jobs.add(8, 2, 25.0, 2, **user).active_s[2] = waiting_jobs.loop.events.now - 1800.0  # offline
    return waiting_jobs


@pytest.mark.parametrize("threshold", [None, 10])
def test_both_ways_end_the_same_jobs(database: Database, waiting: Waiting, threshold: int | None) -> None:
    name = "FAST_REBRO_THRESHOLD_NQUEUE_Production"
    values = {} if threshold is None else {name: threshold}
    rows = [config(key, value) for key, value in values.items()]
    scenario, view = waiting.loop.scenario, waiting.view()
    memory = Brokered(scenario, 1, values)
    agents = ThroughDatabase(scenario, 1, database, config=rows)
    places = list(memory.overdue(view, waiting.columns))
    assert agents.overdue(view, waiting.columns) == places
    tasks = {waiting.columns.task[place].task.number for place in places}
    assert tasks == ({2, 3, 4, 6, 8} if threshold is None else {2, 3, 4, 5, 6, 8})
