"""Running filters over blocks of chunks and candidates: who is left, and which rule rejected whom.

For each (chunk, candidate) the engine keeps the index of the rule that decides: the first that rejects for good, else
the last that rejects for now. That small matrix is the explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats
from broker.domain.facts import JobFacts
from broker.domain.packed_reasons import Standing
from broker.engine.shared.kept_answers import FilterAnswer
from broker.rules.contract import AnyPairs, Filter, GroupFilter, Rule, TuningView
from broker.snapshot.snapshot import Snapshot

FEASIBLE, NOT_A_CANDIDATE = Standing.FEASIBLE, Standing.NOT_A_CANDIDATE

T = TypeVar("T")
AnyFilter = Filter[Any] | GroupFilter[Any]
PairsT = TypeVar("PairsT", bound=AnyPairs)


@dataclass(frozen=True)
class RuleFault:
    """A rule that could not be run: it raised, or its answer is no mask. It is counted, not hidden."""

    rule: str
    error: str


@dataclass(frozen=True)
class Evaluation:
    """Masks of a block: ``feasible`` (T, Q), and ``reason`` (T, Q): index of the deciding filter.

    An index of ``len(filters)`` and more means that filter ``index - len(filters)`` could not judge (unknown).
    """

    feasible: Bools
    reason: AnyArray
    faults: tuple[RuleFault, ...]


class RowsOf:
    """Some rows of a table, taken column by column when a rule asks for them."""

    def __init__(self, table: Any, rows: AnyArray) -> None:
        self._table, self._rows = table, rows

    def __getattr__(self, name: str) -> Any:
        if isinstance(self._table, JobFacts):
            value = self._table.rows(name, self._rows)
        else:
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


class Undeclared:
    """The tuning outside a rule: there is none, each rule sees the keys that it declares."""

    def number(self, key: str) -> float:
        """There is no value: KeyError, always."""
        raise KeyError(key)

    def flag(self, key: str) -> bool:
        """There is no value: KeyError, always."""
        raise KeyError(key)

    def is_set(self, key: str) -> bool:
        """There is no value: KeyError, always."""
        raise KeyError(key)

    def text(self, key: str) -> str | None:
        """There is no value: KeyError, always."""
        raise KeyError(key)

    def by_suffix(self, family: str, suffixes: Sequence[str | None]) -> Floats:
        """There is no value: KeyError, always."""
        raise KeyError(family)

    def by_two_suffixes(self, family: str, firsts: Sequence[str | None], seconds: Sequence[str | None]) -> Floats:
        """There is no value: KeyError, always."""
        raise KeyError(family)


UNDECLARED = Undeclared()


@dataclass(frozen=True)
class RuleViews:
    """What each rule may see beside the pairs that all see.

    Attributes:
        tunings: by rule name, the gdpconfig values of the keys that the rule declares.
        prepared: by rule name, the facts of the rule's own.
        broken: names of rules whose own facts could not be worked out, so that they cannot judge.
    """

    tunings: Mapping[str, TuningView]
    prepared: Mapping[str, Any] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()

    def of(self, rule: Rule, pairs: PairsT, rows: AnyArray | None = None) -> PairsT:
        """The pairs as a rule sees them; ``rows``: only these of the block."""
        prepared = self.prepared
        if prepared:
            prepared = {name: prepared[name] for name in (rule.name, *rule.reads) if name in prepared}
        chunks, facts, positions = pairs.chunks, pairs.facts, pairs.rows
        if rows is not None:
            chunks, facts, positions = rows_of(chunks, rows), rows_of(facts, rows), positions[rows]
        return type(pairs)(
            chunks, pairs.candidates, facts, self.tunings[rule.name], positions, pairs.positions, prepared
        )


def prepare(
    rules: Iterable[Rule], snapshot: Snapshot, work: Any, tunings: Mapping[str, TuningView]
) -> tuple[RuleViews, tuple[RuleFault, ...]]:
    """The views of the rules of a cycle, with the facts of their own worked out once, and the rules that failed."""
    prepared: dict[str, Any] = {}
    faults: list[RuleFault] = []
    for rule in rules:
        if type(rule).prepare is Rule.prepare:
            continue
        try:
            prepared[rule.name] = rule.prepare(snapshot, work, tunings[rule.name])
        except Exception as error:  # a broken rule must not stop the broker: it is counted and its policy applies
            faults.append(fault_of(rule, error))
    return RuleViews(tunings, prepared, frozenset(fault.rule for fault in faults)), tuple(faults)


def fault_of(rule: Rule, error: Exception) -> RuleFault:
    """What is kept of an error that a rule raised."""
    return RuleFault(rule.name, f"{type(error).__name__}: {error}"[:200])


def evaluate(
    filters: Sequence[AnyFilter],
    pairs: AnyPairs,
    views: RuleViews,
    unusable: frozenset[str] = frozenset(),
    known: dict[str, FilterAnswer] | None = None,
) -> Evaluation:
    """Judge a block of chunks against queues, or of tasks against nuclei.

    Args:
        filters: in order.
        pairs: of the block.
        views: what each rule may see besides.
        unusable: sources by which nothing can be judged now.
        known: by name, answers of filters that are not asked again; those of the others are put there.
    """
    alive = pairs.facts.initial.copy()
    reason = np.where(alive, FEASIBLE, NOT_A_CANDIDATE).astype(np.int16)
    faults: list[RuleFault] = []
    for index, rule in enumerate(filters):
        if rule.after_temporary:
            alive &= reason == FEASIBLE
        removes = rule.kind == "persistent" or pairs.rejects_for_good
        seen = views.of(rule, pairs)
        answer = None if known is None else known.get(rule.name)
        noted = len(faults)
        rows, applies = _rows(rule, seen, faults) if answer is None else (answer.rows, None)
        if rows is not None and not len(rows):
            continue
        if answer is None:
            not_judged = alive if rule.unknown_policy == "reject" else None
            if rule.name in views.broken or not unusable.isdisjoint(rule.needs(seen.tuning)):
                _mark(reason, alive, removes, index + len(filters), not_judged, applies)
                continue
        part_alive = alive if rows is None else alive[rows]
        if answer is None:
            try:
                keep, unknown = _judge(rule, part_alive, seen if rows is None else views.of(rule, pairs, rows))
            except Exception as error:  # a broken rule must not stop the broker: it is counted and its policy applies
                faults.append(fault_of(rule, error))
                _mark(reason, alive, removes, index + len(filters), not_judged, applies)
                continue
            answer = FilterAnswer(rows, keep, unknown)
            if known is not None and len(faults) == noted and isinstance(rule, Filter):
                known[rule.name] = answer
        _apply(reason, alive, rule, index, len(filters), rows, part_alive, answer.keep, answer.unknown, removes)
    return Evaluation(alive & (reason == FEASIBLE), reason, tuple(faults))


def _rows(rule: AnyFilter, pairs: AnyPairs, faults: list[RuleFault]) -> tuple[AnyArray | None, Bools | None]:
    try:
        applies = rule.applies(pairs)
        if applies is not None:
            applies = _mask(applies, (len(pairs.facts.initial), 1), "applies")
    except Exception as error:  # as above: the rule then looks at every chunk, and its keep decides
        faults.append(fault_of(rule, error))
        return None, None
    if applies is None:
        return None, None
    flat = applies[:, 0]
    return (None, None) if flat.all() else (np.flatnonzero(flat), flat[:, None])


def _judge(rule: AnyFilter, alive: Bools, pairs: AnyPairs) -> tuple[Bools, Bools | None]:
    if isinstance(rule, GroupFilter):
        return _mask(rule.keep_among(alive, pairs), alive.shape, "keep"), None
    keep, unknown = rule.keep(pairs), rule.unknown(pairs)
    return _mask(keep, alive.shape, "keep"), None if unknown is None else _mask(unknown, alive.shape, "unknown")


def _mask(answer: AnyArray, shape: tuple[int, ...], method: str) -> Bools:
    """What a rule answered, as a mask of the shape asked for; whatever else it is shows here and not further on."""
    mask = np.asarray(answer)
    if mask.dtype != np.bool_:
        raise TypeError(f"{method} answered with {mask.dtype}, not with a mask")
    return mask if mask.shape == shape else np.broadcast_to(mask, shape)


def _mark(reason: AnyArray, alive: Bools, removes: bool, index: int, hit: Bools | None, applies: Bools | None) -> None:
    if hit is None:
        return
    hit = hit.copy() if applies is None else hit & applies
    np.copyto(reason, index, where=hit)
    if removes:
        alive &= ~hit


def _apply(
    reason: AnyArray,
    alive: Bools,
    rule: AnyFilter,
    index: int,
    count: int,
    rows: AnyArray | None,
    part_alive: Bools,
    keep: Bools,
    unknown: Bools | None,
    removes: bool,
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
    if removes:
        if rows is None:
            np.logical_and(alive, ~hit, out=alive)
        else:
            alive[rows] = part_alive & ~hit
