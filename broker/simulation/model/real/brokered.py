"""The brokerages of a profile as a policy: the functions of the agents, on snapshots of the simulated grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from broker import resources
from broker.brokerages.base import Rules
from broker.brokerages.job.brokerage import JobsCycle
from broker.brokerages.profile import NotInProfile, Profile, read_profile, rules_of
from broker.brokerages.registry import brokerage
from broker.domain.decisions import RETRY_AFTER
from broker.engine.shared.chain import QueueChain
from broker.gdpconfig import Tuning
from broker.lifecycle.model.failing_places import TAKE_BACK, failing_places
from broker.simulation.model.errors import SimulationError
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import NOT_YET, TaskState
from broker.simulation.model.policies.base import Assignment, WaitingJobs
from broker.simulation.model.real.chunk_work import chunk_work
from broker.simulation.model.real.ending import Endings
from broker.simulation.model.real.grid_rows import START
from broker.simulation.model.real.snapshots import SnapshotKeeper
from broker.simulation.model.real.task_work import task_work
from broker.simulation.model.real.user_figures import analysis_request
from broker.simulation.model.scenario import VO, Scenario
from broker.snapshot.sources.queue_health import QUEUE_HEALTH
from broker.snapshot.sources.task_failures import TASK_FAILURES
from broker.work.assemble import CycleWork

TASKS, JOBS, ANALYSIS = "production_task", "production_job", "analysis_job"


class Brokered:
    """The task brokerage, both job brokerages, the timeouts and both rebrokerages with one profile and one tuning.

    Args:
        scenario: scenario of the simulation.
        seed: seed of the draws.
        values: gdpconfig values that differ from the shipped tuning.
        profile: profile, or the name of a shipped one.
        vo: VO whose tuning it uses and whose queues it sees.

    Attributes:
        name: name of the profile.

    Raises:
        SimulationError: the profile lacks one of the three brokerages.
        ProfileError: one of its rules cannot be used.
    """

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        values: Mapping[str, object] | None = None,
        profile: Profile | str = "seed",
        vo: str = VO,
    ) -> None:
        self.scenario, self.seed = scenario, seed
        self.keeper = SnapshotKeeper(scenario, vo)
        self.profile = shipped_profile(profile) if isinstance(profile, str) else profile
        self.name = self.profile.profile
        self.rules: dict[str, Rules] = {name: _rules(self.profile, name) for name in (TASKS, JOBS, ANALYSIS)}
        self._sources = {name: _named_sources(rules) for name, rules in self.rules.items()}
        self.tuning = Tuning.defaults(vo).with_values(values or {})  # type: ignore[arg-type]
        self.faults: dict[str, int] = {}
        self._endings = Endings(scenario, self.tuning)
        self._waits_s: dict[int, float] = {}
        self._brokered: dict[int, TaskState] = {}

    @property
    def chain(self) -> QueueChain:
        """The rules of the production job brokerage."""
        return cast(QueueChain, self.rules[JOBS].chain)

    def choose_nuclei(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[int]:
        """The nuclei drawn by the task brokerage; NOT_YET for a task without one."""
        self._brokered = {number: state for number, state in self._brokered.items() if state.open_jobs}
        work = task_work(self.scenario, tasks, self._brokered.values())
        snapshot = self.keeper.snapshot(view)
        running = brokerage(TASKS).cycle(snapshot, work, self.tuning, self.rules[TASKS])
        nuclei = [NOT_YET] * len(tasks)
        for assigned in running.assign(self.seed + cycle):
            if assigned.nucleus is not None:
                nuclei[assigned.row] = self.keeper.site_of_nucleus[assigned.nucleus]
                self._brokered[tasks[assigned.row].task.number] = tasks[assigned.row]
        self._note_faults(running.faults)
        return nuclei

    def assign(self, view: GridView, tasks: Sequence[TaskState], cycle: int) -> list[Assignment]:
        """The assignments that the job brokerages make from the chunks, by queue."""
        self._waits_s = {}
        assignments = []
        for name, own in by_brokerage(tasks):
            running = self.cycle_of(name, view, own)
            queue_of = self.keeper.queues_of(running.snapshot)
            for chunk in running.assign(self.seed + cycle):
                number = own[chunk.row].task.number
                wait = brokerage(name).retry_after(chunk.decision)
                self._waits_s[number] = 0.0 if wait is None else wait.total_seconds()
                queues, jobs = np.unique(queue_of[chunk.candidate], return_counts=True)
                placed = zip(queues.tolist(), jobs.tolist(), strict=True)
                assignments += [Assignment(number, queue, count) for queue, count in placed]
                for queue, count in zip(queues.tolist(), jobs.tolist(), strict=True):
                    self.keeper.health.note_sent(self.scenario.queues[queue].name, count, analysis=name == ANALYSIS)
            self._note_faults(running.faults)
        return assignments

    def cycle_of(
        self, name: str, view: GridView, tasks: Sequence[TaskState], *, independent: bool = False
    ) -> JobsCycle:
        """Make a cycle of a job brokerage over the tasks."""
        work, snapshot = self.work_of(name, tasks), self.snapshot_for(name, view, tasks)
        running = brokerage(name).cycle(snapshot, work, self.tuning, self.rules[name], independent=independent)
        if not isinstance(running, JobsCycle):
            raise TypeError(f"{name} is no brokerage of jobs")
        return running

    def work_of(self, name: str, tasks: Sequence[TaskState]) -> CycleWork:
        """The chunks of the tasks, as read by a job brokerage."""
        work = chunk_work(self.scenario, tasks)
        if name != ANALYSIS:
            return work
        return dataclasses.replace(work, work=dataclasses.replace(work.work, analysis_request=analysis_request(tasks)))

    def snapshot_for(self, name: str, view: GridView, tasks: Sequence[TaskState]) -> Any:
        """The grid as seen by a job brokerage, with the sources that its rules and steps name."""
        users = sorted({state.task.user for state in tasks}) if name == ANALYSIS else None
        return self.keeper.with_sources(view, self._sources[name], users, tasks)

    def retry_s(self, task: TaskState) -> float:
        """Seconds that the brokerage lets a pending or throttled task wait; 0 if each cycle decides again."""
        return 0.0 if self.profile.redecide == "each_cycle" else self._waits_s.get(task.task.number, 0.0)

    def retry_nucleus_s(self) -> float:
        """Seconds that the task brokerage lets a task without a nucleus wait; 0 if each cycle decides again."""
        return 0.0 if self.profile.redecide == "each_cycle" else RETRY_AFTER.total_seconds()

    def overdue(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """The jobs that timeouts and rebrokerages take back."""
        return self._endings.overdue(view, waiting)

    @property
    def runs_read(self) -> int | None:
        """Number of the first run that it has yet to learn from; None if no rule or step learns from runs."""
        learns = any(sources & {QUEUE_HEALTH, TASK_FAILURES} for sources in self._sources.values())
        return self.keeper.health.read if learns or self.takes_back else None

    @property
    def takes_back(self) -> bool:
        """Whether the tuning takes jobs back from queues where jobs fail."""
        return self.tuning.flag(TAKE_BACK)

    def failing(self, view: GridView, waiting: WaitingJobs) -> Sequence[int]:
        """Positions of the jobs that wait at queues where jobs of their kind or task fail."""
        names = [queue.name for queue in self.scenario.queues]
        online = [name for name, is_online in zip(names, view.online.tolist(), strict=True) if is_online]
        health, epoch_s = self.keeper.health, START.timestamp()
        learned, tasks = health.learned(view, epoch_s), health.failing_tasks(view, epoch_s)
        places = failing_places(learned, tasks, online, epoch_s + view.now_s, self.tuning)
        labels = ["user" if state.kind.analysis else "managed" for state in waiting.task]
        rows = zip(waiting.queue, labels, waiting.task, strict=True)
        return [
            place
            for place, (queue, label, state) in enumerate(rows)
            if places.why(names[queue], label, state.task.number)
        ]

    def _note_faults(self, faults: Sequence[Any]) -> None:
        for fault in faults:
            self.faults[fault.rule] = self.faults.get(fault.rule, 0) + 1


def by_brokerage(tasks: Sequence[TaskState]) -> list[tuple[str, list[TaskState]]]:
    """The tasks of each job brokerage, in their order; a brokerage without any is omitted."""
    parts = [
        (JOBS, [state for state in tasks if not state.kind.analysis]),
        (ANALYSIS, [state for state in tasks if state.kind.analysis]),
    ]
    return [(name, own) for name, own in parts if own]


def shipped_profile(name: str) -> Profile:
    """Read the shipped profile of a name, with the profiles that it extends.

    Raises:
        OSError: no profile of this name is shipped.
    """
    return read_profile(_shipped(name), _shipped)


def read_own_profile(path: Path) -> Profile:
    """Read the profile in a file; profiles that it extends are next to it as ``NAME.yaml``, or are shipped.

    Raises:
        SimulationError: the file cannot be read.
        ProfileError: the profile is invalid, or extends one that does not exist.
    """

    def other(name: str) -> str:
        sibling = path.parent / f"{name}.yaml"
        return sibling.read_text(encoding="utf-8") if sibling.is_file() and sibling != path else _shipped(name)

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SimulationError("the profile cannot be read", str(path), str(error)) from error
    return read_profile(text, other)


def _shipped(name: str) -> str:
    return resources.path(f"config/profiles/{name}.yaml").read_text(encoding="utf-8")


def _rules(profile: Profile, brokerage_name: str) -> Rules:
    try:
        return rules_of(profile, brokerage_name)
    except NotInProfile as error:
        raise SimulationError(
            f"the profile {profile.profile} has no brokerage {brokerage_name}",
            "broker simulate",
            f"a simulated grid needs {TASKS}, {JOBS} and {ANALYSIS}: take a profile that has them",
        ) from error


def _named_sources(rules: Rules) -> frozenset[str]:
    """The sources that rules and steps need in addition to the tables of every snapshot, as the agent finds them."""
    chains = (rules.chain, *rules.needed.values())
    of_rules = {source for chain in chains for rule in chain for source in rule.sources}
    of_steps = {source for chain in chains for step in chain.named_steps.values() for source in step.needed_sources()}
    return frozenset(of_rules | of_steps)
