"""A simulated grid with drifting load, and what is known of its waiting work: ground truth for forecasts."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from benchmarks.rollout_world import ahead_of
from broker.domain.arrays import Floats
from broker.forecasts.model.subjects import (
    ONLINE,
    QUEUE,
    TASK,
    ForecastSubject,
    Line,
    Waiting,
    WaitingTask,
    apart,
    rollout_clues,
    subjects_of,
    together,
    with_rollout,
)
from broker.simulation.model.generated_grid import GridParameters, generate
from broker.simulation.model.job_states import Job, TaskState
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.rolling_out import RollOutSettings, roll_out
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.scenario_checks import check

LOOK_S, WINDOW_S = 600.0, 7200.0
#: The policy that steers the grid and rolls out its work.
POLICY = "seed"
#: A forecast is not judged if no job or task that could judge it arrives within this time.
NO_ARRIVAL_S = 3600.0
#: Fractions of the time, and of the work that has arrived by then: the load is 0.6, 1.6, 0.6 and 1.2 of the mean.
TIMES, WORK = (0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 0.15, 0.55, 0.70, 1.0)
#: The period of the load in days.
TURN_DAYS = 8.0


def drifting_scenario(seed: int, days: float, cores: int) -> Scenario:
    """Make a grid of 12 queues with outages whose load rises and falls in whole periods."""
    size = GridParameters(
        days=days, queues=12, cores=cores, nuclei=2, users=30, load=0.95, warm_up_s=0.0, median_jobs=10,
        outage_mean_days=6.0,
    )  # fmt: skip
    scenario = generate(size, seed)
    turn_s = scenario.end_s / max(1, round(days / TURN_DAYS))
    moved_tasks = [
        dataclasses.replace(task, arrival_s=_drift(task.arrival_s / turn_s) * turn_s) for task in scenario.tasks
    ]
    return check(dataclasses.replace(scenario, tasks=tuple(sorted(moved_tasks, key=lambda task: task.arrival_s))))


def _drift(turns: float) -> float:
    """Map an arrival time at even load to the one at drifting load, both in periods."""
    periods, part = divmod(turns, 1.0)
    return periods + float(np.interp(part, WORK, TIMES))


@dataclass
class TrackedSubject:
    """A subject at a look, and its outcome.

    Attributes:
        began_s: the begin of the wait; ``waited_s`` lasts until the start, or the end.
        resolved_s: when the outcome was known; infinite while it is open.
    """

    asked: ForecastSubject
    made_s: float
    began_s: float
    waited_s: float = 0.0
    is_known: bool = False
    resolved_s: float = np.inf
    is_kept: bool = True
    job: Job | None = None
    task: TaskState | None = None


class LoopObserver:
    """Observes a closed loop: notes subjects at each full hour, and checks their outcomes every ten minutes.

    Args:
        loop: the loop, before it runs.
        every_s: seconds between two looks at which subjects are noted.
        rolling: how the work is rolled out ahead at these looks; None: not at all.
    """

    def __init__(self, loop: ClosedLoop, every_s: float = 3600.0, rolling: RollOutSettings | None = None) -> None:
        self._loop, self._grid, self._every_s, self._rolling = loop, loop.grid, every_s, rolling
        self.noted: list[TrackedSubject] = []
        self._open: list[TrackedSubject] = []
        self._starts: list[tuple[float, float, str, str]] = []
        self._logged, self._next_s = 0, every_s
        self._queues = [queue.name for queue in loop.scenario.queues]
        self._shares = [name for name, _ in loop.scenario.shares]
        loop.events.at(LOOK_S, self._look)

    def _look(self) -> None:
        now = self._loop.events.now
        self._loop.events.after(LOOK_S, self._look)
        self._note_starts(now)
        for waiting in self._open:
            self._judge(waiting, now)
        self._open = [waiting for waiting in self._open if waiting.resolved_s == np.inf and waiting.is_kept]
        if now >= self._next_s:
            self._next_s += self._every_s
            for question in self._asked(now):
                awaited = TrackedSubject(question, now, now)
                if question.kind == TASK:
                    awaited.task = self._grid.tasks[int(question.subject)]
                self._open.append(awaited)
                self.noted.append(awaited)

    def _asked(self, now: float) -> list[ForecastSubject]:
        questions = subjects_of(self._waiting(now), _moment(now), WINDOW_S)
        if self._rolling is None:
            return questions
        rollout = roll_out(ahead_of(self._loop, now), find_policy(POLICY), self._rolling, lambda: 0.0)
        return with_rollout(questions, rollout_clues(rollout.lines, rollout.tasks, rollout.kinds))

    def _note_starts(self, now: float) -> None:
        """Record assignment, start, queue and share of the jobs that started since the last look."""
        since_s, grid = now - LOOK_S, self._grid
        columns = grid.log.columns()
        rows = range(self._logged, len(columns))
        ended = [(float(columns.assigned_s[row]), float(columns.start_s[row]), int(columns.queue[row]),
                  int(columns.share[row])) for row in rows]  # fmt: skip
        running = [(job.assigned_s, job.started_s, job.queue, job.share) for jobs in grid.running for job in jobs]
        self._logged = len(columns)
        self._starts += [
            (assigned, start, self._queues[queue], self._shares[share])
            for assigned, start, queue, share in (*ended, *running)
            if start >= since_s
        ]
        self._starts = [entry for entry in self._starts if entry[1] >= now - WINDOW_S]

    def _judge(self, awaited: TrackedSubject, now: float) -> None:
        if awaited.asked.kind == QUEUE:
            self._judge_line(awaited, now)
        else:
            self._judge_task(awaited, now)

    def _judge_line(self, awaited: TrackedSubject, now: float) -> None:
        if awaited.job is None:
            queue, share = apart(awaited.asked.subject)
            queue_index, share_index = self._queues.index(queue), self._shares.index(share)
            candidates = [
                job
                for jobs in (self._grid.waiting_jobs[queue_index], self._grid.running[queue_index])
                for job in jobs
                if job.share == share_index and job.assigned_s >= awaited.made_s
            ]
            awaited.job = min(candidates, key=lambda job: (job.assigned_s, job.ticket), default=None)
            if awaited.job is None:
                awaited.is_kept = now - awaited.made_s < NO_ARRIVAL_S
                return
            awaited.began_s = awaited.job.assigned_s
        job = awaited.job
        if not np.isnan(job.started_s):
            awaited.waited_s, awaited.is_known, awaited.resolved_s = job.started_s - awaited.began_s, True, now
        elif job not in self._grid.waiting_jobs[job.queue] and job not in self._grid.running[job.queue]:
            awaited.waited_s, awaited.resolved_s = max(0.0, now - LOOK_S - awaited.began_s), now
        else:
            awaited.waited_s = now - awaited.began_s

    def _judge_task(self, awaited: TrackedSubject, now: float) -> None:
        if awaited.task is None:
            candidates = [
                state
                for state in self._grid.tasks.values()
                if state.assignable_s >= awaited.made_s and self._kind(state) == awaited.asked.subject
            ]
            awaited.task = min(candidates, key=lambda state: (state.assignable_s, state.task.number), default=None)
            if awaited.task is None:
                awaited.is_kept = now - awaited.made_s < NO_ARRIVAL_S
                return
            awaited.began_s = awaited.task.assignable_s
        start = self._first_start(awaited.task, awaited.made_s)
        started_s = np.inf if start is None else start
        awaited.waited_s = max(0.0, min(now, started_s) - awaited.began_s)
        if start is not None:
            awaited.is_known, awaited.resolved_s = True, now
        elif awaited.task.open_jobs == 0:
            awaited.resolved_s = now

    def _first_start(self, state: TaskState, since_s: float) -> float | None:
        """Return the first start of a job of the task since then; retries count, too."""
        first = state.first_start_s[state.first_start_s >= since_s]
        retries = [
            job.started_s
            for jobs in self._grid.running
            for job in jobs
            if job.task is state and job.started_s >= since_s
        ]
        return min((*first.tolist(), *retries), default=None)

    def _kind(self, state: TaskState) -> str:
        return together(self._shares[state.task.share], "SCORE" if state.kind.cores == 1 else "MCORE")

    def _waiting(self, now: float) -> Waiting:
        grid = self._grid
        places: dict[int, dict[str, int]] = defaultdict(dict)
        backlog: dict[str, dict[float, int]] = defaultdict(lambda: defaultdict(int))
        waits: dict[tuple[str, str], list[float]] = defaultdict(list)
        lines: dict[tuple[str, str], list[Job]] = defaultdict(list)
        for assigned, start, queue, share in self._starts:
            waits[queue, share].append(start - assigned)
        for queue, jobs in zip(self._queues, grid.waiting_jobs, strict=True):
            for job in jobs:
                lines[queue, self._shares[job.share]].append(job)
                backlog[self._shares[job.share]][job.priority] += 1
        for (queue, _), line in lines.items():
            for place, job in enumerate(sorted(line, key=lambda job: (-job.priority, job.ticket)), 1):
                places[job.task.task.number].setdefault(queue, place)
        for state in grid.assignable.values():
            backlog[self._shares[state.task.share]][state.task.priority] += len(state.unassigned)
        return Waiting(
            status=dict(zip(self._queues, (ONLINE if up else "offline" for up in grid.online), strict=True)),
            lines={key: _line(lines.get(key, []), waits.get(key, []), now) for key in {*lines, *waits}},
            backlog={share: sorted(by_priority.items()) for share, by_priority in backlog.items()},
            tasks=tuple(self._tasks(places)),
            task_kinds=tuple(sorted({apart(self._kind(state)) for state in grid.tasks.values()})),
        )

    def _tasks(self, places: dict[int, dict[str, int]]) -> Iterator[WaitingTask]:
        running = {job.task.task.number for jobs in self._grid.running for job in jobs}
        for number, state in self._grid.tasks.items():
            if number in running or not (number in places or state.unassigned):
                continue
            share, resource_type = apart(self._kind(state))
            created = _moment(state.assignable_s)
            yield WaitingTask(number, share, resource_type, state.task.priority, created, places.get(number, {}))


def _line(jobs: Sequence[Job], waits: Sequence[float], now: float) -> Line:
    median_wait = float(np.median(waits)) if waits else float("nan")
    return Line(len(jobs), len(waits), median_wait, max((now - job.assigned_s for job in jobs), default=0.0))


def _moment(time_s: float) -> datetime:
    return datetime.fromtimestamp(time_s, UTC)


def watched(
    seed: int, days: float, cores: int, policy: str = POLICY, rolling: RollOutSettings | None = None
) -> list[TrackedSubject]:
    """Run a simulation; return the subjects with their outcomes, in the order of the looks."""
    loop = ClosedLoop(drifting_scenario(seed, days, cores), find_policy(policy), seed)
    watching = LoopObserver(loop, rolling=rolling)
    loop.run()
    return [dataclasses.replace(awaited, job=None, task=None) for awaited in watching.noted if awaited.is_kept]


def instants(noted: Sequence[TrackedSubject]) -> Floats:
    """Return the instants of the looks, in order."""
    return np.unique(np.array([awaited.made_s for awaited in noted]))
