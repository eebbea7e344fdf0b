"""Removal of user names from responses to requests without a token. Pure."""

from __future__ import annotations

import re
from typing import Any

FIELDS = frozenset(
    {
        "editor",
        "dn",
        "ended_by",
        "owner",
        "prodanalid",
        "produserid",
        "produsername",
        "subject",
        "user",
        "username",
    }
)
"""Fields that hold the name of a person."""
HIDDEN = "***"
_IN_TASK_NAME = re.compile(r"\b(user)\.[^.\s/\"']+(?=[.\s/\"']|$)")
_SHORTEST = 2
"""Shortest name to search for in sentences; names of one letter would leave nothing of them."""


def hidden(document: Any) -> Any:
    """``document`` (plain JSON) with ``***`` in place of each user name, also in sentences and task names."""
    names: set[str] = set()
    _collect(document, names)
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if len(name) >= _SHORTEST)
    return _without(document, re.compile(rf"(?<!\w)(?:{pattern})(?!\w)") if pattern else None)


def _collect(document: Any, names: set[str]) -> None:
    if isinstance(document, dict):
        for name, value in document.items():
            if name.lower() in FIELDS and isinstance(value, str):
                names.add(value)
            else:
                _collect(value, names)
    elif isinstance(document, list):
        for item in document:
            _collect(item, names)


def _without(document: Any, pattern: re.Pattern[str] | None) -> Any:
    if isinstance(document, dict):
        return {
            name: HIDDEN if name.lower() in FIELDS and isinstance(value, str) else _without(value, pattern)
            for name, value in document.items()
        }
    if isinstance(document, list):
        return [_without(item, pattern) for item in document]
    if isinstance(document, str):
        shown = pattern.sub(HIDDEN, document) if pattern is not None else document
        shown = _IN_TASK_NAME.sub(rf"\1.{HIDDEN}", shown) if "user." in shown else shown
        # markup stays markup: plain text would be escaped where it is inserted
        return type(document)(shown) if hasattr(document, "__html__") else shown
    return document
