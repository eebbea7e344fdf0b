"""Running filters over blocks of chunks and candidates: who is left, and which rule rejected whom.

For each (chunk, candidate) the engine keeps the index of the rule that decides: the first that rejects for good, else
the last that rejects for now. That small matrix is the explanation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

import numpy as np

from broker.domain.arrays import AnyArray, Bools
from broker.domain.facts import JobFacts
from broker.domain.grid import NucleusTable
from broker.domain.queues import QueueTable
from broker.domain.task_facts import TaskFacts
from broker.domain.task_work import AssigningTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, GroupFilter, NucleusFilter, NucleusGroupFilter, Rule, TuningView

LEFT, NOT_A_CANDIDATE = -1, -2

T = TypeVar("T")
AnyFilter = Filter | GroupFilter
AnyNucleusFilter = NucleusFilter | NucleusGroupFilter


@dataclass(frozen=True)
class RuleFault:
    """A rule that could not be run: it raised, or its answer is no mask. It is counted, not hidden."""

    rule: str
    error: str


@dataclass(frozen=True)
class Evaluation:
    """Masks of a block: ``left`` (T, Q), and ``reason`` (T, Q): index of the deciding filter.

    An index of ``len(filters)`` and more means that filter ``index - len(filters)`` could not judge (unknown).
    """

    left: Bools
    reason: AnyArray
    faults: tuple[RuleFault, ...]


class RowsOf:
    """Some rows of a table, taken column by column when a rule asks for them."""

    def __init__(self, table: Any, rows: AnyArray) -> None:
        self._table, self._rows = table, rows

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._table, name)
        if isinstance(value, np.ndarray) and value.shape[0] != 1:
            value = value[self._rows]
        self.__dict__[name] = value
        return value


def rows_of(table: T, rows: AnyArray) -> T:
    """The table with only these rows; columns are taken lazily, so an unread one costs nothing."""
    return cast(T, RowsOf(table, rows))


def reason_codes(filters: Sequence[Rule]) -> tuple[str, ...]:
    """The codes for the indices of :attr:`Evaluation.reason`."""
    return tuple(rule.code for rule in filters) + tuple(f"unknown_{rule.name}" for rule in filters)


@overload
def evaluate(
    filters: Sequence[AnyFilter],
    tasks: WorkTable,
    candidates: QueueTable,
    facts: JobFacts,
    tunings: Mapping[str, TuningView],
    unusable: frozenset[str] = frozenset(),
) -> Evaluation: ...


@overload
def evaluate(
    filters: Sequence[AnyNucleusFilter],
    tasks: AssigningTable,
    candidates: NucleusTable,
    facts: TaskFacts,
    tunings: Mapping[str, TuningView],
    unusable: frozenset[str] = frozenset(),
) -> Evaluation: ...


def evaluate(
    filters: Sequence[Any],
    tasks: Any,
    candidates: Any,
    facts: Any,
    tunings: Mapping[str, TuningView],
    unusable: frozenset[str] = frozenset(),
) -> Evaluation:
    """Judge a block of chunks against queues, or of tasks against nuclei.

    Args:
        filters: in order.
        tasks: columns of shape (T, 1).
        candidates: columns of shape (1, Q).
        facts: of the block.
        tunings: by rule name, the view of the keys that the rule declares.
        unusable: sources by which nothing can be judged now.
    """
    alive = facts.initial.copy()
    reason = np.where(alive, LEFT, NOT_A_CANDIDATE).astype(np.int16)
    faults: list[RuleFault] = []
    for index, rule in enumerate(filters):
        if rule.after_temporary:
            alive &= reason == LEFT
        rows, applies = _rows(rule, tasks, facts, tunings[rule.name], faults)
        if rows is not None and not len(rows):
            continue
        if not unusable.isdisjoint(rule.sources):
            hit, unknown = (alive if rule.unknown_policy == "reject" else None), None
            _mark(reason, alive, rule, index + len(filters), hit, applies)
            continue
        part_tasks = tasks if rows is None else rows_of(tasks, rows)
        part_facts = facts if rows is None else rows_of(facts, rows)
        part_alive = alive if rows is None else alive[rows]
        try:
            keep, unknown = _judge(rule, part_alive, part_tasks, candidates, part_facts, tunings[rule.name])
        except Exception as error:  # a broken rule must not stop the broker: it is counted and its policy applies
            faults.append(RuleFault(rule.name, f"{type(error).__name__}: {error}"[:200]))
            hit = alive if rule.unknown_policy == "reject" else None
            _mark(reason, alive, rule, index + len(filters), hit, applies)
            continue
        _apply(reason, alive, rule, index, len(filters), rows, part_alive, keep, unknown)
    return Evaluation(alive & (reason == LEFT), reason, tuple(faults))


def _rows(
    rule: Any, tasks: Any, facts: Any, tuning: TuningView, faults: list[RuleFault]
) -> tuple[AnyArray | None, Bools | None]:
    try:
        applies = rule.applies(tasks, facts, tuning)
        if applies is not None:
            applies = _mask(applies, (len(facts.initial), 1), "applies")
    except Exception as error:  # as above: the rule then looks at every chunk, and its keep decides
        faults.append(RuleFault(rule.name, f"{type(error).__name__}: {error}"[:200]))
        return None, None
    if applies is None:
        return None, None
    flat = applies[:, 0]
    return (None, None) if flat.all() else (np.flatnonzero(flat), flat[:, None])


def _judge(
    rule: Any, alive: Bools, tasks: Any, candidates: Any, facts: Any, tuning: TuningView
) -> tuple[Bools, Bools | None]:
    if isinstance(rule, GroupFilter | NucleusGroupFilter):
        keep, unknown = rule.keep_among(alive, tasks, candidates, facts, tuning), None
    else:
        keep = rule.keep(tasks, candidates, facts, tuning)
        unknown = rule.unknown(tasks, candidates, facts, tuning)
    return _mask(keep, alive.shape, "keep"), None if unknown is None else _mask(unknown, alive.shape, "unknown")


def _mask(answer: AnyArray, shape: tuple[int, ...], method: str) -> Bools:
    """What a rule answered, as a mask of the shape asked for; whatever else it is shows here and not further on."""
    mask = np.asarray(answer)
    if mask.dtype != np.bool_:
        raise TypeError(f"{method} answered with {mask.dtype}, not with a mask")
    return np.broadcast_to(mask, shape)


def _removes(rule: Any) -> bool:
    """Whether a rejected candidate is gone for the rules that follow: a nucleus always is."""
    return bool(rule.kind == "persistent") or isinstance(rule, NucleusFilter | NucleusGroupFilter)


def _mark(reason: AnyArray, alive: Bools, rule: Any, index: int, hit: Bools | None, applies: Bools | None) -> None:
    if hit is None:
        return
    hit = hit.copy() if applies is None else hit & applies
    np.copyto(reason, index, where=hit)
    if _removes(rule):
        alive &= ~hit


def _apply(
    reason: AnyArray,
    alive: Bools,
    rule: Any,
    index: int,
    count: int,
    rows: AnyArray | None,
    part_alive: Bools,
    keep: Bools,
    unknown: Bools | None,
) -> None:
    hit = np.greater(part_alive, keep)
    part_reason = reason if rows is None else reason[rows]
    if unknown is not None:
        not_known = unknown & part_alive
        hit = (hit | not_known) if rule.unknown_policy == "reject" else (hit & ~not_known)
    if not hit.any():
        return
    np.copyto(part_reason, index, where=hit)
    if unknown is not None and rule.unknown_policy == "reject":
        np.copyto(part_reason, index + count, where=not_known)
    if rows is not None:
        reason[rows] = part_reason
    if _removes(rule):
        if rows is None:
            np.logical_and(alive, ~hit, out=alive)
        else:
            alive[rows] = part_alive & ~hit
