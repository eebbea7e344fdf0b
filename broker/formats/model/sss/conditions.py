"""Conditions on one quantity: several elements of one name, joined by ``conj`` and put in parentheses by ``group``.

And binds tighter than Or. A positive ``group`` opens parentheses before its condition and a negative one closes them
behind it; where that does not balance, the opposite is tried, which is how the specification's own example is written.
Source: Scalable Systems Software Job Object Specification 3.0.3, examples of requirements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypeAlias

from broker.formats.model.sss.model import Property, Value

Operator = Literal["EQ", "NE", "LT", "GT", "LE", "GE", "Match"]
MAX_ALTERNATIVES = 64
MAX_PATTERN_CHARACTERS = 128
MAX_PARENTHESES = 64
PATTERN_FORM = "at most 128 characters: literals, . and [...], each with at most one of * + ?"

_OPPOSITE: dict[str, str] = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}


_PATTERN = re.compile(
    r"""(?:(?:[^\\()\[\]{}|^$*+?]|\\[^A-Za-z0-9]|\\[dwsDWS]|\[\^?\]?(?:[^\\\]\[]|\\[^A-Za-z0-9])*\])[*+?]?)+"""
)


class BadGroupsError(ValueError):
    """The ``group`` attributes cannot be read as parentheses; ``expected`` says what can."""

    expected = ""


class UnbalancedGroupsError(BadGroupsError):
    """They open and close different numbers of parentheses."""

    expected = "as many opened as closed"


class GroupsTooDeepError(BadGroupsError):
    """They nest deeper than any sensible document does."""

    expected = f"at most {MAX_PARENTHESES} inside each other"


class NotExpandableError(ValueError):
    """An expression with too many alternatives, or one that negates a pattern."""


@dataclass(frozen=True)
class Condition:
    """One comparison: the quantity of the condition, an operator, and a number or pattern.

    ``preference`` orders alternatives, higher first.
    """

    name: str
    operator: str
    value: Value
    preference: float = 0.0

    def negated(self) -> Condition:
        """The comparison that holds where this one does not."""
        if self.operator not in _OPPOSITE:
            raise NotExpandableError(f"a {self.operator} cannot be denied")
        return Condition(self.name, _OPPOSITE[self.operator], self.value, self.preference)


@dataclass(frozen=True)
class CompoundExpression:
    """Expressions joined by one conjunction."""

    conjunction: Literal["AND", "OR"]
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class NegatedExpression:
    """An expression that must not hold."""

    part: Expression


Expression: TypeAlias = Condition | CompoundExpression | NegatedExpression
_Token: TypeAlias = Condition | str


def expression_of(properties: Sequence[Property], values: Sequence[Value] | None = None) -> Expression:
    """The expression that properties of one name represent, in their order.

    Args:
        properties: at least one, all of one name.
        values: the quantities to compare with, in place of those that are written; one for each property.

    Raises:
        UnbalancedGroupsError: parentheses do not balance either way.
        GroupsTooDeepError: more than :data:`MAX_PARENTHESES` are open at once.
    """
    quantities = [prop.value for prop in properties] if values is None else list(values)
    groups = [int(prop.attributes.get("group", "0")) for prop in properties]
    if not _balanced(groups):
        groups = [-group for group in groups]
        if not _balanced(groups):
            raise UnbalancedGroupsError("group attributes do not balance under either sign convention")
    depth = max(accumulate(groups), default=0)
    if depth > MAX_PARENTHESES:
        raise GroupsTooDeepError(f"group attributes open {depth} parentheses inside each other")
    tokens: list[_Token] = []
    for position, (prop, value, group) in enumerate(zip(properties, quantities, groups, strict=True)):
        if position:
            tokens.append(prop.attributes.get("conj", "And"))
        tokens += ["("] * max(0, group)
        preference = float(prop.attributes.get("preference", "0"))
        tokens.append(Condition(prop.name, prop.attributes.get("op", "EQ"), value, preference))
        tokens += [")"] * max(0, -group)
    reader = _Reader(tokens)
    expression = reader.alternatives()
    if reader.position != len(tokens):
        raise UnbalancedGroupsError("group attributes do not balance under either sign convention")
    return expression


def is_pattern(text: str) -> bool:
    """Whether the text of a ``Match`` is one of the simple patterns: no groups, alternatives, anchors, references."""
    if len(text) > MAX_PATTERN_CHARACTERS or _PATTERN.fullmatch(text) is None:
        return False
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _balanced(groups: Sequence[int]) -> bool:
    depth = 0
    for group in groups:
        depth += group
        if depth < 0:
            return False
    return depth == 0


class _Reader:
    """Reads tokens by descent: alternatives of conjunctions of terms."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self.position = 0

    def _take(self, *words: str) -> str | None:
        token = self._tokens[self.position] if self.position < len(self._tokens) else None
        if isinstance(token, str) and token in words:
            self.position += 1
            return token
        return None

    def alternatives(self) -> Expression:
        parts = [self._conjunction()]
        while word := self._take("Or", "OrNot"):
            part = self._conjunction()
            parts.append(NegatedExpression(part) if word == "OrNot" else part)
        return parts[0] if len(parts) == 1 else CompoundExpression("OR", tuple(parts))

    def _conjunction(self) -> Expression:
        parts = [self._term()]
        while word := self._take("And", "AndNot"):
            part = self._term()
            parts.append(NegatedExpression(part) if word == "AndNot" else part)
        return parts[0] if len(parts) == 1 else CompoundExpression("AND", tuple(parts))

    def _term(self) -> Expression:
        if self._take("("):
            inside = self.alternatives()
            if self._take(")") is None:
                raise UnbalancedGroupsError("group attributes do not balance under either sign convention")
            return inside
        token = self._tokens[self.position] if self.position < len(self._tokens) else None
        if not isinstance(token, Condition):
            raise UnbalancedGroupsError("group attributes do not balance under either sign convention")
        self.position += 1
        return token


def holds(expression: Expression, quantity: float) -> bool:
    """Whether a quantity satisfies an expression of numbers."""
    match expression:
        case NegatedExpression(part):
            return not holds(part, quantity)
        case CompoundExpression("AND", parts):
            return all(holds(part, quantity) for part in parts)
        case CompoundExpression(_, parts):
            return any(holds(part, quantity) for part in parts)
        case Condition(_, operator, value, _):
            return isinstance(value, int | float) and _compare(quantity, operator, value)


def _compare(quantity: float, operator: str, value: float) -> bool:
    return {
        "EQ": quantity == value,
        "NE": quantity != value,
        "LT": quantity < value,
        "GT": quantity > value,
        "LE": quantity <= value,
        "GE": quantity >= value,
    }.get(operator, False)


def reported(expression: Expression) -> str:
    """The expression in words, with all its parentheses."""
    match expression:
        case NegatedExpression(part):
            return f"NOT {reported(part)}"
        case CompoundExpression(conjunction, parts):
            return "(" + f" {conjunction} ".join(reported(part) for part in parts) + ")"
        case Condition(name, operator, value, _):
            return f"{name} {operator} {value}"


def alternatives_of(expression: Expression) -> tuple[tuple[Condition, ...], ...]:
    """The expression as alternatives, each a set of comparisons that must all hold; the preferred ones first.

    Raises:
        NotExpandableError: there are more than :data:`MAX_ALTERNATIVES`.
    """
    alternatives = tuple(_expanded(expression, denied=False))
    # a stable sort: alternatives of equal preference stay in the order of the document
    return tuple(sorted(alternatives, key=lambda conditions: -max(condition.preference for condition in conditions)))


def _expanded(expression: Expression, *, denied: bool) -> list[tuple[Condition, ...]]:
    match expression:
        case Condition():
            return [(expression.negated() if denied else expression,)]
        case NegatedExpression(part):
            return _expanded(part, denied=not denied)
        case CompoundExpression(conjunction, parts):
            inside = [_expanded(part, denied=denied) for part in parts]
            if (conjunction == "OR") != denied:
                alternatives = [alternative for part in inside for alternative in part]
            else:
                alternatives = list(_products(inside))
            if len(alternatives) > MAX_ALTERNATIVES:
                raise NotExpandableError(f"more than {MAX_ALTERNATIVES} alternatives")
            return alternatives


def _products(parts: list[list[tuple[Condition, ...]]]) -> Iterator[tuple[Condition, ...]]:
    """Every choice of one alternative from each part."""
    products: list[tuple[Condition, ...]] = [()]
    for part in parts:
        products = [before + alternative for before in products for alternative in part]
        if len(products) > MAX_ALTERNATIVES:
            raise NotExpandableError(f"more than {MAX_ALTERNATIVES} alternatives")
    yield from products
