"""Who gains and who loses: the differences between two sides, task by task and in total, added up over cycles. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Ints
from broker.whatif.outcome_columns import Compared, Side


@dataclass
class TaskDifference:
    """What is different for one task at one brokerage, over all cycles and chunks in which anything is.

    Attributes:
        decisions: decisions that are different.
        outcomes: how often which outcome became which.
        gained: queues that become candidates, with the code that kept each out before.
        lost: queues that are candidates no more, with the code that keeps each out.
        loses_last_queue: in some cycle it had candidates and has none.
        gains_first_queue: in some cycle it had no candidates and has some.
        candidates: candidates of these decisions before and after, added up.
        jobs_before: jobs of these decisions by queue.
        jobs_after: the same with the change.
    """

    decisions: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    gained: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    loses_last_queue: bool = False
    gains_first_queue: bool = False
    candidates: tuple[int, int] = (0, 0)
    jobs_before: Counter[str] = field(default_factory=Counter)
    jobs_after: Counter[str] = field(default_factory=Counter)

    def add(self, other: TaskDifference) -> None:
        """Add what was found in another cycle."""
        self.decisions += other.decisions
        self.outcomes.update(other.outcomes)
        self.gained.update(other.gained)
        self.lost.update(other.lost)
        self.loses_last_queue |= other.loses_last_queue
        self.gains_first_queue |= other.gains_first_queue
        self.candidates = (self.candidates[0] + other.candidates[0], self.candidates[1] + other.candidates[1])
        self.jobs_before.update(other.jobs_before)
        self.jobs_after.update(other.jobs_after)


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


@dataclass
class Difference:
    """All that a change makes different.

    Attributes:
        tasks: by brokerage and task, those of which anything is different.
        totals: by brokerage.
    """

    tasks: dict[tuple[str, int], TaskDifference] = field(default_factory=dict)
    totals: dict[str, Totals] = field(default_factory=dict)

    def add(self, other: Difference) -> None:
        """Add the counts of another cycle to these."""
        for task, found in other.tasks.items():
            self.tasks.setdefault(task, TaskDifference()).add(found)
        for brokerage, totals in other.totals.items():
            self.totals.setdefault(brokerage, Totals()).add(totals)

    def total(self, name: str) -> int:
        """One of the plain figures of :class:`Totals`, all brokerages together."""
        return sum(int(getattr(totals, name)) for totals in self.totals.values())

    def tasks_losing_last(self) -> list[int]:
        """Tasks that have no candidate left where they had one, each once."""
        return sorted({task for (_, task), found in self.tasks.items() if found.loses_last_queue})


def added(differences: Iterable[Difference]) -> Difference:
    """What several cycles differ in, added up."""
    whole = Difference()
    for one in differences:
        whole.add(one)
    return whole


def difference(compared: Compared) -> Difference:
    """What is different in one cycle."""
    before, after = compared.before, compared.after
    changed = (
        (before.outcome != after.outcome)
        | (before.reason != after.reason)
        | (before.chosen != after.chosen).any(axis=1)
    ).astype(np.bool_)
    tasks = _tasks(compared, np.flatnonzero(changed))
    had, has = _tasks_with_candidates(compared, before), _tasks_with_candidates(compared, after)
    for task in had ^ has:
        found = tasks[compared.brokerage, task]
        found.loses_last_queue, found.gains_first_queue = task in had, task in has
    totals = _totals(compared, changed)
    totals.losing_last, totals.gaining_first = len(had - has), len(has - had)
    return Difference(tasks, {compared.brokerage: totals})


def _tasks(compared: Compared, rows: Ints) -> dict[tuple[str, int], TaskDifference]:
    """What is different for the tasks of some rows."""
    before, after, names = compared.before, compared.after, compared.names.tolist()
    had, has = before.chosen[rows], after.chosen[rows]
    gained, lost, before_jobs, after_jobs = (
        _by_row(one) for one in (has & ~had, had & ~has, before.jobs[rows], after.jobs[rows])
    )
    counts = zip(had.sum(axis=1).tolist(), has.sum(axis=1).tolist(), strict=True)
    tasks: dict[tuple[str, int], TaskDifference] = {}
    for at, (row, candidates) in enumerate(zip(rows.tolist(), counts, strict=True)):
        found = TaskDifference(
            decisions=1,
            outcomes=Counter({(str(before.outcome[row]), str(after.outcome[row])): 1}),
            gained={names[one]: before.why_not(row, one) for one in gained[at]},
            lost={names[one]: after.why_not(row, one) for one in lost[at]},
            candidates=candidates,
            jobs_before=Counter({names[one]: jobs for one, jobs in before_jobs[at].items()}),
            jobs_after=Counter({names[one]: jobs for one, jobs in after_jobs[at].items()}),
        )
        key = (compared.brokerage, int(compared.jeditaskid[row]))
        if key in tasks:
            tasks[key].add(found)
        else:
            tasks[key] = found
    return tasks


def _by_row(counts: AnyArray) -> list[dict[int, int]]:
    """For each row the columns in which something is, and how much."""
    found: list[dict[int, int]] = [{} for _ in range(len(counts))]
    row, column = counts.nonzero()
    for at, one, count in zip(row.tolist(), column.tolist(), counts[row, column].tolist(), strict=True):
        found[at][one] = int(count)
    return found


def _totals(compared: Compared, changed: Bools) -> Totals:
    before, after = compared.before, compared.after
    pairs = zip(before.outcome.tolist(), after.outcome.tolist(), strict=True)
    return Totals(
        cycles=1,
        decisions=len(changed),
        changed=int(changed.sum()),
        outcomes=Counter((str(was), str(is_)) for was, is_ in pairs),
        gained=_by_name(compared, (after.chosen & ~before.chosen).sum(axis=0)),
        lost=_by_name(compared, (before.chosen & ~after.chosen).sum(axis=0)),
        candidates_before=Counter(before.chosen.sum(axis=1).tolist()),
        candidates_after=Counter(after.chosen.sum(axis=1).tolist()),
        jobs_before=_by_name(compared, before.jobs.sum(axis=0)),
        jobs_after=_by_name(compared, after.jobs.sum(axis=0)),
        jobs_moved=_moved(before.jobs, after.jobs),
        rejected_before=Counter(before.rejections()),
        rejected_after=Counter(after.rejections()),
    )


def _moved(before: AnyArray, after: AnyArray) -> int:
    """Jobs of each piece of work that are not where they were: those that go, or those that come if these are more."""
    change = after - before
    return int(np.maximum(np.maximum(change, 0).sum(axis=1), np.maximum(-change, 0).sum(axis=1)).sum())


def _tasks_with_candidates(compared: Compared, side: Side) -> set[int]:
    return set(compared.jeditaskid[side.chosen.any(axis=1)].tolist())


def _by_name(compared: Compared, counts: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for at in np.flatnonzero(counts).tolist():
        found[str(compared.names[at])] += int(counts[at])
    return found
