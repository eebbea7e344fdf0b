"""Tag expressions: their grammar in v0.1 and in the other profiles, their meaning, and termination for any text."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from broker.matching.specs.tags import DEEPEST, MOST_ATOMS, TagsRefused, parse_tags


@pytest.mark.parametrize(
    ("text", "tags", "holds"),
    [
        ("a", "a", True),
        ("a", "A", False),
        ("~a", "", True),
        ("~~a", "a", True),
        ("a & b", "a b", True),
        ("a & b", "a", False),
        ("a | b & c", "a", True),
        ("(a | b) & c", "a", False),
        ("~a & b | c", "c", True),
        ("~(a & b)", "a", True),
        ("a|b|c", "c", True),
        ("os:el9&~net:wan-degraded", "os:el9", True),
        ("True", "", False),
        ("True", "True", True),
        ("cvmfs:lhcb.cern.ch", "cvmfs:lhcb.cern.ch", True),
    ],
)
@pytest.mark.parametrize("v01", [True, False])
def test_the_meaning_of_an_expression(text: str, tags: str, holds: bool, v01: bool) -> None:
    expression = parse_tags(text, v01=v01)
    assert expression is not None and expression.holds(set(tags.split())) is holds


def test_an_empty_expression_holds_everywhere() -> None:
    assert parse_tags("") is None and parse_tags("", v01=True) is None and parse_tags("  ") is None


@pytest.mark.parametrize(
    ("text", "v01", "v02"),
    [
        ("a/b", False, True),
        ("_a", False, True),
        ("a and b", True, False),
        ("a or not b", True, False),
        ("not a", True, False),
        (" a", False, True),
        ("b & ~~a", True, True),
        ("a b", False, False),
        ("a &", False, False),
        ("& a", False, False),
        ("()", False, False),
        ("(a", False, False),
        ("a)", False, False),
        ("a + b", False, False),
        ("-a", False, False),
        ("a == b", False, False),
        ("a, b", False, False),
        ("a!", False, False),
        ("ü", False, False),
    ],
)
def test_the_two_grammars(text: str, v01: bool, v02: bool) -> None:
    for is_v01, is_accepted in ((True, v01), (False, v02)):
        if is_accepted:
            assert parse_tags(text, v01=is_v01) is not None
        else:
            with pytest.raises(TagsRefused):
                parse_tags(text, v01=is_v01)


def test_limits_of_length_depth_and_tags() -> None:
    assert parse_tags("a" * 4096) is not None
    assert parse_tags("(" * DEEPEST + "a" + ")" * DEEPEST) is not None
    assert parse_tags("&".join(f"t{n}" for n in range(MOST_ATOMS))) is not None
    for text in (
        "a" * 4097,
        "(" * (DEEPEST + 1) + "a" + ")" * (DEEPEST + 1),
        "&".join(f"t{n}" for n in range(MOST_ATOMS + 1)),
    ):
        with pytest.raises(TagsRefused):
            parse_tags(text)


def test_a_refusal_names_the_position() -> None:
    with pytest.raises(TagsRefused, match="character 5"):
        parse_tags("a & | b")


def test_the_text_of_an_expression_is_read_back_unchanged() -> None:
    generator = random.Random(37)
    for _ in range(500):
        text = _random_text(generator, 4)
        expression = parse_tags(text)
        assert expression is not None
        reparsed = parse_tags(str(expression))
        assert reparsed == expression and str(reparsed) == str(expression)
        for size in range(4):
            for tags in itertools.combinations("abc", size):
                assert reparsed.holds(tags) is _truth(text, set(tags))


def _random_text(generator: random.Random, depth: int) -> str:
    if depth == 0 or generator.random() < 0.2:
        return generator.choice("abc")
    if generator.random() < 0.3:
        return "~" + f"({_random_text(generator, depth - 1)})"
    sign = generator.choice(["&", " | ", "|", " & "])
    return f"({_random_text(generator, depth - 1)}){sign}({_random_text(generator, depth - 1)})"


def _truth(text: str, tags: set[str]) -> bool:
    signs = {"&": " and ", "|": " or ", "~": " not "} | {tag: str(tag in tags) for tag in "abc"}
    python_expression = "".join(signs.get(sign, sign) for sign in text)
    return bool(eval(python_expression.strip()))  # noqa: S307 - built here from letters and operators


def test_any_text_gives_an_expression_or_a_refusal() -> None:
    generator = random.Random(1)
    for _ in range(5000):
        text = "".join(generator.choices("ab&|~() _:/-\n", k=generator.randrange(30)))
        for v01 in (True, False):
            try:
                expression = parse_tags(text, v01=v01)
            except TagsRefused:
                continue
            assert (set() if expression is None else expression.atoms) == set(re.findall(r"[ab_:/-]+", text)), text
            assert expression is None or parse_tags(str(expression), v01=v01) == expression
