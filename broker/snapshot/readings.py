"""Reading single values out of rows: each reader returns the value or raises :class:`BadValue` with the reason."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

#: A name longer than this is no name: it is left out, so that it cannot fill logs, tables and memory.
MAX_NAME_CHARACTERS = 256


class BadValue(ValueError):
    """A value that cannot be used; ``code`` names the kind of fault and ``field`` the column or key."""

    def __init__(self, code: str, field: str, value: Any) -> None:
        super().__init__(f"{field}: {code}: {str(value)[:60]!r}")
        self.code = code
        self.field = field


def number(value: Any, field: str, default: float = math.nan) -> float:
    """A finite number, given as a number or as text; ``default`` for NULL or empty text."""
    if value is None or value == "":
        return default
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadValue("wrong_type", field, type(value).__name__)
    try:
        result = float(value)
    except (ValueError, OverflowError) as error:
        raise BadValue("wrong_type", field, value) from error
    if not math.isfinite(result):
        raise BadValue("not_finite", field, value)
    return result


def lenient_number(value: Any, field: str, default: float, faults: list[str]) -> float:
    """As :func:`number`, but a bad value gives ``default`` and its fault is added to ``faults``."""
    try:
        return number(value, field, default)
    except BadValue as bad:
        faults.append(str(bad))
        return default


def not_negative(value: Any, field: str) -> float:
    """A finite number of zero or more, NaN for NULL."""
    result = number(value, field)
    if result < 0:
        raise BadValue("negative", field, value)
    return result


def text(value: Any, field: str) -> str | None:
    """A string, or None for NULL."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadValue("wrong_type", field, type(value).__name__)
    return value


def name(value: Any, field: str) -> str:
    """A non-empty string of bounded length."""
    result = text(value, field)
    if not result:
        raise BadValue("missing", field, value)
    if len(result) > MAX_NAME_CHARACTERS:
        raise BadValue("too_long", field, result)
    return result


def mapping(value: Any, field: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise BadValue("wrong_type", field, type(value).__name__)
    return value


def seconds(value: Any, field: str) -> float:
    """A time as seconds since 1970 UTC, NaN for NULL; a naive time is UTC."""
    if value is None:
        return math.nan
    if not isinstance(value, datetime):
        raise BadValue("wrong_type", field, type(value).__name__)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return aware.timestamp()
