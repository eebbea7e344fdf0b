"""When a waiting task starts, and what would make that sooner: the cures that its last decisions know."""

from __future__ import annotations

from datetime import datetime

from broker.decisions.answers.decision import read_task_decision
from broker.decisions.answers.decision_model import TaskDecision
from broker.decisions.answers.sentences import cure_sentence, remedy_sentences
from broker.forecasts.answers.forecasts import ForecastLine, task_start
from broker.store.query_context import Answer, Asking, Evaluation, NothingFound, Proceed, proceed


class TaskForecast(Answer):
    """When a task starts.

    Attributes:
        forecast: that was told last.
        sooner: changes after which its last decisions would have found queues; empty where it waits at queues only.
    """

    now: datetime
    jeditaskid: int
    forecast: ForecastLine
    sooner: tuple[str, ...]


def task_forecast(asking: Asking, jeditaskid: int) -> TaskForecast:
    """When a task starts: looked up, with the cures of its last decisions; nothing is decided again.

    Raises:
        NothingFound: there is no such task.
    """
    return read_task_forecast(asking, jeditaskid, evaluate=False)(proceed)


def read_task_forecast(asking: Asking, jeditaskid: int, *, evaluate: bool) -> Evaluation[TaskForecast]:
    """The same in two parts; with ``evaluate`` what is returned decides again, to find what would help.

    Raises:
        NothingFound: there is no such task.
    """
    line = task_start(asking, jeditaskid)
    try:
        decision: Evaluation[TaskDecision] | None = read_task_decision(asking, jeditaskid, evaluate=evaluate)
    except NothingFound:
        if line.made_at is None:
            raise
        decision = None

    def evaluated(proceed: Proceed) -> TaskForecast:
        sooner = () if decision is None else _sooner(decision(proceed))
        return TaskForecast(now=asking.now, jeditaskid=jeditaskid, forecast=line, sooner=sooner)

    return evaluated


def _sooner(found: TaskDecision) -> tuple[str, ...]:
    said = [
        text
        for one in found.decisions
        for text in (cure_sentence(one), *(remedy_sentences(one) if one.remedies.evaluated else ()))
        if text
    ]
    return tuple(dict.fromkeys(said))
