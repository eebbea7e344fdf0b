"""Factors of weights that do not change within a cycle, for a block of work and all its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from broker.domain.arrays import AnyArray, Floats, RowsByKind, taken_at
from broker.engine.shared.evaluate import RULE_ERRORS, RuleViews, fault_of
from broker.engine.shared.filter_cache import RuleFault
from broker.rules.contract import AnyPairs, Weight

#: A factor of each pair: what broadcasts to a block, or the few rows and columns that differ.
Factor = Floats | RowsByKind


def fixed_factors(
    rules: Sequence[Weight[Any]],
    pairs: AnyPairs,
    views: RuleViews,
    unusable: frozenset[str],
    faults: list[RuleFault],
    known: dict[str, Factor] | None = None,
) -> tuple[Factor, ...]:
    """The factor of each weight over the block; 1 where it cannot be known.

    Args:
        rules: in order.
        pairs: of the block.
        views: the values that each rule may read besides.
        unusable: sources by which nothing can be weighed now.
        faults: rules that fail are added.
        known: by name, factors of rules that are not evaluated again; new ones are added.
    """
    factors = []
    for rule in rules:
        factor = None if known is None else known.get(rule.name)
        if factor is None:
            noted = len(faults)
            factor = _factor(rule, pairs, views, unusable, faults)
            # each cycle records for itself that a rule fails
            if known is not None and len(faults) == noted:
                known[rule.name] = factor
        factors.append(factor)
    return tuple(factors)


def _factor(
    rule: Weight[Any], pairs: AnyPairs, views: RuleViews, unusable: frozenset[str], faults: list[RuleFault]
) -> Factor:
    if rule.name in views.broken or not unusable.isdisjoint(rule.sources):
        return np.ones((1, 1))
    try:
        answer = rule.factor(views.of(rule, pairs))
        if isinstance(answer, RowsByKind):
            if not answer.broadcasts_to(pairs.facts.initial.shape) or answer.table.dtype != np.float64:
                raise TypeError(f"factor answered with {answer.table.dtype} of shape {answer.shape}, not with factors")
            return answer
        factor = np.asarray(answer, dtype=np.float64)
        np.broadcast_to(factor, pairs.facts.initial.shape)
    except RULE_ERRORS as error:  # it weighs nothing
        faults.append(fault_of(rule, error))
        return np.ones((1, 1))
    return factor


def factor_at(factor: Factor, row: int, candidates: AnyArray) -> Floats:
    """(K,): a factor of one row of the block at some candidates.

    >>> factor_at(RowsByKind(np.array([[1.0, 2.0]]), column=np.array([0, 1, 1])), 0, np.array([0, 2])).tolist()
    [1.0, 2.0]
    """
    if isinstance(factor, RowsByKind):
        return factor.at_pairs(np.full(len(candidates), row), candidates)
    return taken_at(factor, row, candidates)


def factor_of_block(factor: Factor, shape: tuple[int, ...]) -> Floats:
    """(T, Q): a factor at every pair."""
    return np.broadcast_to(factor.every if isinstance(factor, RowsByKind) else factor, shape)
