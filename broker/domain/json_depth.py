"""How deep a JSON text nests, told before it is parsed: what a parser bears depends on its version."""

from __future__ import annotations

import re

import numpy as np

#: Nothing that the broker reads nests deeper than a handful of levels.
DEEPEST = 100

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_OPENING, _CLOSING = np.frombuffer(b"[{", np.uint8), np.frombuffer(b"]}", np.uint8)


def is_too_deep(text: str, deepest: int = DEEPEST) -> bool:
    """Whether objects and lists nest deeper than ``deepest``; linear in the length of the text."""
    if text.count("[") + text.count("{") <= deepest:
        return False
    marks = np.frombuffer(_STRING.sub("", text).encode("utf-8", "replace"), np.uint8)
    steps = np.isin(marks, _OPENING).astype(np.int64) - np.isin(marks, _CLOSING)
    return bool(np.cumsum(steps).max(initial=0) > deepest)
