"""Base class and patterns of all settings of notifications."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Pattern = Annotated[str, Field(min_length=1, max_length=128)]
"""A word with ``*`` for any characters."""


class Terms(BaseModel):
    """Base of all settings of notifications: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def fits(word: str, patterns: Iterable[str]) -> bool:
    """Return whether a word matches one of the patterns, case-sensitively.

    >>> fits("queue_failing", ["queue_*"]), fits("Queue_failing", ["queue_*"]), fits("queue_failing", [])
    (True, False, False)
    """
    return any(fnmatchcase(word, pattern) for pattern in patterns)
