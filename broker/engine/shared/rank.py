"""Ranking: weights, the cuts that depend on them, and the best candidates of a chunk.

Three chunks, four queues, and at most two candidates each. Queue 3 runs no jobs, so it may bootstrap, and chunk 2 has
no pair with it. Cut 0 is ``low_weight``, since there are no other cuts here; -1 is chosen:

    weight          feasible     cut              chosen, best first
    2 8 4 1         1 1 1 1      0 -1  0 -1       3 1    queue 3 bootstraps: before all weights
    2 8 4 1         1 1 1 1      0 -1 -1  0       1 2    this chunk may not bootstrap
    2 2 2 1         1 1 1 0     -1 -1  0  -       0 1    equal weights: the first name wins

Source: ATLAS Production Job Brokerage, weights and further filters; PanDA production brokerage, caps and ordering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.domain.decisions import Reason
from broker.engine.shared.evaluate import RULE_ERRORS, fault_of
from broker.engine.shared.filter_cache import RuleFault
from broker.rules.contract import GroupCut, Load, LoadCut, LoadWeight, Rule

BEST = 10
LOW_WEIGHT, OTHERS_BOOTSTRAP, WEIGHT_UNKNOWN = "low_weight", "others_bootstrap", "weight_unknown"

WEIGHT_UNKNOWN_REASON = Reason(
    code=WEIGHT_UNKNOWN,
    title="a factor of the weight is not a finite number",
    no_candidate="has a weight that is a number",
    who="ask",
    cure="Operators look at the sources of the snapshot (`broker alarms`): a figure that a weight reads is wrong.",
)
REASONS = (
    Reason(
        code=LOW_WEIGHT,
        title="the best 10 candidates are taken, and this is not one of them",
        violation="ten candidates weigh more",
        no_candidate="is among the best ten",
        who="wait",
        cure="Nothing is wrong: the queue passed every rule, and better ones were taken.",
    ),
    Reason(
        code=OTHERS_BOOTSTRAP,
        title="the queue has no jobs at all and would get some to start with, but 10 others come first",
        violation="the queue would get its first jobs, but ten others come first",
        no_candidate="is among the ten that get their first jobs",
        who="wait",
        cure="Wait: queues without jobs take turns.",
    ),
    WEIGHT_UNKNOWN_REASON,
)


@dataclass(frozen=True)
class Ranking:
    """The candidates of one chunk after weighing.

    Attributes:
        chosen: positions (into the arrays that were ranked), best first.
        weight: of every position; the product of its factors.
        load_factors: by position, one array per moving weight, in order.
        cut: for each position the index into ``cut_codes`` of what cut it, -1 where chosen.
        bootstrap: positions that have no jobs at all and come first.
    """

    chosen: Ints
    weight: Floats
    load_factors: tuple[Floats, ...]
    cut: AnyArray
    bootstrap: Bools

    def without(self, taking: Bools) -> Ranking:
        """The ranking without the positions ``taking`` (n,), which only took a place."""
        rest, renumbered = ~taking, np.cumsum(~taking) - 1
        chosen = renumbered[self.chosen[rest[self.chosen]]]
        factors = tuple(factor[rest] for factor in self.load_factors)
        return Ranking(chosen, self.weight[rest], factors, self.cut[rest], self.bootstrap[rest])


def cut_codes(cuts: Sequence[LoadCut]) -> tuple[str, ...]:
    """The codes for the indices of :attr:`Ranking.cut`."""
    return (*(cut.code for cut in cuts), LOW_WEIGHT, OTHERS_BOOTSTRAP, WEIGHT_UNKNOWN)


def rank(
    fixed: Sequence[Floats],
    load: Load,
    load_weights: Sequence[LoadWeight],
    cuts: Sequence[LoadCut],
    faults: list[RuleFault] | None = None,
    best: int = BEST,
) -> Ranking:
    """Rank the n candidates of one chunk, given in the order of their names, by factors ``fixed`` and moving ones.

    A candidate without any job bootstraps: it comes first, whatever its weight. A candidate whose weight is not finite
    never takes part. Equal weights are ordered by name. The ``best`` candidates are chosen.

    Of three candidates the last has no job of the share and starts with one, although it weighs least:

    >>> none, no = np.zeros(3), np.zeros(3, dtype=bool)
    >>> load = Load(np.array([5.0, 5.0, 0.0]), none, none, none, none, no, none, none, no, ~no)
    >>> found = rank([np.array([0.5, 2.0, 0.1])], load, load_weights=[], cuts=[], best=2)
    >>> found.chosen.tolist(), found.cut.tolist(), cut_codes([])[found.cut[0]]
    ([2, 1], [0, -1, -1], 'low_weight')
    """
    weight, factors, cut = _weigh(None, load.defined.shape, fixed, load, load_weights, cuts, faults)
    passed = cut < 0
    feasible = passed.nonzero()[0]
    bootstrap = load.bootstrap & passed
    first = bootstrap if load.preferred is None else bootstrap | load.preferred
    order = _order(feasible, np.where(first, np.inf, weight))
    late = order[best:]
    if len(late):
        cut[late] = np.where(bootstrap[late], len(cuts) + 1, len(cuts))
    return Ranking(order[:best], weight, factors, cut, bootstrap)


def _order(feasible: Ints, measured: Floats) -> Ints:
    # names ascend, so a stable sort leaves ties, and the candidates that bootstrap, in the order of names
    return feasible[np.argsort(-measured[feasible], kind="stable")]


def _weigh(
    candidates: Bools | None,
    shape: tuple[int, ...],
    fixed: Sequence[Floats],
    load: Load,
    load_weights: Sequence[LoadWeight],
    cuts: Sequence[LoadCut],
    faults: list[RuleFault] | None,
) -> tuple[Floats, tuple[Floats, ...], AnyArray]:
    """Weights, moving factors and the first cut of each candidate (-1: none); None: all are candidates."""
    noted = faults if faults is not None else []
    factors = tuple(_answer(rule, partial(rule.factor, load), shape, np.float64, noted) for rule in load_weights)
    # one factor after the other, from the initial weight on: products in another order would round equal weights apart
    weight = np.ones(shape)
    for factor in (*factors, *fixed):
        weight *= factor
    # NaN compares false, so this rejects it along with negative and infinite weights
    finite = (weight >= 0) & (weight < np.inf)
    cut = np.where(finite, np.int16(-1), np.int16(len(cuts) + 2))
    for index, rule in enumerate(cuts):
        ask: Callable[..., AnyArray] = rule.keep
        if isinstance(rule, GroupCut):
            ask = partial(rule.keep_among, cut < 0 if candidates is None else candidates & (cut < 0))
        rejected = ~_answer(rule, partial(ask, load, weight), shape, np.bool_, noted)
        if rule.exempts_bootstrap:
            rejected &= ~load.bootstrap
        if rejected.any():
            cut[rejected & (cut < 0)] = index
    return weight, factors, cut


def _answer(
    rule: Rule, ask: Callable[[], AnyArray], shape: tuple[int, ...], dtype: type[np.generic], faults: list[RuleFault]
) -> AnyArray:
    """The answer of a rule in ``shape``; ones for a broken rule: no preference, and everything kept."""
    try:
        answer = np.asarray(ask())
        if answer.dtype != dtype:
            raise TypeError(f"answered with {answer.dtype}, not with {np.dtype(dtype)}")
        # nearly always it has the shape, and the check costs less than broadcasting
        return answer if answer.shape == shape else np.broadcast_to(answer, shape)
    except RULE_ERRORS as error:  # it has no effect
        faults.append(fault_of(rule, error))
        return np.ones(shape, dtype)


@dataclass(frozen=True)
class BlockRanking:
    """The rankings of T chunks at once, over all Q candidates.

    ``cut`` (T, Q) is as in :class:`Ranking`; it has no meaning where ``feasible`` is False. ``count`` (T,) is the
    number of chosen candidates.
    """

    feasible: Bools
    weight: Floats
    load_factors: tuple[Floats, ...]
    cut: AnyArray
    bootstrap: Bools
    count: Ints
    first: Bools  # candidates that come before all others, by name

    def of(self, row: int, feasible: Ints) -> Ranking:
        """The ranking of one chunk over its candidates ``feasible``, as :func:`rank` gives it."""
        weight, cut, bootstrap = self.weight[row, feasible], self.cut[row, feasible], self.bootstrap[row, feasible]
        order = _order(np.flatnonzero(cut < 0), np.where(self.first[row, feasible], np.inf, weight))
        factors = tuple(factor[row, feasible] for factor in self.load_factors)
        return Ranking(order, weight, factors, cut, bootstrap)


def rank_block(
    fixed: Sequence[Floats],
    feasible: Bools,
    load: Load,
    load_weights: Sequence[LoadWeight],
    cuts: Sequence[LoadCut],
    faults: list[RuleFault] | None = None,
    best: Ints | None = None,
    taking: Bools | None = None,
) -> BlockRanking:
    """Rank the candidates ``feasible`` (T, Q) of many chunks, ``best`` (T,) of each, as :func:`rank` does for one.

    Other queues, ``taking`` (T, Q), take a place among the best if they weigh enough, but are not chosen.
    """
    rivals = feasible if taking is None else feasible | taking
    weight, factors, cut = _weigh(rivals, rivals.shape, fixed, load, load_weights, cuts, faults)
    passed = rivals & (cut < 0)
    bootstrap = load.bootstrap & passed
    measured = np.where(passed, weight, -1.0)
    first = bootstrap if load.preferred is None else passed & (load.bootstrap | load.preferred)
    measured[first] = np.inf
    late = passed & ~_best_of_each(measured, passed, best)
    cut[late] = np.where(bootstrap[late], len(cuts) + 1, len(cuts))
    return BlockRanking(feasible, weight, factors, cut, bootstrap, (passed & feasible & ~late).sum(axis=1), first)


def _best_of_each(measured: Floats, passed: Bools, best: Ints | None) -> Bools:
    """(T, Q): the ``best`` (T,) largest of each row, nearly always the same number; BEST without it."""
    numbers = [BEST] if best is None else np.unique(best).tolist()
    if best is None or len(numbers) <= 1:
        return _best(measured, passed, *numbers)
    result = np.zeros_like(passed)
    for number in numbers:
        rows = np.flatnonzero(best == number)
        result[rows] = _best(measured[rows], passed[rows], number)
    return result


def _best(measured: Floats, passed: Bools, best: int = BEST) -> Bools:
    """(T, Q): the ``best`` largest of each row; ties go to the first by position.

    ``measured`` is -1 where a candidate did not pass:

    >>> measured = np.array([[3.0, 7.0, 7.0, 7.0], [-1.0, -1.0, 2.0, -1.0]])
    >>> _best(measured, measured >= 0, best=2).astype(int).tolist()
    [[0, 1, 1, 0], [0, 0, 1, 0]]
    """
    if measured.shape[1] <= best:
        return passed
    # the value of the last one taken; a row with fewer candidates has -1 there, which everything passes
    last = np.partition(measured, -best, axis=1)[:, [-best]]
    above = measured > last
    equal = (measured == last) & passed
    room = best - above.sum(axis=1, keepdims=True)
    return np.asarray(above | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= room)))
