"""Factors of weights that stay as they are within a cycle, for a block of work and all its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from broker.domain.arrays import Floats
from broker.engine.shared.evaluate import RuleFault, RuleViews, fault_of
from broker.rules.contract import AnyPairs, Weight


def fixed_factors(
    rules: Sequence[Weight[Any]],
    pairs: AnyPairs,
    views: RuleViews,
    unusable: frozenset[str],
    faults: list[RuleFault],
    known: dict[str, Floats] | None = None,
) -> tuple[Floats, ...]:
    """The factor of each weight, broadcastable to the block; 1 where it cannot be known.

    Args:
        rules: in order.
        pairs: of the block.
        views: what each rule may see besides.
        unusable: sources by which nothing can be weighed now.
        faults: to which rules are added that fail.
        known: by name, factors of rules that are not asked again; those of the others are put there.
    """
    found = []
    for rule in rules:
        factor = None if known is None else known.get(rule.name)
        if factor is None:
            noted = len(faults)
            factor = _factor(rule, pairs, views, unusable, faults)
            # each cycle notes for itself that a rule fails
            if known is not None and len(faults) == noted:
                known[rule.name] = factor
        found.append(factor)
    return tuple(found)


def _factor(
    rule: Weight[Any], pairs: AnyPairs, views: RuleViews, unusable: frozenset[str], faults: list[RuleFault]
) -> Floats:
    if rule.name in views.broken or not unusable.isdisjoint(rule.sources):
        return np.ones((1, 1))
    try:
        factor = np.asarray(rule.factor(views.of(rule, pairs)), dtype=np.float64)
        np.broadcast_to(factor, pairs.facts.initial.shape)
    except Exception as error:  # a broken rule must not stop the broker: it is counted and weighs nothing
        faults.append(fault_of(rule, error))
        return np.ones((1, 1))
    return factor
