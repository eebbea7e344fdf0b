"""Split rules."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from broker.domain.split_rule import parse_split_rule


@pytest.mark.parametrize(
    ("text", "values", "malformed"),
    [
        (None, {}, ()),
        ("", {}, ()),
        (",,", {}, ()),
        ("TW=-1,NF=10", {"TW": -1, "NF": 10}, ()),
        (" TW=5 , MO=1", {"TW": 5, "MO": 1}, ()),
        ("TW=1,TW=2", {"TW": 1}, ()),
        ("TW", {}, ("TW",)),
        ("TW=", {}, ("TW=",)),
        ("TW=1.5,NF=3", {"NF": 3}, ("TW=1.5",)),
        ("tw=1", {}, ("tw=1",)),
        ("TWO=1", {}, ("TWO=1",)),
        ("TW = 1", {}, ("TW = 1",)),
        ("TW=1;NF=2", {}, ("TW=1;NF=2",)),
        ("x" * 1000, {}, ("x" * 40,)),
    ],
)
def test_parse(text: str | None, values: dict[str, int], malformed: tuple[str, ...]) -> None:
    rule = parse_split_rule(text)
    assert (rule.values, rule.malformed) == (values, malformed)


def test_look_up() -> None:
    rule = parse_split_rule("MO=0")
    assert rule.has("MO")
    assert not rule.has("TW")
    assert (rule.value("MO", 5), rule.value("TW"), rule.value("TW", 5)) == (0, 0, 5)


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    rule = parse_split_rule(text)
    assert all(len(token) == 2 for token in rule.values)
