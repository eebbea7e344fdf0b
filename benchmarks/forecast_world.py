"""A simulated grid that drifts, and what is known of its waiting work at each look: the ground truth of forecasts."""

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
    Asked,
    Line,
    Waiting,
    WaitingTask,
    apart,
    asked_of,
    rollout_clues,
    together,
    with_rollout,
)
from broker.simulation.model.generated_grid import GridParameters, generate
from broker.simulation.model.job_states import Job, TaskState
from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.rolling_out import Rolling, roll_out
from broker.simulation.model.scenario import Scenario, check

LOOK_S, WINDOW_S = 600.0, 7200.0
#: That steers the grid, and by which its work is rolled out.
POLICY = "seed"
#: Where nothing came for so long by which a forecast could be judged, it is not.
NOBODY_CAME_S = 3600.0
#: Parts of the time, and the parts of the work that arrive in them: the load is 0.6, 1.6, 0.6 and 1.2 of the usual.
TIMES, WORK = (0.0, 0.25, 0.5, 0.75, 1.0), (0.0, 0.15, 0.55, 0.70, 1.0)
#: After so many days the load does the same again.
TURN_DAYS = 8.0


def drifting(seed: int, days: float, cores: int) -> Scenario:
    """A grid of 12 queues with outages whose load rises and falls, in whole turns."""
    size = GridParameters(
        days=days, queues=12, cores=cores, nuclei=2, users=30, load=0.95, warm_up_s=0.0, median_jobs=10,
        outage_mean_days=6.0,
    )  # fmt: skip
    made = generate(size, seed)
    turn_s = made.end_s / max(1, round(days / TURN_DAYS))
    moved = [dataclasses.replace(one, arrival_s=_drifted(one.arrival_s / turn_s) * turn_s) for one in made.tasks]
    return check(dataclasses.replace(made, tasks=tuple(sorted(moved, key=lambda one: one.arrival_s))))


def _drifted(turns: float) -> float:
    """When what arrives at an even load after so many turns arrives at the load that rises and falls, in turns."""
    whole, part = divmod(turns, 1.0)
    return whole + float(np.interp(part, WORK, TIMES))


@dataclass
class Awaited:
    """A subject at a look, and what came of it.

    Attributes:
        began_s: from when its wait counts; ``waited_s`` to the start, or to the end.
        resolved_s: when that was known; infinite while it is open.
    """

    asked: Asked
    made_s: float
    began_s: float
    waited_s: float = 0.0
    is_known: bool = False
    resolved_s: float = np.inf
    is_kept: bool = True
    job: Job | None = None
    task: TaskState | None = None


class Watching:
    """Looks at a closed loop: what is asked at each full hour, and what came of it, seen every ten minutes.

    Args:
        loop: before it runs.
        every_s: seconds between two looks at which subjects are noted.
        rolling: how the work is rolled out ahead at these looks; None for not at all.
    """

    def __init__(self, loop: ClosedLoop, every_s: float = 3600.0, rolling: Rolling | None = None) -> None:
        self._loop, self._grid, self._every_s, self._rolling = loop, loop.grid, every_s, rolling
        self.noted: list[Awaited] = []
        self._open: list[Awaited] = []
        self._starts: list[tuple[float, float, str, str]] = []
        self._logged, self._next_s = 0, every_s
        self._queues = [queue.name for queue in loop.scenario.queues]
        self._shares = [name for name, _ in loop.scenario.shares]
        loop.events.at(LOOK_S, self._look)

    def _look(self) -> None:
        now = self._loop.events.now
        self._loop.events.after(LOOK_S, self._look)
        self._note_starts(now)
        for one in self._open:
            self._judge(one, now)
        self._open = [one for one in self._open if one.resolved_s == np.inf and one.is_kept]
        if now >= self._next_s:
            self._next_s += self._every_s
            for asked in self._asked(now):
                made = Awaited(asked, now, now)
                if asked.kind == TASK:
                    made.task = self._grid.tasks[int(asked.subject)]
                self._open.append(made)
                self.noted.append(made)

    def _asked(self, now: float) -> list[Asked]:
        found = asked_of(self._waiting(now), _moment(now), WINDOW_S)
        if self._rolling is None:
            return found
        rolled = roll_out(ahead_of(self._loop, now), find_policy(POLICY), self._rolling, lambda: 0.0)
        return with_rollout(found, rollout_clues(rolled.lines, rolled.tasks, rolled.kinds))

    def _note_starts(self, now: float) -> None:
        """Assignment, start, queue and share of what started since the last look."""
        since, grid = now - LOOK_S, self._grid
        columns = grid.log.columns()
        rows = range(self._logged, len(columns))
        ended = [(float(columns.assigned_s[row]), float(columns.start_s[row]), int(columns.queue[row]),
                  int(columns.share[row])) for row in rows]  # fmt: skip
        running = [(job.assigned_s, job.started_s, job.queue, job.share) for jobs in grid.running for job in jobs]
        self._logged = len(columns)
        self._starts += [
            (assigned, start, self._queues[queue], self._shares[share])
            for assigned, start, queue, share in (*ended, *running)
            if start >= since
        ]
        self._starts = [one for one in self._starts if one[1] >= now - WINDOW_S]

    def _judge(self, one: Awaited, now: float) -> None:
        if one.asked.kind == QUEUE:
            self._judge_line(one, now)
        else:
            self._judge_task(one, now)

    def _judge_line(self, one: Awaited, now: float) -> None:
        if one.job is None:
            queue, share = apart(one.asked.subject)
            at, of = self._queues.index(queue), self._shares.index(share)
            came = [
                job
                for jobs in (self._grid.waiting_jobs[at], self._grid.running[at])
                for job in jobs
                if job.share == of and job.assigned_s >= one.made_s
            ]
            one.job = min(came, key=lambda job: (job.assigned_s, job.ticket), default=None)
            if one.job is None:
                one.is_kept = now - one.made_s < NOBODY_CAME_S
                return
            one.began_s = one.job.assigned_s
        job = one.job
        if not np.isnan(job.started_s):
            one.waited_s, one.is_known, one.resolved_s = job.started_s - one.began_s, True, now
        elif job not in self._grid.waiting_jobs[job.queue] and job not in self._grid.running[job.queue]:
            one.waited_s, one.resolved_s = max(0.0, now - LOOK_S - one.began_s), now
        else:
            one.waited_s = now - one.began_s

    def _judge_task(self, one: Awaited, now: float) -> None:
        if one.task is None:
            came = [
                state
                for state in self._grid.tasks.values()
                if state.assignable_s >= one.made_s and self._kind(state) == one.asked.subject
            ]
            one.task = min(came, key=lambda state: (state.assignable_s, state.task.number), default=None)
            if one.task is None:
                one.is_kept = now - one.made_s < NOBODY_CAME_S
                return
            one.began_s = one.task.assignable_s
        start = self._first_start(one.task, one.made_s)
        ends = np.inf if start is None else start
        one.waited_s = max(0.0, min(now, ends) - one.began_s)
        if start is not None:
            one.is_known, one.resolved_s = True, now
        elif one.task.open_jobs == 0:
            one.resolved_s = now

    def _first_start(self, state: TaskState, since_s: float) -> float | None:
        """The first start of a job of the task since then; tries again count, too."""
        first = state.first_start_s[state.first_start_s >= since_s]
        again = [
            job.started_s
            for jobs in self._grid.running
            for job in jobs
            if job.task is state and job.started_s >= since_s
        ]
        return min((*first.tolist(), *again), default=None)

    def _kind(self, state: TaskState) -> str:
        return together(self._shares[state.task.share], "SCORE" if state.kind.cores == 1 else "MCORE")

    def _waiting(self, now: float) -> Waiting:
        grid = self._grid
        places: dict[int, dict[str, int]] = defaultdict(dict)
        backlog: dict[str, dict[float, int]] = defaultdict(lambda: defaultdict(int))
        waits: dict[tuple[str, str], list[float]] = defaultdict(list)
        lined: dict[tuple[str, str], list[Job]] = defaultdict(list)
        for assigned, start, queue, share in self._starts:
            waits[queue, share].append(start - assigned)
        for queue, jobs in zip(self._queues, grid.waiting_jobs, strict=True):
            for job in jobs:
                lined[queue, self._shares[job.share]].append(job)
                backlog[self._shares[job.share]][job.priority] += 1
        for (queue, _), line in lined.items():
            for place, job in enumerate(sorted(line, key=lambda job: (-job.priority, job.ticket)), 1):
                places[job.task.task.number].setdefault(queue, place)
        for state in grid.assignable.values():
            backlog[self._shares[state.task.share]][state.task.priority] += len(state.unassigned)
        return Waiting(
            status=dict(zip(self._queues, (ONLINE if up else "offline" for up in grid.online), strict=True)),
            lines={key: _line(lined.get(key, []), waits.get(key, []), now) for key in {*lined, *waits}},
            backlog={share: sorted(by.items()) for share, by in backlog.items()},
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
    middle = float(np.median(waits)) if waits else float("nan")
    return Line(len(jobs), len(waits), middle, max((now - job.assigned_s for job in jobs), default=0.0))


def _moment(time_s: float) -> datetime:
    return datetime.fromtimestamp(time_s, UTC)


def watched(seed: int, days: float, cores: int, policy: str = POLICY, rolling: Rolling | None = None) -> list[Awaited]:
    """What was asked in one run, and what came of it, in the order of the looks."""
    loop = ClosedLoop(drifting(seed, days, cores), find_policy(policy), seed)
    watching = Watching(loop, rolling=rolling)
    loop.run()
    return [dataclasses.replace(one, job=None, task=None) for one in watching.noted if one.is_kept]


def instants(noted: Sequence[Awaited]) -> Floats:
    """The looks, in their order."""
    return np.unique(np.array([one.made_s for one in noted]))
