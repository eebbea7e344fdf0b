"""What throttles a user's tasks, in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from broker.decisions.answers.parts import TaskFacts
from broker.decisions.answers.phrases import day_and_moment, throttle
from broker.engine.analysis.throttle import Throttle
from broker.history.answers.list_models import UserAnswer


class Throttled(NamedTuple):
    """A task that a throttle holds back: when that was decided, and by which figures."""

    decided_at: datetime
    throttle: Throttle
    task: TaskFacts


def throttle_sentences(answer: UserAnswer) -> Iterator[str]:
    """Each throttle as the newest decision has it, when that was, and when the next is made.

    The figures are of that decision: beside those of now they may look wrong.
    """
    lines = [
        Throttled(line.decided_at, line.throttle, line.task)
        for line in answer.tasks
        if line.throttle is not None and line.decided_at is not None
    ]
    for condition in dict.fromkeys(one.condition for one in answer.throttles):
        some = [line for line in lines if line.throttle.condition == condition]
        if some:
            yield _sentence(some)


def _sentence(lines: list[Throttled]) -> str:
    decided_at, state, _ = max(lines, key=lambda line: line.decided_at)
    tries = [line.task.next_try_at for line in lines if line.task.next_try_at is not None]
    again = f", next try {day_and_moment(min(tries))}" if tries else ""
    if any(line.task.redecide == "each_cycle" for line in lines):
        again = ", decided again each cycle"
    return f"Throttled: {throttle(state)}; decided {day_and_moment(decided_at)}{again}."
