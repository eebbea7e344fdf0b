"""Versions of drivers and toolkits, compared component by component, and constraints on them.

``12.10`` is newer than ``12.9``, ``12`` and ``12.0`` are the same, and so are ``575.57.08`` and ``575.57.8``. What is
no version (``Unknown``, ``12.4 Update 1``) fulfils no constraint. Source: PanDA software and hardware matching, version
constraints; the order is that of Python's version specifiers.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
#: Operators that may precede a version; ``=`` means ``==``. Two characters are tried before one.
WRITTEN_OPERATORS = (*OPERATORS, "=")
#: A longer text is no version.
MAX_VERSION_CHARACTERS = 64

_VERSION = re.compile(
    r"v?(?P<numbers>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<stage>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<stage_number>\d*))?"
    r"(?:-(?P<patch>\d+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post>\d*))?"
    r"(?:[-_.]?dev[-_.]?(?P<dev>\d*))?",
    re.ASCII | re.IGNORECASE,
)
_STAGES = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_RELEASED = 3
_LAST = 1 << 62

Key = tuple[tuple[int, ...], tuple[int, int], int, int]


@lru_cache(maxsize=4096)
def version_key(text: str) -> Key | None:
    """Sort key of a version; None if the text is no version. Source: version specifiers (PEP 440)."""
    if len(text) > MAX_VERSION_CHARACTERS:
        return None
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    numbers = [int(part) for part in match["numbers"].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    post = match["patch"] or match["post"]
    after = -1 if post is None else int(post or 0)
    dev = _LAST if match["dev"] is None else int(match["dev"] or 0)
    stage = (_RELEASED, 0)
    if match["stage"] is not None:
        stage = (_STAGES[match["stage"].lower()], int(match["stage_number"] or 0))
    elif after < 0 and dev < _LAST:
        stage = (-1, 0)  # a development release comes before every other stage of its version
    return tuple(numbers), stage, after, dev


@dataclass(frozen=True, order=True)
class Constraint:
    """An operator and a version. An empty operator stands for a text that is no constraint: nothing fulfils it."""

    operator: str
    version: str

    @property
    def usable(self) -> bool:
        """Whether anything can fulfil it."""
        return self.operator in OPERATORS and version_key(self.version) is not None

    def fulfilled_by(self, value: str | None) -> bool:
        """Whether a value is known, is a version, and compares as the constraint requires."""
        if not value or not self.usable:
            return False
        mine, limit = version_key(value), version_key(self.version)
        return mine is not None and OPERATORS[self.operator](mine, limit)

    def __str__(self) -> str:
        return f"{self.operator}{self.version}"


_CONSTRAINT = re.compile(r"\s*(>=|<=|!=|==|>|<|=)\s*(.*?)\s*", re.DOTALL)


def read_constraint(text: str) -> Constraint:
    """The constraint in a text such as ``>=12.0``; one that nothing fulfils if there is no operator."""
    match = _CONSTRAINT.fullmatch(text)
    if match is None:
        return Constraint("", text.strip())
    written, version = match.groups()
    return Constraint("==" if written == "=" else written, version)
