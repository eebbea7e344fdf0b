from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.formats.model.sss.conditions import (
    Expression,
    NotExpandableError,
    UnbalancedGroupsError,
    alternatives_of,
    expression_of,
    holds,
    reported,
)
from broker.formats.model.sss.model import Property


def terms(*conditions: tuple[Any, ...]) -> list[Property]:
    """Properties for conditions of the form (value, op, conj, group)."""
    names = ("op", "conj", "group")
    return [
        Property("P", term[0], {name: str(value) for name, value in zip(names, term[1:], strict=False) if value})
        for term in conditions
    ]


def read(*conditions: tuple[Any, ...]) -> Expression:
    return expression_of(terms(*conditions))


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ([(12,)], "P EQ 12"),
        ([(12, "GE"), (24, "LE", "And")], "(P GE 12 AND P LE 24)"),
        ([(12,), (16, "EQ", "Or")], "(P EQ 12 OR P EQ 16)"),
        # And binds tighter than Or
        ([(1,), (2, "EQ", "Or"), (3, "GE", "And")], "(P EQ 1 OR (P EQ 2 AND P GE 3))"),
        # parentheses, in either convention of signs
        ([(1, "EQ", "", 1), (2, "EQ", "Or", -1), (3, "GE", "And")], "((P EQ 1 OR P EQ 2) AND P GE 3)"),
        ([(1, "EQ", "", -1), (2, "EQ", "Or", 1), (3, "GE", "And")], "((P EQ 1 OR P EQ 2) AND P GE 3)"),
        ([(1, "EQ", "", 2), (2, "EQ", "Or", -1), (3, "EQ", "Or", -1)], "((P EQ 1 OR P EQ 2) OR P EQ 3)"),
        ([(12, "GE"), (16, "EQ", "AndNot")], "(P GE 12 AND NOT P EQ 16)"),
        ([(12,), (16, "GE", "OrNot")], "(P EQ 12 OR NOT P GE 16)"),
        # the first conjunction is ignored
        ([(12, "EQ", "Or")], "P EQ 12"),
    ],
)
def test_the_meaning_of_conditions(conditions: list[tuple[Any, ...]], text: str) -> None:
    assert reported(read(*conditions)) == text


@pytest.mark.parametrize(
    "conditions",
    [
        [(1, "EQ", "", 1)],
        [(1, "EQ", "", -1)],
        [(1, "EQ", "", 1), (2, "EQ", "", 1)],
        [(1, "EQ", "", 2), (2, "EQ", "", -1)],
    ],
)
def test_parentheses_must_balance(conditions: list[tuple[Any, ...]]) -> None:
    with pytest.raises(UnbalancedGroupsError):
        read(*conditions)


@pytest.mark.parametrize(
    ("operator", "below", "same", "above"),
    [
        ("EQ", False, True, False), ("NE", True, False, True), ("LT", True, False, False),
        ("GT", False, False, True), ("LE", True, True, False), ("GE", False, True, True),
        ("Match", False, False, False),
    ],
)  # fmt: skip
def test_operators(operator: str, below: bool, same: bool, above: bool) -> None:
    expression = read((8, operator))
    assert [holds(expression, value) for value in (7, 8, 9)] == [below, same, above]


def test_preferred_alternatives_come_first_and_others_stay_in_order() -> None:
    properties = terms((1,), (2, "EQ", "Or"), (3, "EQ", "Or"))
    properties[2] = Property("P", 3, {"conj": "Or", "preference": "2"})
    alternatives = alternatives_of(expression_of(properties))
    assert [condition.value for (condition,) in alternatives] == [3, 1, 2]


def test_a_negated_conjunction_becomes_alternatives() -> None:
    alternatives = alternatives_of(read((1, "GE"), (2, "GE", "AndNot", 1), (3, "LE", "And", -1)))
    assert [[f"{term.operator} {term.value}" for term in way] for way in alternatives] == [
        ["GE 1", "LT 2"],
        ["GE 1", "GT 3"],
    ]


def test_too_many_alternatives_and_negated_patterns_are_refused() -> None:
    pairs = [(1, "EQ", "", 1), (2, "EQ", "Or", -1)] + [(1, "EQ", "And", 1), (2, "EQ", "Or", -1)] * 6
    with pytest.raises(NotExpandableError):
        alternatives_of(read(*pairs))
    with pytest.raises(NotExpandableError):
        alternatives_of(read((1,), ("x", "Match", "AndNot")))


TERM = st.tuples(
    st.integers(0, 5),
    st.sampled_from(["EQ", "NE", "LT", "GT", "LE", "GE"]),
    st.sampled_from(["And", "Or", "AndNot", "OrNot"]),
)


@given(st.lists(TERM, min_size=1, max_size=5), st.integers(0, 6))
def test_the_alternatives_hold_where_the_expression_does(conditions: list[tuple[int, str, str]], value: int) -> None:
    expression = read(*conditions)
    ways = alternatives_of(expression)
    assert holds(expression, value) == any(all(holds(condition, value) for condition in way) for way in ways)
