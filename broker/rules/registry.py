"""Rules from outside this tree, found by entry point, and their place in a chain.

A distribution offers a rule in the entry point group ``broker.rules``; it takes part only when the profile names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint
from typing import TypeVar

from broker.resources import entry_points
from broker.rules.contract import (
    Filter,
    GroupFilter,
    LoadCut,
    LoadWeight,
    NucleusLoadWeight,
    Rule,
    Weight,
)

GROUP = "broker.rules"
JOB_KINDS = (Filter, GroupFilter, Weight, LoadWeight, LoadCut)
NUCLEUS_KINDS = (Filter, GroupFilter, Weight, NucleusLoadWeight)

RuleT = TypeVar("RuleT", bound=Rule)


class RuleError(Exception):
    """A requested rule does not exist or breaks the contract."""


def outside_rules() -> dict[str, EntryPoint]:
    """The rules that installed distributions offer, by name; nothing is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


def load_rule(name: str, offered: dict[str, EntryPoint]) -> Rule:
    """An instance of an outside rule.

    Raises:
        RuleError: no distribution offers it, it cannot be imported, or it breaks the contract.
    """
    point = offered.get(name)
    if point is None:
        known = ", ".join(sorted(offered)) or "none"
        raise RuleError(
            f"rule {name}: no installed distribution offers it (offered: {known}); install it or fix the profile"
        )
    try:
        rule = point.load()()
    except Exception as error:  # whatever an outside module raises on import is a fault of that rule
        raise RuleError(f"rule {name}: {point.value} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(rule, JOB_KINDS + NUCLEUS_KINDS):
        raise RuleError(
            f"rule {name}: {point.value} is no Filter, GroupFilter, Weight, LoadWeight or LoadCut, "
            "nor a Filter, GroupFilter, Weight or NucleusLoadWeight"
        )
    missing = [attribute for attribute in ("name", "code", "title") if not getattr(rule, attribute, None)]
    if missing or rule.name != name:
        fault = f"does not declare {', '.join(missing)}" if missing else f"calls itself {rule.name}"
        raise RuleError(f"rule {name}: {point.value} {fault}; see docs/how-to/add-a-rule.md")
    return rule


def placed(rules: Sequence[RuleT], rule: RuleT, after: str | None) -> tuple[RuleT, ...]:
    """The rules with one more: after the rule named ``after``, or at the end if that is None.

    Raises:
        RuleError: there is no rule of that name among them.
    """
    if after is None:
        return (*rules, rule)
    names = [other.name for other in rules]
    if after not in names:
        raise RuleError(f"rule {rule.name}: cannot be placed after {after}, which is not among {', '.join(names)}")
    index = names.index(after) + 1
    return (*rules[:index], rule, *rules[index:])


def without(rules: Iterable[RuleT], names: Iterable[str]) -> tuple[RuleT, ...]:
    """The rules except those of these names."""
    dropped = set(names)
    return tuple(rule for rule in rules if rule.name not in dropped)
