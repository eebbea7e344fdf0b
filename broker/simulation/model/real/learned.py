"""Knowledge that a simulated broker gains from the ends of runs, as the agent ``outcomes`` does from the archive."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from broker.domain.failed_inputs import RETENTION_H, FailedFiles, FailedInputs
from broker.domain.instants import HOUR_S
from broker.domain.queue_capacity import QueueSums
from broker.domain.queue_health import ANALYSIS, PRODUCTION, EndedJob, HealthFold, HealthLimits, QueueHealth
from broker.simulation.model.information import GridView
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.scenario import Scenario
from broker.snapshot.sources.queue_capacity import LearnedCapacity
from broker.snapshot.sources.queue_health import LearnedHealth, LearnedQueues
from broker.snapshot.sources.task_failures import FAILED_LEAST, FailingTasks

#: Seconds between two cycles of the agent, as shipped.
PERIOD_S = 120.0


class HealthKeeper:
    """Folds newly ended runs into the health of queues, once in each period of the agent.

    Args:
        scenario: scenario of the simulation.
        limits: limits of the test.

    Attributes:
        read: number of the first run that has not been read.
        most_probes: maximum number of jobs sent in one probation.
        closings: exclusions of queues: instant (s), queue, kind, and number of counted failures.
    """

    def __init__(self, scenario: Scenario, limits: HealthLimits | None = None) -> None:
        self._names = [queue.name for queue in scenario.queues]
        self._fold = HealthFold(HealthLimits() if limits is None else limits)
        self.read, self._next_s, self.most_probes = 0, 0.0, 0
        self._learned: LearnedQueues = {}
        self._failing: FailingTasks = {}
        self._probes: dict[tuple[str, str], tuple[float, int]] = {}
        self.closings: list[tuple[float, str, str, int]] = []

    def learned(self, view: GridView, epoch_s: float) -> LearnedQueues:
        """The health of the queues by the ends of runs read so far.

        Args:
            view: view of the grid.
            epoch_s: beginning of the simulation in seconds since 1970 UTC.
        """
        if view.runs is None or view.now_s < self._next_s:
            return self._with_probes()
        self._next_s = view.now_s + PERIOD_S
        for task, queue, outcome, start_s, end_s, analysis in view.runs.ends(self.read, view.runs_read):
            if outcome in ("finished", "failed", "lost"):
                end: Literal["finished", "failed"] = "finished" if outcome == "finished" else "failed"
                name, kind = self._names[queue], ANALYSIS if analysis else PRODUCTION
                before = self._fold.places.get((name, kind, ""))
                state_before = "" if before is None else before.state
                self._fold.add(EndedJob(epoch_s + end_s, 0, name, kind, task, end, epoch_s + start_s))
                place = self._fold.places[name, kind, ""]
                if place.state == "excluded" != state_before:
                    self.closings.append((end_s, name, kind, place.failed))
        self.read = view.runs_read
        self._fold.advance(epoch_s + view.now_s)
        self._fold.forget_tasks(epoch_s + view.now_s)
        self._learned = {
            (place.queue, place.kind): _learned(place) for place in self._fold.places.values() if not place.node
        }
        self._failing = _failing_tasks(self._fold)
        return self._with_probes()

    def note_sent(self, queue: str, jobs: int, *, analysis: bool) -> None:
        """Count jobs sent to a queue; jobs sent to a queue on probation are probe jobs."""
        place = self._fold.places.get((queue, ANALYSIS if analysis else PRODUCTION, ""))
        if place is not None and place.state == "probation":
            began_s, sent = self._probes.get((queue, place.kind), (place.changed_s, 0))
            sent = jobs + (sent if began_s == place.changed_s else 0)
            self._probes[queue, place.kind] = (place.changed_s, sent)
            self.most_probes = max(self.most_probes, sent)

    def _with_probes(self) -> LearnedQueues:
        """The known health, with the probe jobs that were sent and have not ended according to the runs read so far."""
        learned = dict(self._learned)
        for key, (began_s, sent) in self._probes.items():
            place = self._fold.places[*key, ""]
            if key in learned and place.state == "probation" and place.changed_s == began_s:
                learned[key] = dataclasses.replace(learned[key], probes_there=max(0, sent - place.probes_ended))
        return learned

    def failing_tasks(self, view: GridView, epoch_s: float) -> FailingTasks:
        """The tasks with jobs that failed at a queue, by the ends of runs read so far; see :meth:`learned`."""
        self.learned(view, epoch_s)
        return self._failing


def _failing_tasks(fold: HealthFold) -> FailingTasks:
    tasks = {}
    for task, hours in fold.task_hours.items():
        failed = Counter[str]()
        for (queue, _), (_, more) in hours.items():
            failed[queue] += more
        if failed and max(failed.values()) >= FAILED_LEAST:
            tasks[task] = dict(hours)
    return tasks


def _learned(place: QueueHealth) -> LearnedHealth:
    hours = max(0.0, place.last_s - place.since_s) / 3600.0
    return LearnedHealth(
        place.state, place.statistic, place.failed, place.ended, len(place.tasks), hours, place.until_s,
        place.probes_ended, 0, *place.lately(),
    )  # fmt: skip


def failed_inputs(
    names: Sequence[str], tasks: Iterable[TaskState], now_s: float, epoch_s: float, first_dataset: int
) -> FailedInputs:
    """Jobs that wait for their next attempt, by the queues at which they failed until the agent's last cycle.

    Args:
        names: names of the queues.
        tasks: brokered tasks.
        now_s: current virtual time.
        epoch_s: beginning of the simulation in seconds since 1970 UTC.
        first_dataset: number of the dataset of task 0.
    """
    until_s = now_s // PERIOD_S * PERIOD_S
    inputs: dict[tuple[int, int], dict[str, FailedFiles]] = {}
    for state in tasks:
        if not state.failed_at:
            continue
        ends: dict[int, list[float]] = {}
        for index in sorted(state.failed_at.keys() & set(state.unassigned)):
            for queue, at_s in state.failed_at[index].items():
                if until_s - RETENTION_H * HOUR_S <= at_s <= until_s:
                    ends.setdefault(queue, []).append(epoch_s + at_s)
        if ends:
            key = (state.task.number, first_dataset + state.task.number)
            inputs[key] = {names[queue]: FailedFiles(len(ends_s), max(ends_s)) for queue, ends_s in ends.items()}
    return inputs


class CapacityKeeper:
    """Accumulates the observed capacity of queues, as the agent ``outcomes`` does; walltimes are not compared.

    Args:
        names: names of the queues of the scenario.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._most = np.zeros(len(names))
        self._hours: set[int] = set()

    def learned(self, view: GridView) -> LearnedCapacity:
        """The sums by queue, including this view."""
        self._most = np.maximum(self._most, view.busy_cores)
        self._hours.add(int(view.now_s // 3600.0))
        rows = zip(self._names, self._most.tolist(), view.outcomes.tolist(), strict=True)
        return {
            name: QueueSums(most, len(self._hours), int(finished), int(failed))
            for name, most, (finished, failed) in rows
        }
