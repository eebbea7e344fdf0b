"""Nesting depth of a JSON text, computed before parsing: what a parser accepts depends on its version."""

from __future__ import annotations

import re

import numpy as np

#: Nothing that the broker reads nests deeper than a handful of levels.
DEEPEST = 100

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_OPENING, _CLOSING = np.frombuffer(b"[{", np.uint8), np.frombuffer(b"]}", np.uint8)


def is_too_deep(text: str, deepest: int = DEEPEST) -> bool:
    """Whether objects and lists nest deeper than ``deepest``; linear in the length of the text.

    A text that hides its depth behind closing brackets inside strings may pass: the parser has its own limit.
    """
    if text.count("[") + text.count("{") <= deepest or _depth(text) <= deepest:
        return False
    return _depth(_STRING.sub("", text)) > deepest


def _depth(text: str) -> int:
    octets = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
    steps = ((octets == _OPENING[0]) | (octets == _OPENING[1])).astype(np.int8)
    steps -= (octets == _CLOSING[0]) | (octets == _CLOSING[1])
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))
