"""The positions of the keys of a JSON text."""

from __future__ import annotations

import pytest

from broker.matching.json_language import place_of


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), "{"),
        (("a",), '"a": "'),
        (("b",), '"b": {"z"'),
        (("b", "a"), '"a" : 2'),
        (("c", 1), "{"),
        (("c", 1, "x,"), '"x,"'),
        (("c", 7), '"c"'),
        (("b", "gone", "a"), '"b": {"z"'),
        (("gone",), "{"),
        (("a", "b"), '"a"'),
        (("e", "a"), '"e"'),
    ],
)
def test_place_of(path: tuple[str | int, ...], expected: str) -> None:
    text = ' { "a": "\\"b\\": {", "b": {"z": [1, {"a": 0}], "a" : 2}, "c": [[], {"x,": 1}], "e": {} }'
    place = place_of(text, path)
    assert text[place:].startswith(expected)
