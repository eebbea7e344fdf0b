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
from broker.domain.rows_by_kind import RowsByKind, rows_of_all
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

    def by_kind(self, name: str) -> RowsByKind:
        """As :meth:`JobFacts.by_kind`, of the rows."""
        if name in self.__dict__:
            return rows_of_all(self.__dict__[name], len(self._rows))
        return self._table.by_kind(name).of(self._rows)  # type: ignore[no-any-return]


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
    marks = _Marks(alive, len(filters))
    faults: list[RuleFault] = []
    for index, rule in enumerate(filters):
        if rule.after_temporary:
            alive &= marks.reason == FEASIBLE
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
                marks.unknown(index, not_judged, applies, removes)
                continue
            try:
                keep, unknown = _judge(rule, alive, rows, seen if rows is None else views.of(rule, pairs, rows))
            except Exception as error:  # a broken rule must not stop the broker: it is counted and its policy applies
                faults.append(fault_of(rule, error))
                marks.unknown(index, not_judged, applies, removes)
                continue
            answer = FilterAnswer(rows, keep, unknown)
            if known is not None and len(faults) == noted and isinstance(rule, Filter):
                known[rule.name] = answer
        marks.apply(index, rule.unknown_policy == "reject", answer, removes)
    return Evaluation(alive & (marks.reason == FEASIBLE), marks.reason, tuple(faults))


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


def _judge(rule: AnyFilter, alive: Bools, rows: AnyArray | None, pairs: AnyPairs) -> tuple[Bools, Bools | None]:
    """What a rule says of the chunks ``rows`` of the block, which are those of ``pairs``; None for all."""
    shape = alive.shape if rows is None else (len(rows), alive.shape[1])
    if isinstance(rule, GroupFilter):
        return _mask(rule.keep_among(alive if rows is None else alive[rows], pairs), shape, "keep"), None
    keep, unknown = rule.keep(pairs), rule.unknown(pairs)
    return _mask(keep, shape, "keep"), None if unknown is None else _mask(unknown, shape, "unknown")


def _mask(answer: AnyArray, shape: tuple[int, ...], method: str) -> Bools:
    """What a rule answered, as a mask that broadcasts to the shape; whatever else it is shows here, not further on."""
    mask = np.asarray(answer)
    if mask.dtype != np.bool_:
        raise TypeError(f"{method} answered with {mask.dtype}, not with a mask")
    if mask.shape != shape:
        np.broadcast_to(mask, shape)  # raises where it does not
        mask = np.atleast_2d(mask)
    return mask


class _Marks:
    """What decides about each pair so far, and which pairs are left.

    Attributes:
        reason: (T, Q) as in :class:`Evaluation`, in the smallest type that holds the indices of the filters twice.
    """

    def __init__(self, alive: Bools, count: int) -> None:
        self._alive, self._count = alive, count
        kind = np.min_scalar_type(-2 * max(1, count))
        self.reason = alive.astype(kind) + kind.type(NOT_A_CANDIDATE)
        self._change = np.empty_like(self.reason)

    def unknown(self, index: int, hit: Bools | None, applies: Bools | None, removes: bool) -> None:
        """A rule could not judge; ``hit``: the pairs that it would have been asked about, None where these stay."""
        if hit is not None:
            self._mark(index + self._count, hit.copy() if applies is None else hit & applies, removes)

    def apply(self, index: int, rejects_unknown: bool, answer: FilterAnswer, removes: bool) -> None:
        """A rule has judged."""
        if answer.unknown is None:
            if answer.keep.all():
                return
            self._mark(index, np.logical_and(self._alive, self._of_block(answer, ~answer.keep)), removes)
            return
        not_known = self._alive & self._of_block(answer, answer.unknown)
        hit = self._alive & self._of_block(answer, ~answer.keep)
        self._mark(index, hit & ~not_known, removes)
        if rejects_unknown:
            self._mark(index + self._count, not_known, removes)

    def _of_block(self, answer: FilterAnswer, mask: Bools) -> Bools:
        """A mask over the chunks that the rule looked at, as one over the block: false for the others."""
        if answer.rows is None:
            return mask
        every = np.zeros((len(self._alive), mask.shape[1]), dtype=np.bool_)
        every[answer.rows] = mask
        return every

    def _mark(self, value: int, hit: Bools, removes: bool) -> None:
        if not hit.any():
            return
        # reason += hit * (value - reason), modulo 2**8: arithmetic is many times faster than a masked assignment
        np.subtract(self.reason.dtype.type(value), self.reason, out=self._change)
        np.multiply(self._change, hit.view(np.int8), out=self._change)
        np.add(self.reason, self._change, out=self.reason)
        if removes:
            np.greater(self._alive, hit, out=self._alive)
