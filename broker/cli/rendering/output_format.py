"""The format that the reader asked for with ``--format``."""

from __future__ import annotations

from contextvars import ContextVar
from enum import StrEnum


class Format(StrEnum):
    """``table`` as much as fits; ``json`` one object a line; ``csv`` and ``wide`` every column."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    WIDE = "wide"


chosen: ContextVar[Format] = ContextVar("format", default=Format.TABLE)
"""The format of this invocation."""

tables: ContextVar[int] = ContextVar("tables", default=0)
"""How many tables this invocation has printed."""
