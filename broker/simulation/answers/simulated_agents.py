"""A policy of the simulation that runs the real agents: they read PanDA's tables, and their results are read back.

At each cycle the simulated grid is written to a database of its own, with the age that the policy may see; the agent
runs at the virtual time with the seed of the cycle. docs/explanation/simulation.md describes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from agents.service import configuration, registry
from agents.service.base import Agent, CycleRequest
from agents.service.configuration import ProcessSettings, load_profile
from broker.decisions.answers.agent_cycle import TASK_AGENT, run_leased, section_named
from broker.domain.decisions import RETRY_AFTER
from broker.simulation.model.comparing import Case, CaseResult, simulate_with
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import NOT_YET, TaskState
from broker.simulation.model.policies.base import PROFILES, Assignment, WaitingJobs
from broker.simulation.model.real.brokered import by_brokerage
from broker.simulation.model.real.grid_rows import instant
from broker.simulation.model.real.grid_tables import GridTables, Row, Tables, merged
from broker.simulation.model.real.snapshots import SnapshotKeeper
from broker.simulation.model.real.work_tables import rebrokered_rows, task_tables, waiting_tables
from broker.simulation.model.scenario import VO, Scenario
from broker.store.connection.database import Database
from broker.store.scenarios import load_dump, scenario_file
from broker.whatif.answers.stored_cases import scratch_database

#: The agents that end jobs, in the order in which they check waiting jobs.
ENDING = ("timeouts", "analysis_rebrokerage", "fast_rebrokerage")
#: Number of input files that the task brokerage passes to the job brokerage.
HINT_FILES = 10

_REMEMBER = sa.text("""
    INSERT INTO broker.rebrokered_from (jeditaskid, datasetid, queue, rebrokered_at)
    VALUES (:jeditaskid, :datasetid, :queue, :rebrokered_at)""")


class ThroughDatabase:
    """The agents of the task brokerage, both job brokerages, the timeouts and both rebrokerages on a database.

    Args:
        scenario: scenario of the simulation.
        seed: seed of the draws.
        database: database for this simulation only, with the current schema: its tables are emptied at each cycle.
        profile: shipped profile of the brokerages; the policy has its name.
        config: rows of the table ``config``: gdpconfig values that differ from the shipped tuning.
    """

    def __init__(
        self, scenario: Scenario, seed: int, database: Database, profile: str = "seed", config: Sequence[Row] = ()
    ) -> None:
        if scenario.vos != (VO,):
            raise SimulationError(
                f"VOs {', '.join(scenario.vos)}", "--through-database", f"only {VO} is simulated through a database"
            )
        self.scenario, self.seed, self.name = scenario, seed, profile
        keeper = SnapshotKeeper(scenario)
        names = [str(name) for name in keeper.base.nuclei.name]
        self._site_of = dict(zip(names, keeper.site_of_nucleus, strict=True))
        self._queue_of = {queue.name: number for number, queue in enumerate(scenario.queues)}
        self._rows = GridTables(scenario, names)
        self._database, self._config = database, list(config)
        self._agents = configuration.load(configuration.config_file("agents.yaml"), registry.NAMES)
        brokering = ProcessSettings(profile=profile, job_generation="broker", job_statistics="panda")
        ending = ProcessSettings(profile=profile, job_generation="broker", job_statistics="live")
        read = load_profile(profile)
        self._each_cycle = read.redecide == "each_cycle"
        named = [entry.brokerage for entry in read.brokerages]
        self._brokering = {name: self._make_agent(name, brokering) for name in registry.BROKERAGES if name in named}
        self._ending = [self._make_agent(name, ending) for name in ENDING]
        self._waits_s: dict[int, float] = {}
        self._brokered: dict[int, TaskState] = {}

    def choose_nuclei(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[int]:
        """The nuclei written by the agent of the task brokerage; NOT_YET for a task without one."""
        self._brokered = {number: state for number, state in self._brokered.items() if state.open_jobs}
        wanting = task_tables(self.scenario, tasks, "assigning", HINT_FILES)
        others = task_tables(self.scenario, list(self._brokered.values()), "running", 0)
        self._write(view, merged(self._rows.grid(view), self._rows.counted_jobs(view), wanting, others), tasks)
        self._run(self._brokering[TASK_AGENT], view, self.seed + cycle)
        written = dict(self._read("SELECT jeditaskid, nucleus FROM {panda}.jedi_tasks WHERE nucleus IS NOT NULL"))
        nuclei = [self._site_of.get(written.get(state.task.number, ""), NOT_YET) for state in tasks]
        chosen = zip(tasks, nuclei, strict=True)
        self._brokered |= {state.task.number: state for state, nucleus in chosen if nucleus != NOT_YET}
        return nuclei

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """The assignments written by the agents of the job brokerages, by queue."""
        self._waits_s = {}
        grid, assignments = merged(self._rows.grid(view), self._rows.counted_jobs(view)), []
        for name, own in by_brokerage(tasks):
            self._write(view, merged(grid, task_tables(self.scenario, own, "running")), own)
            for decision in self._run(self._brokering[name], view, self.seed + cycle):
                until = decision["pending_until"]
                waits = 0.0 if until is None else (datetime.fromisoformat(until) - instant(view.now_s)).total_seconds()
                self._waits_s[decision["jeditaskid"]] = waits
            place = {state.task.number: number for number, state in enumerate(own)}
            jobs = self._read("SELECT jeditaskid, computingsite, count(*) FROM {panda}.jobsdefined4 GROUP BY 1, 2")
            task_assignments = [Assignment(task, self._queue_of[queue], count) for task, queue, count in jobs]
            assignments += sorted(task_assignments, key=lambda entry: (place[entry.task], entry.queue))
        return assignments

    def retry_s(self, task: TaskState) -> float:
        """Seconds that the agent lets a pending or throttled task wait."""
        return self._waits_s.get(task.task.number, 0.0)

    def retry_nucleus_s(self) -> float:
        """Seconds that the agent of the task brokerage lets a task wait; 0 if each cycle decides again."""
        return 0.0 if self._each_cycle else RETRY_AFTER.total_seconds()

    def overdue(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Positions of the waiting jobs that the agents of the timeouts and of both rebrokerages end."""
        self._write(view, merged(self._rows.grid(view), waiting_tables(self.scenario, view, waiting)), ())
        for agent in self._ending:
            self._run(agent, view, self.seed)
        remaining = {pandaid for (pandaid,) in self._read("SELECT pandaid FROM {panda}.jobsactive4")}
        return [place for place in range(len(waiting.task)) if place + 1 not in remaining]

    def _make_agent(self, name: str, process: ProcessSettings) -> Agent[Any]:
        return registry.make(name, section_named(self._agents, name).options, process)

    def _write(self, view: GridView, tables: Tables, tasks: Sequence[TaskState]) -> None:
        """Replace the content of the database by the rows."""
        filled: Mapping[str, list[Row]] = {
            name: rows for name, rows in {**tables, "config": self._config}.items() if rows
        }
        load_dump.load(self._database, scenario_file.Scenario(instant(view.now_s), filled), replace=True)
        memory = rebrokered_rows(self.scenario, tasks)
        if memory:
            with self._database.begin() as connection:
                connection.execute(_REMEMBER, memory)

    def _run(self, agent: Agent[Any], view: GridView, seed: int) -> list[dict[str, Any]]:
        """Run one cycle of an agent at the virtual time. Returns its decisions as objects."""
        decisions: list[dict[str, Any]] = []
        # the brake is ignored here, as policies that do not go through a database have none
        request = CycleRequest(emit=decisions.append, force=True)
        run_leased(agent, self._agents, self._database, instant(view.now_s), seed, request)
        return decisions

    def _read(self, statement: str) -> list[tuple[Any, ...]]:
        with self._database.read_snapshot() as connection:
            return [tuple(row) for row in connection.execute(sa.text(self._database.names.sql(statement)))]


def check_agents_only(policies: Sequence[str]) -> None:
    """Refuse policies that are not run by agents.

    Raises:
        SimulationError: no agent decides by one of the policies.
    """
    others = [name for name in policies if name not in PROFILES]
    if others:
        raise SimulationError(
            f"{', '.join(others)}: no agent decides so",
            "--through-database",
            f"take {', '.join(PROFILES[:-1])} or {PROFILES[-1]}",
        )


def simulate_through_database(case: Case) -> CaseResult:
    """Run one simulation with the agents, on a temporary database.

    Raises:
        SimulationError: its scenario cannot be simulated.
        EmbeddedServerError: the embedded server is not installed or does not start.
        BrokerError: the cycle of an agent failed.
    """
    with scratch_database("simulation") as database:
        return simulate_with(case, lambda scenario, seed: ThroughDatabase(scenario, seed, database, case.policy))
