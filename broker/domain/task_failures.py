"""Whether jobs of one task fail at one queue: the ends of the task there, against those elsewhere. Pure.

A few jobs are enough to send the task elsewhere; they say little of the queue, as other tasks may run there.

Source: A. Wald, Sequential tests of statistical hypotheses, 1945: the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from broker.domain.instants import HOUR_S

#: Rates of failures that are compared: a usual one, and one at which the task fails here.
USUAL, FAILING = 0.2, 0.7
UP, DOWN = math.log(FAILING / USUAL), math.log((1.0 - USUAL) / (1.0 - FAILING))
#: The ends of the last so many hours are looked at, whole hours.
WITHIN_H = 6
#: Evidence of three failures of three, or of four of five.
EVIDENCE = 3.0
#: Elsewhere so many ends are wanted before the share of failures says that the task fails everywhere.
ELSEWHERE_LEAST, ELSEWHERE_SHARE = 3, 0.5

TaskHours = Mapping[tuple[str, int], tuple[int, int]]
"""Finished and failed jobs of a task by queue and hour (number of hours since 1970)."""


@dataclass(frozen=True)
class TaskFailures:
    """How jobs of a task ended at a queue lately, and how elsewhere."""

    failed: int = 0
    ended: int = 0
    failed_elsewhere: int = 0
    ended_elsewhere: int = 0

    @property
    def evidence(self) -> float:
        """Logarithm of the likelihood ratio of a task that fails here over a usual one.

        >>> round(TaskFailures(failed=3, ended=3).evidence, 2), round(TaskFailures(failed=3, ended=4).evidence, 2)
        (3.76, 2.78)
        """
        return self.failed * UP - (self.ended - self.failed) * DOWN

    @property
    def fails_everywhere(self) -> bool:
        """Whether half of its jobs fail elsewhere, too: then it is the task, and no queue is better."""
        enough = self.ended_elsewhere >= ELSEWHERE_LEAST
        return enough and self.failed_elsewhere >= ELSEWHERE_SHARE * self.ended_elsewhere

    def fails_here(self, evidence: float) -> bool:
        """Whether the task is to be sent elsewhere."""
        return self.evidence >= evidence and not self.fails_everywhere


def first_hour(now_s: float) -> int:
    """The number of the first hour that is looked at at an instant (s since 1970)."""
    return math.floor(now_s / HOUR_S) - WITHIN_H


def failures_at(hours: TaskHours, queue: str, now_s: float) -> TaskFailures:
    """How jobs of a task ended at a queue and elsewhere, by its hours, seen at an instant (s since 1970).

    >>> failures_at({("A", 99): (0, 3), ("B", 100): (4, 1), ("A", 93): (9, 9)}, "A", 100 * 3600.0)
    TaskFailures(failed=3, ended=3, failed_elsewhere=1, ended_elsewhere=5)
    """
    first = first_hour(now_s)
    failed, ended = _own(hours, queue, first)
    failed_all = ended_all = 0
    for (_, hour), (finished, failures) in hours.items():
        if first <= hour <= first + WITHIN_H:
            failed_all, ended_all = failed_all + failures, ended_all + finished + failures
    return TaskFailures(failed, ended, failed_all - failed, ended_all - ended)


def fails_here(hours: TaskHours, queue: str, now_s: float, evidence: float) -> bool:
    """:meth:`TaskFailures.fails_here`; elsewhere is looked at only where what is known of the queue suffices."""
    here = TaskFailures(*_own(hours, queue, first_hour(now_s)))
    return here.evidence >= evidence and failures_at(hours, queue, now_s).fails_here(evidence)


def _own(hours: TaskHours, queue: str, first: int) -> tuple[int, int]:
    """Failed and ended jobs at a queue from an hour on."""
    failed = ended = 0
    for hour in range(first, first + WITHIN_H + 1):
        finished, failures = hours.get((queue, hour), (0, 0))
        failed, ended = failed + failures, ended + finished + failures
    return failed, ended
