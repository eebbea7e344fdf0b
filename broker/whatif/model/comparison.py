"""The differences between two sides of a what-if, by task and in total, summed over cycles. Pure.

Programs read them as objects, one for each task and one for each brokerage. Shares are fractions of 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Ints
from broker.whatif.model.outcome_columns import CycleComparison
from broker.whatif.model.task_differences import LOSES_LAST, TaskDifference, TaskSums, changed_tasks, last_queues


@dataclass
class Totals:
    """One brokerage over all cycles.

    Attributes:
        cycles: cycles decided.
        decisions: chunks, or tasks of the task brokerage, in all cycles.
        changed: decisions whose outcome, reason or candidates differ.
        outcomes: how often which outcome became which, or stayed.
        gained: by queue, decisions in which it becomes a candidate.
        lost: by queue, decisions in which it is no longer a candidate.
        losing_last: tasks left without a candidate in a cycle in which they had one, counted in each cycle.
        gaining_first: tasks that gain a candidate in a cycle in which they had none, counted likewise.
        candidates_before: decisions by number of candidates.
        candidates_after: the same with the change.
        jobs_before: predicted jobs by queue.
        jobs_after: the same with the change.
        jobs_moved: jobs placed differently, newly, or no longer.
        rejected_before: rejected pairs of work and queue by code.
        rejected_after: the same with the change.
    """

    cycles: int = 0
    decisions: int = 0
    changed: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    gained: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    losing_last: int = 0
    gaining_first: int = 0
    candidates_before: Counter[int] = field(default_factory=Counter)
    candidates_after: Counter[int] = field(default_factory=Counter)
    jobs_before: Counter[str] = field(default_factory=Counter)
    jobs_after: Counter[str] = field(default_factory=Counter)
    jobs_moved: int = 0
    rejected_before: Counter[str] = field(default_factory=Counter)
    rejected_after: Counter[str] = field(default_factory=Counter)

    def add(self, other: Totals) -> None:
        """Add the counts of another cycle to these."""
        for name, value in vars(other).items():
            own = getattr(self, name)
            if isinstance(own, Counter):
                own.update(value)
            else:
                setattr(self, name, own + value)


class Difference:
    """Everything that a change makes different.

    Args:
        totals: by brokerage.
        of_tasks: by brokerage, the differences of each task; empty if they are not wanted.
    """

    def __init__(
        self, totals: Mapping[str, Totals] | None = None, of_tasks: Mapping[str, TaskSums] | None = None
    ) -> None:
        self.totals: dict[str, Totals] = dict(totals or {})
        self._of_tasks: dict[str, TaskSums] = dict(of_tasks or {})

    @property
    def tasks(self) -> dict[tuple[str, int], TaskDifference]:
        """The tasks with any difference, by brokerage and task; built on each access."""
        return {
            (brokerage, task): changes
            for brokerage, sums in self._of_tasks.items()
            for task, changes in sums.objects().items()
        }

    def add(self, other: Difference) -> None:
        """Add the counts of another cycle to these."""
        for brokerage, sums in other._of_tasks.items():
            self._of_tasks.setdefault(brokerage, TaskSums()).add(sums)
        for brokerage, totals in other.totals.items():
            self.totals.setdefault(brokerage, Totals()).add(totals)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same totals and tasks."""
        return isinstance(other, Difference) and self.totals == other.totals and self.tasks == other.tasks

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        """Totals and tasks, for the output of a failed test."""
        return f"Difference({self.totals!r}, tasks={self.tasks!r})"

    def total(self, name: str) -> int:
        """One of the plain figures of :class:`Totals`, summed over all brokerages."""
        return sum(int(getattr(totals, name)) for totals in self.totals.values())

    def tasks_losing_last(self) -> list[int]:
        """Tasks that lose their last candidate, each once."""
        return sorted({task for one in self._of_tasks.values() for task in one.whole().tasks_with(LOSES_LAST)})


def added(differences: Iterable[Difference]) -> Difference:
    """The sum of the differences of several cycles."""
    whole = Difference()
    for one in differences:
        whole.add(one)
    return whole


def difference(comparison: CycleComparison, *, by_task: bool = True) -> Difference:
    """The differences in one cycle: in total and, with ``by_task``, for each task."""
    before, after = comparison.before, comparison.after
    changed = (
        (before.outcome != after.outcome)
        | (before.reason != after.reason)
        | (before.chosen != after.chosen).any(axis=1)
    ).astype(np.bool_)
    totals = _totals(comparison, changed)
    of_tasks = {comparison.brokerage: TaskSums([changed_tasks(comparison, np.flatnonzero(changed))])} if by_task else {}
    return Difference({comparison.brokerage: totals}, of_tasks)


def _totals(comparison: CycleComparison, changed: Bools) -> Totals:
    before, after = comparison.before, comparison.after
    losing, gaining = last_queues(comparison)
    pairs = zip(before.outcome.tolist(), after.outcome.tolist(), strict=True)
    # few pairs are candidates, and fewer get jobs, so these are counted one by one
    had, has, was, is_ = (_Pairs.of(pairs_by) for pairs_by in (before.chosen, after.chosen, before.jobs, after.jobs))
    other = _Pairs.of(before.chosen != after.chosen)
    now = other.values(after.chosen)
    return Totals(
        cycles=1,
        decisions=len(changed),
        changed=int(changed.sum()),
        outcomes=Counter((str(pairs_by), str(two)) for pairs_by, two in pairs),
        gained=_by_name(comparison, other.by_candidate(now)),
        lost=_by_name(comparison, other.by_candidate(~now)),
        losing_last=len(losing),
        gaining_first=len(gaining),
        candidates_before=Counter(had.by_row().tolist()),
        candidates_after=Counter(has.by_row().tolist()),
        jobs_before=_by_name(comparison, was.by_candidate(was.values(before.jobs))),
        jobs_after=_by_name(comparison, is_.by_candidate(is_.values(after.jobs))),
        jobs_moved=_moved(before.jobs, after.jobs),
        rejected_before=Counter(before.rejections()),
        rejected_after=Counter(after.rejections()),
    )


@dataclass(frozen=True)
class _Pairs:
    """The pairs of T rows and Q candidates whose value is not zero.

    Attributes:
        shape: (T, Q).
        cell: (N,) positions in the flattened rows.
        row: (N,).
        candidate: (N,).
    """

    shape: tuple[int, ...]
    cell: Ints
    row: Ints
    candidate: Ints

    @classmethod
    def of(cls, there: AnyArray) -> _Pairs:
        cell = np.flatnonzero(there if there.dtype == np.bool_ else there != 0)
        row = cell // max(1, there.shape[1])
        return cls(there.shape, cell, row, cell - row * there.shape[1])

    def values(self, every: AnyArray) -> AnyArray:
        return every.reshape(-1).take(self.cell)

    def by_row(self) -> Ints:
        """(T,) the number of pairs in each row."""
        return np.bincount(self.row, minlength=self.shape[0])

    def by_candidate(self, counts: AnyArray) -> Ints:
        """(Q,) the sums of ``counts`` (N,), each of which a float holds exactly."""
        return np.bincount(self.candidate, counts, minlength=self.shape[1]).astype(np.int64)


def _moved(before: AnyArray, after: AnyArray) -> int:
    """Moved jobs, summed over the pieces of work: the larger of the jobs that leave and the jobs that arrive."""
    differing = _Pairs.of(before != after)
    change = differing.values(after) - differing.values(before)
    come, go = (np.bincount(differing.row, np.maximum(one, 0), minlength=len(before)) for one in (change, -change))
    return int(np.maximum(come, go).sum())


def _by_name(comparison: CycleComparison, counts: Ints) -> Counter[str]:
    return Counter({str(comparison.names[at]): int(counts[at]) for at in np.flatnonzero(counts).tolist()})


def task_documents(diff: Difference) -> list[dict[str, Any]]:
    """One object for each task with any difference; tasks that become unschedulable come first."""
    ranked = sorted(diff.tasks.items(), key=lambda item: (not item[1].loses_last_queue, -len(item[1].lost), item[0]))
    return [_task(brokerage, task, one) for (brokerage, task), one in ranked]


def _task(brokerage: str, task: int, changes: TaskDifference) -> dict[str, Any]:
    return {
        "kind": "task",
        "jeditaskid": task,
        "brokerage": brokerage,
        "changed": changes.decisions,
        "outcomes": _transitions(changes.outcomes),
        "gained": dict(sorted(changes.gained.items())),
        "lost": dict(sorted(changes.lost.items())),
        "loses_last_queue": changes.loses_last_queue,
        "gains_first_queue": changes.gains_first_queue,
        "candidates": {side: count / changes.decisions for side, count in _sides(*changes.candidates)},
        "jobs": {side: dict(sorted(jobs.items())) for side, jobs in _sides(changes.jobs_before, changes.jobs_after)},
    }


def total_documents(diff: Difference) -> list[dict[str, Any]]:
    """One object for each brokerage."""
    return [total_document(brokerage, totals) for brokerage, totals in sorted(diff.totals.items())]


def summary_document(diff: Difference) -> dict[str, int]:
    """All brokerages together: how much was decided again, and how much of it changes."""
    return {
        "decisions": diff.total("decisions"),
        "changed": diff.total("changed"),
        "jobs": sum(totals.jobs_before.total() for totals in diff.totals.values()),
        "jobs_moved": diff.total("jobs_moved"),
        "tasks_losing_last_queue": len(diff.tasks_losing_last()),
    }


def total_document(brokerage: str, totals: Totals) -> dict[str, Any]:
    """One brokerage over all cycles."""
    return {
        "kind": "total",
        "brokerage": brokerage,
        "cycles": totals.cycles,
        "decisions": totals.decisions,
        "changed": totals.changed,
        "outcomes": {
            "before": _outcomes(totals, 0),
            "after": _outcomes(totals, 1),
            "changed": _transitions(Counter({pair: n for pair, n in totals.outcomes.items() if pair[0] != pair[1]})),
        },
        "tasks_losing_last_queue": totals.losing_last,
        "tasks_gaining_first_queue": totals.gaining_first,
        "candidates": {
            side: {"mean": mean_of(counts), "decisions": {str(size): counts[size] for size in sorted(counts)}}
            for side, counts in _sides(totals.candidates_before, totals.candidates_after)
        },
        "jobs": {
            "before": totals.jobs_before.total(),
            "after": totals.jobs_after.total(),
            "moved": totals.jobs_moved,
        },
        "queues": queue_documents(totals),
        "rejections": {
            side: dict(sorted(codes.items())) for side, codes in _sides(totals.rejected_before, totals.rejected_after)
        },
    }


def queue_documents(totals: Totals) -> dict[str, dict[str, float]]:
    """The figures of each queue that gains or loses a decision, or gets jobs."""
    names = sorted({*totals.gained, *totals.lost, *totals.jobs_before, *totals.jobs_after})
    before, after = totals.jobs_before.total(), totals.jobs_after.total()
    return {
        name: {
            "gained": totals.gained[name],
            "lost": totals.lost[name],
            "jobs_before": totals.jobs_before[name],
            "jobs_after": totals.jobs_after[name],
            "share_before": totals.jobs_before[name] / before if before else 0.0,
            "share_after": totals.jobs_after[name] / after if after else 0.0,
        }
        for name in names
    }


def mean_of(counts: Counter[int]) -> float:
    """The mean of a distribution; 0 if it is empty."""
    return sum(size * count for size, count in counts.items()) / max(1, counts.total())


def _outcomes(totals: Totals, side: int) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for pair, count in totals.outcomes.items():
        counts[pair[side]] += count
    return dict(sorted(counts.items()))


def _transitions(pairs: Counter[tuple[str, str]]) -> list[list[Any]]:
    """[before, after, decisions], the most frequent first."""
    ranked = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    return [[was, is_, count] for (was, is_), count in ranked]


def _sides(before: Any, after: Any) -> tuple[tuple[str, Any], tuple[str, Any]]:
    return ("before", before), ("after", after)
