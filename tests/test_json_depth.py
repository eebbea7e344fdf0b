"""Depth of JSON texts."""

from __future__ import annotations

import pytest

from broker.json_depth import DEEPEST, is_too_deep


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("[" * DEEPEST + "]" * DEEPEST, False),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), True),
        ('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), True),
        ("[" + "[],{}," * 1000 + "1]", False),
        ('["' + "[" * 5000 + '"]', False),
        (r'["\"' + "[" * 5000 + r'\\"]', False),
        ("[" * 100_000, True),
        ("", False),
    ],
    ids=lambda value: str(value)[:12],
)
def test_depth(text: str, deep: bool) -> None:
    assert is_too_deep(text) is deep
