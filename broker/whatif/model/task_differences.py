"""The differences of each task, summed over cycles as columns of numbers and turned into objects at the end. Pure.

Where most decisions differ, one object for each task of each cycle took longer to create, to pass between processes
and to sum than placing the task's jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from broker.domain.arrays import AnyArray, Ints
from broker.engine.shared.pair_state import NOT_A_CANDIDATE
from broker.whatif.model.outcome_columns import CycleComparison, Side

NEVER_A_CANDIDATE = "not_a_candidate"

Word = str | tuple[str, str]
#: The figures that are counted for each task, by number.
DECISIONS, CANDIDATES_BEFORE, CANDIDATES_AFTER, LOSES_LAST, GAINS_FIRST = range(5)
#: Entries are summed once there are more of them than this, and more than the last sum has.
COLLECTED = 200_000


@dataclass
class TaskDifference:
    """The differences of one task at one brokerage, over all cycles and chunks with any difference.

    Attributes:
        decisions: decisions that are different.
        outcomes: how often which outcome became which.
        gained: queues that become candidates, with the code that kept each out before, in the last decision.
        lost: queues that are no longer candidates, with the code that keeps each out.
        loses_last_queue: in some cycle it had candidates and has none.
        gains_first_queue: in some cycle it had no candidates and has some.
        candidates: total candidates of these decisions before and after.
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


class Entries(NamedTuple):
    """Values by task and word, (N,) each.

    Attributes:
        task: its number.
        word: number of the word, or of the counted figure.
        value: a count, or the number of another word.
    """

    task: Ints
    word: AnyArray
    value: AnyArray


class TaskColumns(NamedTuple):
    """The differences of the tasks of one brokerage.

    Attributes:
        words: names of queues, codes, and pairs of outcomes, by number.
        counts: by task and figure, such as :data:`DECISIONS`.
        outcomes: decisions by task and pair of outcomes.
        jobs_before: by task and queue.
        jobs_after: by task and queue.
        gained: by task and queue, the code that kept it out; the last of several.
        lost: by task and queue, the code that keeps it out; the last of several.
    """

    words: tuple[Word, ...]
    counts: Entries
    outcomes: Entries
    jobs_before: Entries
    jobs_after: Entries
    gained: Entries
    lost: Entries

    @property
    def size(self) -> int:
        """The number of entries of all kinds."""
        return sum(len(one.task) for one in self[1:])

    def tasks_with(self, what: int) -> list[int]:
        """Tasks that have the figure ``what``, each once."""
        tasks: list[int] = np.unique(self.counts.task[self.counts.word == what]).tolist()
        return tasks


class TaskSums:
    """Columns of many cycles, summed when there are enough of them or the sum is read.

    Args:
        collected: of any number of cycles.
    """

    def __init__(self, collected: Iterable[TaskColumns] = ()) -> None:
        self._collected = list(collected)
        self._size = self._summed = 0

    def add(self, other: TaskSums) -> None:
        """Add the columns of other cycles."""
        self._collected += other._collected
        self._size += sum(one.size + len(one.words) for one in other._collected)
        if self._size > max(COLLECTED, self._summed):
            self.whole()

    def whole(self) -> TaskColumns:
        """The sum: each task and word once, in ascending order of tasks."""
        if len(self._collected) != 1 or self._size or not self._summed:
            self._collected = [_added(self._collected)]
            self._size, self._summed = 0, self._collected[0].size
        return self._collected[0]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the sum, for another process."""
        return TaskSums, ((self.whole(),),)

    def objects(self) -> dict[int, TaskDifference]:
        """Differences by task, as :class:`TaskDifference` objects."""
        whole = self.whole()
        differences: dict[int, TaskDifference] = {}
        counts: dict[int, list[int]] = {}
        for task, what, count in _entries(whole.counts):
            counts.setdefault(task, [0] * 5)[what] = count
        for task, (decisions, before, after, loses, gains) in counts.items():
            differences[task] = TaskDifference(
                decisions=decisions,
                loses_last_queue=loses > 0,
                gains_first_queue=gains > 0,
                candidates=(before, after),
            )
        for name in ("outcomes", "jobs_before", "jobs_after"):
            for task, word, count in _entries(getattr(whole, name)):
                getattr(differences[task], name)[whole.words[word]] = count
        for name in ("gained", "lost"):
            for task, word, code in _entries(getattr(whole, name)):
                getattr(differences[task], name)[whole.words[word]] = whole.words[code]
        return differences


def changed_tasks(comparison: CycleComparison, rows: Ints) -> TaskColumns:
    """The differences of the tasks of some rows, not yet summed."""
    before, after, task = comparison.before, comparison.after, comparison.jeditaskid[rows]
    words = _Words(comparison.names.tolist())
    had, has = before.chosen[rows], after.chosen[rows]
    outcomes = words.numbers(zip(before.outcome[rows].tolist(), after.outcome[rows].tolist(), strict=True))
    ones = np.ones(len(rows), dtype=np.int64)
    counts = {DECISIONS: ones, CANDIDATES_BEFORE: had.sum(axis=1), CANDIDATES_AFTER: has.sum(axis=1)}
    gained = _why_not(before, rows, task, has & ~had, words)
    lost = _why_not(after, rows, task, had & ~has, words)
    return TaskColumns(
        words=words.all(),
        counts=_joined([*(_of_all(task, *one) for one in counts.items()), *_lasts(comparison)]),
        outcomes=Entries(task, outcomes, ones),
        jobs_before=_jobs(before, rows, task),
        jobs_after=_jobs(after, rows, task),
        gained=gained,
        lost=lost,
    )


def last_queues(comparison: CycleComparison) -> tuple[Ints, Ints]:
    """The tasks that lose their last candidate in the cycle, and those that gain their first."""
    had, has = (
        np.unique(comparison.jeditaskid[one.chosen.any(axis=1)]) for one in (comparison.before, comparison.after)
    )
    return np.setdiff1d(had, has, assume_unique=True), np.setdiff1d(has, had, assume_unique=True)


class _Words:
    """Words by number: the names of candidates by position, then further words in order of arrival."""

    def __init__(self, names: Sequence[str]) -> None:
        self._number: dict[Word, int] = {name: at for at, name in enumerate(names)}

    def number(self, word: Word) -> int:
        return self._number.setdefault(word, len(self._number))

    def numbers(self, words: Iterable[Word]) -> AnyArray:
        return np.fromiter(map(self.number, words), dtype=np.int32)

    def all(self) -> tuple[Word, ...]:
        return tuple(self._number)


def _of_all(task: Ints, what: int, count: Ints) -> Entries:
    return Entries(task, np.full(len(task), what, dtype=np.int32), count)


def _lasts(comparison: CycleComparison) -> Iterator[Entries]:
    for what, tasks in zip((LOSES_LAST, GAINS_FIRST), last_queues(comparison), strict=True):
        yield _of_all(tasks, what, np.ones(len(tasks), dtype=np.int64))


def _jobs(side: Side, rows: Ints, task: Ints) -> Entries:
    jobs = side.jobs[rows]
    cells = np.flatnonzero(jobs != 0)
    row, candidate = _row_and_column(cells, jobs.shape[1])
    return Entries(task[row], candidate, jobs.ravel()[cells].astype(np.int64))


def _why_not(side: Side, rows: Ints, task: Ints, pairs: AnyArray, words: _Words) -> Entries:
    """The code that rejected each of the pairs of row and candidate; else the reason why the work has no candidates."""
    row, candidate = _row_and_column(np.flatnonzero(pairs), pairs.shape[1])
    position = side.position[rows[row], candidate]
    by_position = words.numbers((*side.codes, NEVER_A_CANDIDATE))
    codes = by_position[np.where(position >= 0, position, -1)].astype(np.int64)
    passed_over = np.flatnonzero((position < 0) & (position != NOT_A_CANDIDATE))
    codes[passed_over] = words.numbers(side.reason[rows[row[passed_over]]].tolist())
    return Entries(task[row], candidate, codes)


def _row_and_column(cells: Ints, width: int) -> tuple[Ints, AnyArray]:
    row = cells // max(1, width)
    return row, (cells - row * width).astype(np.int32)


def _joined(entries: Sequence[Entries]) -> Entries:
    return Entries(*map(np.concatenate, zip(*entries, strict=True)))


def _added(collected: Sequence[TaskColumns]) -> TaskColumns:
    """Merge the columns of several cycles, in their order, into one."""
    words = _Words(())
    maps = [words.numbers(one.words) for one in collected]
    counts = _summed(_joined([NOTHING, *(one.counts for one in collected)]))

    def renumbered(name: str, *, codes: bool = False) -> Entries:
        entries = [NOTHING]
        for one, numbers in zip(collected, maps, strict=True):
            task, word, value = getattr(one, name)
            entries.append(Entries(task, numbers[word], numbers[value] if codes else value))
        return _joined(entries)

    sums = (_summed(renumbered(name)) for name in ("outcomes", "jobs_before", "jobs_after"))
    lasts = (_last(renumbered(name, codes=True)) for name in ("gained", "lost"))
    return TaskColumns(words.all(), counts, *sums, *lasts)


NOTHING = Entries(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64))


def _summed(entries: Entries) -> Entries:
    ordered, first = _grouped(entries)
    if not len(first):
        return NOTHING
    return Entries(ordered.task[first], ordered.word[first], np.add.reduceat(ordered.value, first))


def _last(entries: Entries) -> Entries:
    ordered, first = _grouped(entries)
    last = np.append(first[1:], len(ordered.task)) - 1 if len(first) else first
    return Entries(*(column[last] for column in ordered))


def _grouped(entries: Entries) -> tuple[Entries, Ints]:
    """The entries by task, then word, with entries of a pair in their given order; and where each pair begins."""
    number = np.unique(entries.task, return_inverse=True)[1]
    pair = number * (int(entries.word.max(initial=0)) + 1) + entries.word
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    first = np.flatnonzero(np.append(True, pair[1:] != pair[:-1])[: len(pair)])
    return Entries(*(column[order] for column in entries)), first


def _entries(entries: Entries) -> Iterator[tuple[int, int, int]]:
    return zip(*(column.tolist() for column in entries), strict=True)
