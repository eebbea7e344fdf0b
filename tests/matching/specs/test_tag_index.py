"""Many expressions over tags together against each by itself."""

from __future__ import annotations

import random

from broker.matching.specs.tag_index import MOST_ALTERNATIVES, TagIndex, alternatives
from broker.matching.specs.tags import Tags, parse_tags

ATOMS = "abcdef"


def expression(dice: random.Random, depth: int) -> str:
    if not depth or dice.random() < 0.3:
        return dice.choice(ATOMS)
    if dice.random() < 0.3:
        return f"~({expression(dice, depth - 1)})"
    return f"({expression(dice, depth - 1)} {dice.choice('&|')} {expression(dice, depth - 1)})"


def parsed(text: str) -> Tags:
    found = parse_tags(text)
    assert found is not None
    return found


def test_each_expression_holds_where_it_does_by_itself() -> None:
    dice = random.Random(3)
    expressions = [parsed(expression(dice, 5)) for _ in range(400)]
    index, held = TagIndex(expressions), 0
    for _ in range(200):
        tags = frozenset(dice.sample([*ATOMS, "unused"], dice.randint(0, 6)))
        found = index.holds(tags).tolist()
        assert found == [one.holds(tags) for one in expressions]
        held += sum(found)
    assert 0.2 < held / (200 * 400) < 0.8


def test_an_expression_with_too_many_alternatives_is_looked_at_by_itself() -> None:
    many = " & ".join(f"(a{number} | b{number})" for number in range(8))
    assert MOST_ALTERNATIVES < 2**8 and alternatives(parsed(many), holds=True) is None
    index = TagIndex([parsed(many), parsed("a0"), parsed("a & ~a")])
    assert index.holds([f"a{number}" for number in range(8)]).tolist() == [True, True, False]
    assert index.holds(["a0", "a"]).tolist() == [False, True, False]


def test_no_expressions() -> None:
    assert TagIndex(()).holds(["a"]).tolist() == []
