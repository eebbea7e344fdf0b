"""A user's tasks, throttles and usage, as an answer and in words, and who can do something about waiting work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from broker.decisions.answers.decision_model import TaskFacts
from broker.decisions.answers.known_reasons import who_can_act
from broker.decisions.answers.phrases import throttle
from broker.domain.analysis import AnalysisGrid, OwnerJobs
from broker.domain.classification import TASK_CLASS_NAMES
from broker.domain.words import day_and_moment
from broker.engine.analysis.throttle import QUEUED_TIMES, USER_CORES, USER_JOBS, Throttle
from broker.gdpconfig import Tuning
from broker.grid.answers.grid import last_snapshot, tuning_in_force
from broker.history.answers.list_models import QuotaUse, TaskFilters, UserAnswer
from broker.history.answers.tasks import task_list
from broker.history.statements.task_facts import read_user_names
from broker.snapshot.raw import MAX_METRIC_CHARACTERS, BadValueError, json_object
from broker.store.classes.class_rows import read_task_rows
from broker.store.query_context import NothingFound, QueryContext, known_name

ANALYSIS = "analysis_job"


def user_answer(query: QueryContext, name: str) -> UserAnswer:
    """Return a user's tasks, throttles, caps and quota.

    Raises:
        NothingFound: no user of this name has tasks; the error lists the nearest names.
    """
    names = read_user_names(query.connection, query.catalogue)
    if not names:
        raise NothingFound("user", name, "jedi_tasks", remedy="no task is on record")
    user = known_name("user", name, names, "jedi_tasks")
    tasks = task_list(query, TaskFilters(user=user)).tasks
    snapshot, tuning = last_snapshot(query, ANALYSIS), tuning_in_force(query)
    grid = AnalysisGrid() if snapshot is None else snapshot.analysis
    figures = grid.of_user.get(user)
    throttles = {task.throttle.condition: task.throttle for task in tasks if task.throttle is not None}
    codes = sorted({line.main_code for line in tasks if line.main_code is not None})
    classes = _task_classes(query)
    return UserAnswer(
        now=query.now,
        user=user,
        tasks=tasks,
        throttles=tuple(throttles.values()),
        caps=tuple(caps_of(figures or OwnerJobs(), tuning)),
        running_jobs=None if figures is None else figures.running_jobs,
        queued_jobs=None if figures is None else figures.queued_jobs,
        running_cores=None if figures is None else figures.running_cores,
        queued_cores=None if figures is None else figures.queued_cores,
        task_classes={
            line.task.jeditaskid: classes[line.task.jeditaskid] for line in tasks if line.task.jeditaskid in classes
        },
        quotas=tuple(_quotas(grid, user)),
        advice={code: who_can_act(code) for code in codes},
    )


def caps_of(seen: OwnerJobs, tuning: Tuning) -> Iterator[Throttle]:
    """Yield each figure of a user against its cap; twice as many may wait as may run. Pure."""
    stats = (
        ("running_jobs", seen.running_jobs, 1.0, USER_JOBS, "jobs"),
        ("queued_jobs", seen.queued_jobs, QUEUED_TIMES, USER_JOBS, "jobs"),
        ("running_cores", seen.running_cores, 1.0, USER_CORES, "cores"),
        ("queued_cores", seen.queued_cores, QUEUED_TIMES, USER_CORES, "cores"),
    )
    for condition, value, times, key, unit in stats:
        yield Throttle(condition=condition, figure=value, cap=times * tuning.number(key), unit=unit, key=key)


def _quotas(grid: AnalysisGrid, user: str) -> Iterator[QuotaUse]:
    for line in grid.quotas.get(user, ()):
        limit = line.limit_bytes if line.limit_bytes > 0 else None
        yield QuotaUse(place=line.place, used_bytes=line.used_bytes, limit_bytes=limit)


def _task_classes(query: QueryContext) -> dict[int, str]:
    classes = {}
    for row in read_task_rows(query.connection, query.catalogue):
        try:
            number = json_object(row["value_json"], "value_json", MAX_METRIC_CHARACTERS).get("class")
        except BadValueError:
            continue  # a document that cannot be read has no class; `broker classes` reports it
        if isinstance(number, int | float) and number in TASK_CLASS_NAMES:
            classes[int(row["jeditaskid"])] = TASK_CLASS_NAMES[int(number)]
    return classes


class ThrottledTask(NamedTuple):
    """A task held back by a throttle: when that was decided, and by which figures."""

    decided_at: datetime
    throttle: Throttle
    task: TaskFacts


def throttle_sentences(answer: UserAnswer) -> Iterator[str]:
    """Describe each throttle as of the newest decision, with its time and the time of the next one.

    The figures are those of the decision: next to current figures they may look wrong.
    """
    lines = [
        ThrottledTask(line.decided_at, line.throttle, line.task)
        for line in answer.tasks
        if line.throttle is not None and line.decided_at is not None
    ]
    for condition in dict.fromkeys(limit.condition for limit in answer.throttles):
        lines_of_condition = [line for line in lines if line.throttle.condition == condition]
        if lines_of_condition:
            yield _sentence(lines_of_condition)


def _sentence(lines: list[ThrottledTask]) -> str:
    decided_at, state, _ = max(lines, key=lambda line: line.decided_at)
    tries = [line.task.next_try_at for line in lines if line.task.next_try_at is not None]
    again = f", next try {day_and_moment(min(tries))}" if tries else ""
    if any(line.task.redecide == "each_cycle" for line in lines):
        again = ", decided again each cycle"
    return f"Throttled: {throttle(state)}; decided {day_and_moment(decided_at)}{again}."
