"""Who gains and who loses: the differences between two sides, task by task and in total, added up over cycles. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Ints
from broker.whatif.model.outcome_columns import Compared
from broker.whatif.model.task_differences import LOSES_LAST, TaskDifference, TaskSums, changed_tasks, last_queues


@dataclass
class Totals:
    """One brokerage over all cycles.

    Attributes:
        cycles: cycles decided.
        decisions: chunks, or tasks of the task brokerage, in all cycles.
        changed: decisions whose outcome, reason or candidates differ.
        outcomes: how often which outcome became which, or stayed.
        gained: by queue, decisions of which it becomes a candidate.
        lost: by queue, decisions of which it is a candidate no more.
        losing_last: tasks that have no candidate left in a cycle in which they had one, each cycle counted.
        gaining_first: the other way round.
        candidates_before: decisions by number of candidates.
        candidates_after: the same with the change.
        jobs_before: predicted jobs by queue.
        jobs_after: the same with the change.
        jobs_moved: jobs placed differently, or only now, or no more.
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
    """All that a change makes different.

    Args:
        totals: by brokerage.
        of_tasks: by brokerage, what is different for each task; empty where nobody asks.
    """

    def __init__(
        self, totals: Mapping[str, Totals] | None = None, of_tasks: Mapping[str, TaskSums] | None = None
    ) -> None:
        self.totals: dict[str, Totals] = dict(totals or {})
        self._of_tasks: dict[str, TaskSums] = dict(of_tasks or {})

    @property
    def tasks(self) -> dict[tuple[str, int], TaskDifference]:
        """By brokerage and task, those of which anything is different; made anew."""
        return {
            (brokerage, task): found
            for brokerage, sums in self._of_tasks.items()
            for task, found in sums.objects().items()
        }

    def add(self, other: Difference) -> None:
        """Add the counts of another cycle to these."""
        for brokerage, sums in other._of_tasks.items():
            self._of_tasks.setdefault(brokerage, TaskSums()).add(sums)
        for brokerage, totals in other.totals.items():
            self.totals.setdefault(brokerage, Totals()).add(totals)

    def __eq__(self, other: object) -> bool:
        """Whether the same is different."""
        return isinstance(other, Difference) and self.totals == other.totals and self.tasks == other.tasks

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        """What a test shows where two are not the same."""
        return f"Difference({self.totals!r}, tasks={self.tasks!r})"

    def total(self, name: str) -> int:
        """One of the plain figures of :class:`Totals`, all brokerages together."""
        return sum(int(getattr(totals, name)) for totals in self.totals.values())

    def tasks_losing_last(self) -> list[int]:
        """Tasks that have no candidate left where they had one, each once."""
        return sorted({task for one in self._of_tasks.values() for task in one.whole().tasks_with(LOSES_LAST)})


def added(differences: Iterable[Difference]) -> Difference:
    """What several cycles differ in, added up."""
    whole = Difference()
    for one in differences:
        whole.add(one)
    return whole


def difference(compared: Compared, *, by_task: bool = True) -> Difference:
    """What is different in one cycle; ``by_task``: not only in total."""
    before, after = compared.before, compared.after
    changed = (
        (before.outcome != after.outcome)
        | (before.reason != after.reason)
        | (before.chosen != after.chosen).any(axis=1)
    ).astype(np.bool_)
    totals = _totals(compared, changed)
    of_tasks = {compared.brokerage: TaskSums([changed_tasks(compared, np.flatnonzero(changed))])} if by_task else {}
    return Difference({compared.brokerage: totals}, of_tasks)


def _totals(compared: Compared, changed: Bools) -> Totals:
    before, after = compared.before, compared.after
    losing, gaining = last_queues(compared)
    pairs = zip(before.outcome.tolist(), after.outcome.tolist(), strict=True)
    # few pairs are candidates, and fewer get jobs: these are counted one by one
    had, has, was, is_ = (_Pairs.of(one) for one in (before.chosen, after.chosen, before.jobs, after.jobs))
    other = _Pairs.of(before.chosen != after.chosen)
    now = other.values(after.chosen)
    return Totals(
        cycles=1,
        decisions=len(changed),
        changed=int(changed.sum()),
        outcomes=Counter((str(one), str(two)) for one, two in pairs),
        gained=_by_name(compared, other.by_candidate(now)),
        lost=_by_name(compared, other.by_candidate(~now)),
        losing_last=len(losing),
        gaining_first=len(gaining),
        candidates_before=Counter(had.by_row().tolist()),
        candidates_after=Counter(has.by_row().tolist()),
        jobs_before=_by_name(compared, was.by_candidate(was.values(before.jobs))),
        jobs_after=_by_name(compared, is_.by_candidate(is_.values(after.jobs))),
        jobs_moved=_moved(before.jobs, after.jobs),
        rejected_before=Counter(before.rejections()),
        rejected_after=Counter(after.rejections()),
    )


@dataclass(frozen=True)
class _Pairs:
    """Those of T rows and Q candidates at which something is.

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
        """(T,) how many there are."""
        return np.bincount(self.row, minlength=self.shape[0])

    def by_candidate(self, counts: AnyArray) -> Ints:
        """(Q,) the sum of ``counts`` (N,), none of which has more digits than a float."""
        return np.bincount(self.candidate, counts, minlength=self.shape[1]).astype(np.int64)


def _moved(before: AnyArray, after: AnyArray) -> int:
    """Jobs of each piece of work that are not where they were: those that go, or those that come if these are more."""
    moved = _Pairs.of(before != after)
    change = moved.values(after) - moved.values(before)
    come, go = (np.bincount(moved.row, np.maximum(one, 0), minlength=len(before)) for one in (change, -change))
    return int(np.maximum(come, go).sum())


def _by_name(compared: Compared, counts: Ints) -> Counter[str]:
    return Counter({str(compared.names[at]): int(counts[at]) for at in np.flatnonzero(counts).tolist()})
