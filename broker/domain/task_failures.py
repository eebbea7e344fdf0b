"""Whether jobs of one task fail at one queue: the ends of the task there, compared with those elsewhere. Pure.

A few jobs suffice to send the task elsewhere; they say little about the queue, as other tasks may run there.

Source: A. Wald, Sequential tests of statistical hypotheses, 1945: the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from broker.domain.instants import HOUR_S

#: Compared failure rates: the usual one, and one at which the task fails here.
USUAL, FAILING = 0.2, 0.7
UP, DOWN = math.log(FAILING / USUAL), math.log((1.0 - USUAL) / (1.0 - FAILING))
#: Number of latest whole hours whose ends count.
WITHIN_H = 6
#: Evidence of three failures out of three, or four out of five.
EVIDENCE = 3.0
#: Fewest ends elsewhere, and the share of failures among them, for a task to count as failing everywhere.
ELSEWHERE_LEAST, ELSEWHERE_SHARE = 3, 0.5

TaskHours = Mapping[tuple[str, int], tuple[int, int]]
"""Finished and failed jobs of a task by queue and hour (number of hours since 1970)."""


@dataclass(frozen=True)
class TaskFailures:
    """How jobs of a task recently ended at a queue, and elsewhere."""

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
        """Whether half of its jobs fail elsewhere, too; then the task is at fault, and no queue is better."""
        enough = self.ended_elsewhere >= ELSEWHERE_LEAST
        return enough and self.failed_elsewhere >= ELSEWHERE_SHARE * self.ended_elsewhere

    def fails_here(self, evidence: float) -> bool:
        """Whether the task should be sent elsewhere."""
        return self.evidence >= evidence and not self.fails_everywhere


def first_hour(now_s: float) -> int:
    """The number of the first hour that counts at an instant (s since 1970)."""
    return math.floor(now_s / HOUR_S) - WITHIN_H


def failures_at(hours: TaskHours, queue: str, now_s: float) -> TaskFailures:
    """How jobs of a task ended at a queue and elsewhere, as of an instant (s since 1970).

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
    """Like :meth:`TaskFailures.fails_here`; other queues are checked only if the evidence at this queue suffices."""
    here = TaskFailures(*_own(hours, queue, first_hour(now_s)))
    return here.evidence >= evidence and failures_at(hours, queue, now_s).fails_here(evidence)


def _own(hours: TaskHours, queue: str, first: int) -> tuple[int, int]:
    """Failed and ended jobs at a queue from the hour ``first`` on."""
    failed = ended = 0
    for hour in range(first, first + WITHIN_H + 1):
        finished, failures = hours.get((queue, hour), (0, 0))
        failed, ended = failed + failures, ended + finished + failures
    return failed, ended
