"""The subjects of forecasts, and what is known about each now: its situation and its clues. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np

from broker.domain.arrays import Floats, texts
from broker.forecasts.model.forecasting import CLUES, HORIZON_NAMES, SubjectClues, Subjects, horizon_of

QUEUE: Final = "queue"
TASK: Final = "task"
TASK_KIND: Final = "task_kind"
ONLINE = "online"
#: Between the names of a queue and a share, or of a share and a resource type.
_AND = " · "
#: Added to the starts that were seen, so that a rate is never 0.
_PRIOR_STARTS = 0.5


@dataclass(frozen=True)
class WaitingTask:
    """A task without running jobs.

    Attributes:
        created_at: aware; None if unknown.
        places: position of its first job in the line of its share, by queue.
    """

    jeditaskid: int
    gshare: str
    resource_type: str
    priority: float
    created_at: datetime | None
    places: Mapping[str, int]


@dataclass(frozen=True)
class Line:
    """The line of a share at a queue.

    Attributes:
        waiting: jobs that wait; ``started``: jobs that started recently.
        waited_s: median wait of the jobs that started recently; NaN without any.
        oldest_s: how long the oldest of the waiting jobs has waited; 0 without any.
    """

    waiting: int = 0
    started: int = 0
    waited_s: float = math.nan
    oldest_s: float = 0.0


@dataclass(frozen=True)
class Waiting:
    """All waiting work.

    Attributes:
        status: of each queue.
        lines: by queue and share.
        backlog: for each share, priorities with the jobs that wait at queues or for one, the smallest priority first.
        tasks: waiting tasks; ``task_kinds``: share and resource type of the tasks of the last days.
    """

    status: Mapping[str, str]
    lines: Mapping[tuple[str, str], Line]
    backlog: Mapping[str, Sequence[tuple[float, int]]]
    tasks: tuple[WaitingTask, ...]
    task_kinds: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ForecastSubject(SubjectClues[str, Mapping[str, float]]):
    """One subject of a forecast, its ``clues`` by name.

    Attributes:
        subject: queue and share, the number of the task, or share and resource type of tasks.
        status: of a queue; empty otherwise.
    """

    subject: str
    status: str = ""


def together(first: str, second: str) -> str:
    """The name of a queue and a share, or of a share and a resource type.

    >>> together("User Analysis", "SCORE")
    'User Analysis · SCORE'
    """
    return f"{first}{_AND}{second}"


def apart(subject: str) -> tuple[str, str]:
    """The two parts of a name made by :func:`together`; the second is empty if there is only one."""
    first, _, second = subject.partition(_AND)
    return first, second


def columns_of(subjects: Sequence[ForecastSubject]) -> Subjects:
    """The subjects as columns."""
    clues = [[one.clues.get(name, math.nan) for name in CLUES] for one in subjects]
    return Subjects(
        kind=texts(one.kind for one in subjects),
        cell=texts(one.cell for one in subjects),
        situation=texts(one.situation for one in subjects),
        clues=np.array(clues, dtype=np.float64).reshape(len(subjects), len(CLUES)),
    )


def subjects_of(waiting: Waiting, now: datetime, window_s: float) -> list[ForecastSubject]:
    """All subjects of forecasts: shares at queues, waiting tasks, kinds of tasks.

    Args:
        waiting: what waits, and what started within ``window_s``.
        now: aware.
        window_s: of starts, in seconds.
    """
    started = Counter[str]()
    for (_, share), line in waiting.lines.items():
        started[share] += line.started
    return [
        *(_line(queue, share, line, waiting, window_s) for (queue, share), line in sorted(waiting.lines.items())),
        *(_task(one, waiting, started[one.gshare], now, window_s) for one in waiting.tasks),
        *(
            _kind(share, resource_type, waiting, started[share], window_s)
            for share, resource_type in waiting.task_kinds
        ),
    ]


def rollout_clues(
    lines: Mapping[tuple[str, str], float], tasks: Mapping[int, float], kinds: Mapping[tuple[str, str], float]
) -> dict[tuple[str, str], float]:
    """What a roll-out says about queues' lines, tasks and kinds of tasks, in seconds by kind and subject."""
    clues = {(QUEUE, together(*key)): value for key, value in lines.items()}
    clues |= {(TASK, str(key)): value for key, value in tasks.items()}
    return clues | {(TASK_KIND, together(*key)): value for key, value in kinds.items()}


def with_rollout(subjects: Sequence[ForecastSubject], clues: Mapping[tuple[str, str], float]) -> list[ForecastSubject]:
    """The subjects with the clue of a roll-out; those it says nothing about stay without."""
    return [
        replace(one, clues={**one.clues, "rollout_s": clues[one.kind, one.subject]})
        if (one.kind, one.subject) in clues
        else one
        for one in subjects
    ]


def time_of(place: float, started: int, window_s: float) -> float:
    """Seconds until the job at a place in a line starts, at the rate of the last ``window_s`` seconds.

    >>> time_of(10, 20, 7200.0)
    3512.1951219512193
    """
    return place * window_s / (started + _PRIOR_STARTS)


def _line(queue: str, share: str, line: Line, waiting: Waiting, window_s: float) -> ForecastSubject:
    status = waiting.status.get(queue, "")
    situation = ("waiting" if line.waiting else "empty") + ("" if status == ONLINE else ", not online")
    clues = {
        "ahead_s": time_of(line.waiting, line.started, window_s),
        "recent_s": line.waited_s,
        "age_s": line.oldest_s,
    }
    name = together(queue, share)
    return ForecastSubject(QUEUE, name, situation, clues, name, status)


def _task(one: WaitingTask, waiting: Waiting, started: int, now: datetime, window_s: float) -> ForecastSubject:
    """A waiting task: the first job to start anywhere counts; queues that are not online start nothing."""
    times = [
        time_of(place, waiting.lines.get((queue, one.gshare), Line()).started, window_s)
        for queue, place in one.places.items()
        if waiting.status.get(queue) == ONLINE
    ]
    age_s = 0.0 if one.created_at is None else max(0.0, (now - one.created_at).total_seconds())
    where = "at queues" if one.places else "at no queue"
    situation = f"{where}, waited {HORIZON_NAMES[int(horizon_of(_array(age_s))[0])]}"
    ahead = jobs_ahead(waiting.backlog.get(one.gshare, ()), one.priority)
    clues = {
        "ahead_s": min(times, default=math.nan),
        "backlog_s": time_of(ahead, started, window_s),
        "age_s": age_s,
    }
    return ForecastSubject(TASK, together(one.gshare, one.resource_type), situation, clues, str(one.jeditaskid))


def _array(value: float) -> Floats:
    return np.array([value])


def jobs_ahead(backlog: Sequence[tuple[float, int]], priority: float) -> float:
    """Jobs of a share with a larger priority, and half of those with an equal one.

    >>> jobs_ahead([(100.0, 4), (400.0, 6), (700.0, 10)], 400.0)
    13.0
    """
    first = bisect_left(backlog, (priority, 0))
    return sum(jobs if other > priority else jobs / 2.0 for other, jobs in backlog[first:])


def _kind(share: str, resource_type: str, waiting: Waiting, started: int, window_s: float) -> ForecastSubject:
    name = together(share, resource_type)
    jobs = sum(jobs for _, jobs in waiting.backlog.get(share, ()))
    clues = {"backlog_s": time_of(jobs, started, window_s)}
    return ForecastSubject(TASK_KIND, name, "waiting" if jobs else "empty", clues, name)
