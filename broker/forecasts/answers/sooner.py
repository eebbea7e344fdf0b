"""When a waiting task starts, and what would make it start sooner: the cures known from its last decisions."""

from __future__ import annotations

from datetime import datetime

from broker.decisions.answers.decision import read_task_decision
from broker.decisions.answers.decision_model import TaskDecision
from broker.decisions.answers.sentences import cure_sentence, remedy_sentences
from broker.forecasts.answers.forecasts import ForecastLine, task_start
from broker.store.query_context import Evaluation, NothingFound, Proceed, QueryContext, ResponseModel, proceed


class TaskForecast(ResponseModel):
    """The expected start of a task.

    Attributes:
        forecast: newest forecast.
        sooner: changes with which its last decisions would have found queues; empty if it only waits at queues.
    """

    now: datetime
    jeditaskid: int
    forecast: ForecastLine
    sooner: tuple[str, ...]


def task_forecast(query: QueryContext, jeditaskid: int) -> TaskForecast:
    """Look up when a task starts, with the cures of its last decisions; nothing is decided again.

    Raises:
        NothingFound: there is no such task.
    """
    return read_task_forecast(query, jeditaskid, evaluate=False)(proceed)


def read_task_forecast(query: QueryContext, jeditaskid: int, *, evaluate: bool) -> Evaluation[TaskForecast]:
    """The forecast of a task in two parts; with ``evaluate`` the returned part decides again to find what would help.

    Raises:
        NothingFound: there is no such task.
    """
    line = task_start(query, jeditaskid)
    try:
        decision: Evaluation[TaskDecision] | None = read_task_decision(query, jeditaskid, evaluate=evaluate)
    except NothingFound:
        if line.made_at is None:
            raise
        decision = None

    def evaluated(proceed: Proceed) -> TaskForecast:
        sooner = () if decision is None else _sooner(decision(proceed))
        return TaskForecast(now=query.now, jeditaskid=jeditaskid, forecast=line, sooner=sooner)

    return evaluated


def _sooner(task: TaskDecision) -> tuple[str, ...]:
    sentences = [
        sentence
        for decision in task.decisions
        for sentence in (cure_sentence(decision), *(remedy_sentences(decision) if decision.remedies.evaluated else ()))
        if sentence
    ]
    return tuple(dict.fromkeys(sentences))
