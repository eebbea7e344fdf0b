"""The index over many tag expressions agrees with a separate evaluation of each."""

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


def parse(text: str) -> Tags:
    tags = parse_tags(text)
    assert tags is not None
    return tags


def test_the_index_agrees_with_each_expression() -> None:
    dice = random.Random(3)
    expressions = [parse(expression(dice, 5)) for _ in range(400)]
    index, true_results = TagIndex(expressions), 0
    for _ in range(200):
        tags = frozenset(dice.sample([*ATOMS, "unused"], dice.randint(0, 6)))
        results = index.holds(tags).tolist()
        assert results == [tag_expression.holds(tags) for tag_expression in expressions]
        true_results += sum(results)
    assert 0.2 < true_results / (200 * 400) < 0.8


def test_an_expression_with_too_many_alternatives_is_evaluated_separately() -> None:
    conjunction = " & ".join(f"(a{number} | b{number})" for number in range(8))
    assert MOST_ALTERNATIVES < 2**8 and alternatives(parse(conjunction), holds=True) is None
    index = TagIndex([parse(conjunction), parse("a0"), parse("a & ~a")])
    assert index.holds([f"a{number}" for number in range(8)]).tolist() == [True, True, False]
    assert index.holds(["a0", "a"]).tolist() == [False, True, False]


def test_no_expressions() -> None:
    assert TagIndex(()).holds(["a"]).tolist() == []
