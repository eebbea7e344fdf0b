"""Run the filters of a chain over a block of T chunks and Q candidates: feasible pairs, and the rule that decided each.

For each pair the engine keeps the index of the deciding rule: the first that rejects for good, else the last that
rejects for now. This (T, Q) matrix is the explanation. With three chunks, four queues, and the filters 0 ``memory``
(for good) and 1 ``status`` (for now):

    initial        memory keeps    status keeps    reason           feasible
    1 1 1 1        1 1 0 1         1 0 1 1         -1  1  0 -1      1 0 0 1
    1 1 1 1        1 1 1 1         1 0 1 1         -1  1 -1 -1      1 0 1 1
    1 1 1 0        0 1 1 1         1 0 1 1          0  1 -1 -2      0 0 1 0

-1 is feasible, -2 never was a candidate. A filter that lacks its input writes its index plus the number of filters: if
``status`` were unknown for the third queue, its column would read 0, 3, 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, RowsByKind, rows_of_all
from broker.domain.facts import JobFacts, cell_at
from broker.engine.shared.filter_cache import Evaluation, FilterAnswer, Mask, RuleFault
from broker.engine.shared.pair_state import BlockState
from broker.engine.shared.pass_cache import ONE_PASS, Passes
from broker.rules.contract import AnyPairs, Filter, GroupFilter, Rule, TuningView
from broker.snapshot.snapshot import Snapshot

T = TypeVar("T")
AnyFilter = Filter[Any] | GroupFilter[Any]
PairsT = TypeVar("PairsT", bound=AnyPairs)


RULE_ERRORS: tuple[type[BaseException], ...] = (Exception, SystemExit)
"""Errors of a broken rule, which must not stop the broker: the fault is counted, and the rule's policy applies, or it
has no effect. A rule that ends the program (``sys.exit``) is broken, too; an interrupt by the user is not its error."""


class RowsOf:
    """Rows of a table, taken column by column on access."""

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

    def at_pairs(self, name: str, chunk: Ints, candidate: Ints) -> Any:
        """Like :meth:`JobFacts.at_pairs`, for these rows."""
        if name in self.__dict__:
            return cell_at(self.__dict__[name], chunk, candidate)
        return self._table.at_pairs(name, self._rows.take(chunk), candidate)

    def by_kind(self, name: str) -> RowsByKind:
        """Like :meth:`JobFacts.by_kind`, for these rows."""
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
    """The empty tuning outside a rule: each rule sees only the keys that it declares."""

    def number(self, key: str) -> float:
        """Raise KeyError: there is no value."""
        raise KeyError(key)

    def flag(self, key: str) -> bool:
        """Raise KeyError: there is no value."""
        raise KeyError(key)

    def is_set(self, key: str) -> bool:
        """Raise KeyError: there is no value."""
        raise KeyError(key)

    def text(self, key: str) -> str | None:
        """Raise KeyError: there is no value."""
        raise KeyError(key)

    def by_suffix(self, family: str, suffixes: Sequence[str | None]) -> Floats:
        """Raise KeyError: there is no value."""
        raise KeyError(family)

    def by_two_suffixes(self, family: str, firsts: Sequence[str | None], seconds: Sequence[str | None]) -> Floats:
        """Raise KeyError: there is no value."""
        raise KeyError(family)


UNDECLARED = Undeclared()


@dataclass(frozen=True)
class RuleViews:
    """Values that single rules may read besides the pairs: their tuning keys and prepared facts.

    Attributes:
        tunings: by rule name, the gdpconfig values of the keys that the rule declares.
        prepared: by rule name, the rule's own facts.
        broken: names of rules whose own facts could not be computed, so that they cannot judge.
    """

    tunings: Mapping[str, TuningView]
    prepared: Mapping[str, Any] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()

    def of(self, rule: Rule, pairs: PairsT, rows: AnyArray | None = None) -> PairsT:
        """The pairs as a rule sees them; ``rows``: only these rows of the block."""
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
    """The views of the rules of a cycle, with their own facts computed once, and the rules that failed."""
    prepared: dict[str, Any] = {}
    faults: list[RuleFault] = []
    for rule in rules:
        if type(rule).prepare is Rule.prepare:
            continue
        try:
            prepared[rule.name] = rule.prepare(snapshot, work, tunings[rule.name])
        except RULE_ERRORS as error:
            faults.append(fault_of(rule, error))
    return RuleViews(tunings, prepared, frozenset(fault.rule for fault in faults)), tuple(faults)


def fault_of(rule: Rule, error: BaseException) -> RuleFault:
    """The fault to report for an error that a rule raised."""
    return RuleFault(rule.name, f"{type(error).__name__}: {error}"[:200])


def evaluate(
    filters: Sequence[AnyFilter],
    pairs: AnyPairs,
    views: RuleViews,
    unusable: frozenset[str] = frozenset(),
    known: dict[str, FilterAnswer] | None = None,
    passes: Passes = ONE_PASS,
) -> Evaluation:
    """Judge a block of chunks against queues, or of tasks against nuclei.

    Args:
        filters: in order.
        pairs: of the block.
        views: the values that each rule may read besides.
        unusable: sources by which nothing can be judged now.
        known: by name, answers of filters that are not evaluated again; new answers are added, so that all filters
            judge whole blocks. Without it, filters that judge pair by pair see only the remaining pairs.
        passes: answers from another pass over the same chunks, or for a later one.
    """
    state = BlockState(pairs, len(filters))
    faults: list[RuleFault] = []
    for index, rule in enumerate(filters):
        if rule.after_temporary:
            state.drop_skipped()
        if known is None:
            state.narrow()
        removes = rule.kind == "persistent" or pairs.rejects_for_good
        seen = views.of(rule, pairs)
        answer = passes.earlier.get(rule.name) if known is None else known.get(rule.name)
        noted = len(faults)
        applies = _applies(rule, seen, faults) if answer is None else None
        if applies is not None and not applies.any():
            continue
        if answer is None:
            not_judged = rule.unknown_policy == "reject"
            if rule.name in views.broken or not unusable.isdisjoint(rule.needs(seen.tuning)):
                state.unknown(index, not_judged, applies, removes)
                continue
            try:
                ask = _judge_surviving if state.surviving is not None and _judges_pairs(rule) else _judge_block
                answer = ask(rule, state, applies, seen, views)
            except RULE_ERRORS as error:
                faults.append(fault_of(rule, error))
                state.unknown(index, not_judged, applies, removes)
                continue
        if len(faults) == noted and isinstance(rule, Filter):
            passes.note(rule, answer, known)
        state.apply(index, rule.unknown_policy == "reject", answer, removes)
    feasible, reason = state.evaluation()
    return Evaluation(feasible, reason, tuple(faults))


def _applies(rule: AnyFilter, pairs: AnyPairs, faults: list[RuleFault]) -> Bools | None:
    """(T, 1): the chunks that a rule applies to; None for all."""
    try:
        applies = rule.applies(pairs)
        if applies is not None:
            applies = _array(applies, (len(pairs.facts.initial), 1), "applies")
    except RULE_ERRORS as error:  # the rule then sees every chunk, and its keep decides
        faults.append(fault_of(rule, error))
        return None
    if applies is None or applies.all():
        return None
    return applies[:, :1]


def _judge_block(
    rule: AnyFilter, state: BlockState, applies: Bools | None, pairs: AnyPairs, views: RuleViews
) -> FilterAnswer:
    """Evaluate a rule on a block, at the chunks that it applies to; ``pairs``: the block as the rule sees it."""
    rows = None if applies is None else np.flatnonzero(applies[:, 0])
    if rows is not None:
        pairs = views.of(rule, pairs, rows)
    shape = state.shape if rows is None else (len(rows), state.shape[1])
    if isinstance(rule, GroupFilter):
        alive = state.alive_of_block()
        return FilterAnswer(rows, _mask(rule.keep_among(alive if rows is None else alive[rows], pairs), shape, "keep"))
    return FilterAnswer(rows, *_keep(rule, pairs, shape))


def _judges_pairs(rule: AnyFilter) -> bool:
    """Whether the rule can judge a list of pairs; a class derived from one that can may need whole rows."""
    return isinstance(rule, Filter) and bool(vars(type(rule)).get("pair_by_pair", False))


def _judge_surviving(
    rule: AnyFilter, state: BlockState, applies: Bools | None, pairs: AnyPairs, views: RuleViews
) -> FilterAnswer:
    """Evaluate a rule on the list of surviving pairs, unless it is empty."""
    at, some = state.listed(applies)
    shape = some.facts.initial.shape
    if not shape[0]:
        return FilterAnswer(at, np.ones(shape, dtype=np.bool_), None, True)
    return FilterAnswer(at, *_keep(cast(Filter[Any], rule), views.of(rule, some), shape), True)


def _keep(rule: Filter[Any], pairs: AnyPairs, shape: tuple[int, ...]) -> tuple[Mask, Mask | None]:
    keep, unknown = rule.keep(pairs), rule.unknown(pairs)
    return _mask(keep, shape, "keep"), None if unknown is None else _mask(unknown, shape, "unknown")


def _mask(answer: AnyArray | RowsByKind, shape: tuple[int, ...], method: str) -> Mask:
    """Check that an answer is a mask that broadcasts to the shape, so that a bad one fails here."""
    if isinstance(answer, RowsByKind):
        if not answer.broadcasts_to(shape) or answer.table.dtype != np.bool_:
            raise TypeError(f"{method} answered with {answer.table.dtype} of shape {answer.shape}, not with a mask")
        return answer
    return _array(answer, shape, method)


def _array(answer: AnyArray, shape: tuple[int, ...], method: str) -> Bools:
    mask = np.asarray(answer)
    if mask.dtype != np.bool_:
        raise TypeError(f"{method} answered with {mask.dtype}, not with a mask")
    if mask.shape != shape:
        np.broadcast_to(mask, shape)  # raises if it does not broadcast
        mask = np.atleast_2d(mask)
    return mask
