"""Ranking: weights, the cuts that depend on them, and the best candidates of a chunk.

Source: ATLAS Production Job Brokerage, weights and further filters; PanDA production brokerage, caps and ordering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.engine.evaluate import RuleFault
from broker.rules.contract import Load, LoadCut, LoadWeight, Rule

BEST = 10
LOW_WEIGHT, OTHERS_BOOTSTRAP, WEIGHT_UNKNOWN = "low_weight", "others_bootstrap", "weight_unknown"


@dataclass(frozen=True)
class Ranking:
    """The candidates of one chunk after weighing.

    Attributes:
        chosen: positions (into the arrays that were ranked), best first.
        weight: of every position; the product of its factors.
        load_factors: by position, one array a moving weight, in order.
        cut: for each position the index into ``cut_codes`` of what cut it, -1 where chosen.
        bootstrap: positions that have no jobs at all and come first.
    """

    chosen: Ints
    weight: Floats
    load_factors: tuple[Floats, ...]
    cut: AnyArray
    bootstrap: Bools


def cut_codes(cuts: Sequence[LoadCut]) -> tuple[str, ...]:
    """The codes for the indices of :attr:`Ranking.cut`."""
    return (*(cut.code for cut in cuts), LOW_WEIGHT, OTHERS_BOOTSTRAP, WEIGHT_UNKNOWN)


def rank(
    fixed: Sequence[Floats],
    load: Load,
    load_weights: Sequence[LoadWeight],
    cuts: Sequence[LoadCut],
    faults: list[RuleFault] | None = None,
    places: Ints | None = None,
) -> Ranking:
    """Rank the n candidates of one chunk, given in the order of their names, by factors ``fixed`` and moving ones.

    A candidate without any job bootstraps: it is not measured by its weight but put first. A weight that is not finite
    never takes part. Of equals the first by ``places`` (n,) goes first, without it the first by name.
    """
    weight, factors, cut = _weigh(load.defined.shape, fixed, load, load_weights, cuts, faults)
    left = np.flatnonzero(cut < 0)
    bootstrap = load.bootstrap & (cut < 0)
    order = _order(left, np.where(bootstrap, np.inf, weight), places)
    late = order[BEST:]
    cut[late] = np.where(bootstrap[late], len(cuts) + 1, len(cuts))
    return Ranking(order[:BEST], weight, factors, cut, bootstrap)


def _order(left: Ints, measured: Floats, places: Ints | None) -> Ints:
    # names ascend, so a stable sort leaves ties, and the candidates that bootstrap, in the order of names
    if places is not None:
        left = left[np.argsort(places[left], kind="stable")]
    return left[np.argsort(-measured[left], kind="stable")]


def _weigh(
    shape: tuple[int, ...],
    fixed: Sequence[Floats],
    load: Load,
    load_weights: Sequence[LoadWeight],
    cuts: Sequence[LoadCut],
    faults: list[RuleFault] | None,
) -> tuple[Floats, tuple[Floats, ...], AnyArray]:
    """Weights, moving factors and the first cut of each candidate (-1: none)."""
    noted = faults if faults is not None else []
    factors = tuple(_answer(rule, partial(rule.factor, load), shape, np.float64, noted) for rule in load_weights)
    # from the initial weight on, one factor after the other: products rounded in another order would part equal weights
    weight = np.ones(shape)
    for factor in (*factors, *fixed):
        weight *= factor
    # NaN compares false, so this catches it together with what is negative or infinite
    finite = (weight >= 0) & (weight < np.inf)
    cut = np.where(finite, np.int16(-1), np.int16(len(cuts) + 2))
    for index, rule in enumerate(cuts):
        rejected = ~_answer(rule, partial(rule.keep, load, weight), shape, np.bool_, noted)
        if rule.spares_bootstrap:
            rejected &= ~load.bootstrap
        if rejected.any():
            cut[rejected & (cut < 0)] = index
    return weight, factors, cut


def _answer(
    rule: Rule, ask: Callable[[], AnyArray], shape: tuple[int, ...], dtype: type[np.generic], faults: list[RuleFault]
) -> AnyArray:
    """What the rule says, in ``shape``; of a rule that is broken ones: no preference, and everything kept."""
    try:
        answer = np.asarray(ask())
        if answer.dtype != dtype:
            raise TypeError(f"answered with {answer.dtype}, not with {np.dtype(dtype)}")
        # nearly always it has the shape, and asking costs less than broadcasting
        return answer if answer.shape == shape else np.broadcast_to(answer, shape)
    except Exception as error:  # a broken rule must not stop the broker: it is counted and has no effect
        faults.append(RuleFault(rule.name, f"{type(error).__name__}: {error}"[:200]))
        return np.ones(shape, dtype)


@dataclass(frozen=True)
class BlockRanking:
    """The rankings of T chunks at once, over all Q candidates.

    ``cut`` (T, Q) is as in :class:`Ranking`; it means nothing where ``left`` is False. ``count`` (T,) is how many are
    chosen, ``places`` (Q,) what :func:`rank_block` was given.
    """

    left: Bools
    weight: Floats
    load_factors: tuple[Floats, ...]
    cut: AnyArray
    bootstrap: Bools
    count: Ints
    places: Ints | None = None

    def of(self, row: int, left: Ints) -> Ranking:
        """The ranking of one chunk over its candidates ``left``, as :func:`rank` gives it."""
        weight, cut, bootstrap = self.weight[row, left], self.cut[row, left], self.bootstrap[row, left]
        places = None if self.places is None else self.places[left]
        order = _order(np.flatnonzero(cut < 0), np.where(bootstrap, np.inf, weight), places)
        factors = tuple(np.broadcast_to(factor, self.weight.shape)[row, left] for factor in self.load_factors)
        return Ranking(order, weight, factors, cut, bootstrap)


def rank_block(
    fixed: Sequence[Floats],
    left: Bools,
    load: Load,
    load_weights: Sequence[LoadWeight],
    cuts: Sequence[LoadCut],
    faults: list[RuleFault] | None = None,
    places: Ints | None = None,
) -> BlockRanking:
    """Rank the candidates ``left`` (T, Q) of many chunks, with ``places`` (Q,); row by row the same as :func:`rank`."""
    weight, factors, cut = _weigh(left.shape, fixed, load, load_weights, cuts, faults)
    passed = left & (cut < 0)
    bootstrap = load.bootstrap & passed
    measured = np.where(passed, weight, -1.0)
    measured[bootstrap] = np.inf
    late = passed & ~_best(measured, passed, places)
    cut[late] = np.where(bootstrap[late], len(cuts) + 1, len(cuts))
    return BlockRanking(left, weight, factors, cut, bootstrap, (passed & ~late).sum(axis=1), places)


def _best(measured: Floats, passed: Bools, places: Ints | None) -> Bools:
    """(T, Q): the BEST largest of each row; of equals the first by place, else by position."""
    if measured.shape[1] <= BEST:
        return passed
    if places is not None:
        order = np.argsort(places, kind="stable")
        return _best(measured[:, order], passed[:, order], None)[:, np.argsort(order)]
    # the value of the last one taken; a row with fewer candidates has -1 there, which everything passes
    last = np.partition(measured, -BEST, axis=1)[:, [-BEST]]
    above = measured > last
    equal = (measured == last) & passed
    room = BEST - above.sum(axis=1, keepdims=True)
    return np.asarray(above | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= room)))
