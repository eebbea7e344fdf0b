"""Reading single values out of rows: each reader returns the value or raises :class:`BadValueError` with the reason."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from broker.domain.work import DroppedRow
from broker.json_depth import is_too_deep

#: A name longer than this is no name: it is dropped, so that it cannot fill logs, tables and memory.
MAX_NAME_CHARACTERS = 256
#: A queue publishes a few kB; a document of more characters than this is not read.
MAX_JSON_CHARACTERS = 1_000_000
#: Characters of one document of a metric: that of users holds an entry for each of them.
MAX_METRIC_CHARACTERS = 64_000_000


class BadValueError(ValueError):
    """A value that cannot be used; ``code`` names the kind of fault and ``field`` the column or key."""

    def __init__(self, code: str, field: str, value: Any) -> None:
        super().__init__(f"{field}: {code}: {str(value)[:60]!r}")
        self.code = code
        self.field = field


def number(value: Any, field: str, default: float = math.nan) -> float:
    """A finite number, given as a number or as decimal text; ``default`` for NULL or empty text."""
    if value is None or value == "":
        return default
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise BadValueError("wrong_type", field, type(value).__name__)
    if isinstance(value, str) and "_" in value:  # Python would read 1_000 as a number
        raise BadValueError("wrong_type", field, value)
    try:
        result = float(value)
    except (ValueError, OverflowError) as error:
        raise BadValueError("wrong_type", field, value) from error
    if not math.isfinite(result):
        raise BadValueError("not_finite", field, value)
    return result


def lenient_number(value: Any, field: str, default: float, faults: list[str]) -> float:
    """Like :func:`number`, but a bad value gives ``default`` and adds its fault to ``faults``."""
    try:
        return number(value, field, default)
    except BadValueError as bad:
        faults.append(str(bad))
        return default


def not_negative(value: Any, field: str) -> float:
    """A finite number of zero or more, NaN for NULL."""
    result = number(value, field)
    if result < 0:
        raise BadValueError("negative", field, value)
    return result


def text(value: Any, field: str) -> str | None:
    """A string, or None for NULL. One that no database can hold (NUL, half of a surrogate pair) is none."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadValueError("wrong_type", field, type(value).__name__)
    if "\0" in value or _has_surrogate(value):
        raise BadValueError("not_text", field, value)
    return value


def _has_surrogate(value: str) -> bool:
    return not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)


def name(value: Any, field: str) -> str:
    """A non-empty string of bounded length."""
    result = text(value, field)
    if not result:
        raise BadValueError("missing", field, value)
    if len(result) > MAX_NAME_CHARACTERS:
        raise BadValueError("too_long", field, result)
    return result


def json_object(value: Any, field: str, max_characters: int = MAX_JSON_CHARACTERS) -> dict[str, Any]:
    """A JSON object, given as text of at most ``max_characters``.

    Raises:
        BadValueError: too long, too deep, no JSON (NaN and Infinity are none), a key twice, or no object.
    """
    if not isinstance(value, str):
        raise BadValueError("wrong_type", field, type(value).__name__)
    if len(value) > max_characters:
        raise BadValueError("too_long", field, value)
    if is_too_deep(value):
        raise BadValueError("too_deep", field, value)
    try:
        document = json.loads(value, parse_constant=_no_constant, object_pairs_hook=_distinct_keys)
    except RecursionError as error:
        raise BadValueError("too_deep", field, value) from error
    except ValueError as error:
        raise BadValueError("invalid_json", field, error) from error
    if not isinstance(document, dict):
        raise BadValueError("wrong_type", field, type(document).__name__)
    return document


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key is there twice")
    return document


def _no_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def seconds(value: Any, field: str) -> float:
    """A time as seconds since 1970 UTC, NaN for NULL; a naive time is UTC."""
    if value is None:
        return math.nan
    if not isinstance(value, datetime):
        raise BadValueError("wrong_type", field, type(value).__name__)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return aware.timestamp()


def instants_s(times: Iterable[Any], later_s: float = 0.0) -> set[float]:
    """These times as seconds since 1970 UTC, each ``later_s`` later; a value that is no time is skipped."""
    known_times = {time for time in times if isinstance(time, datetime)}
    return {seconds(time, "") + later_s for time in known_times}


def known(value: float, field: str) -> float:
    """A number that must be there.

    Raises:
        BadValueError: it is NaN.
    """
    if math.isnan(value):
        raise BadValueError("missing", field, None)
    return value


def zero_if_null(value: float) -> float:
    """The number, 0 for NaN: NULL counts nothing."""
    return 0.0 if math.isnan(value) else value


def add_guarded(
    add: Callable[[dict[str, Any]], None],
    row: dict[str, Any],
    source: str,
    identifier: str,
    dropped_rows: list[DroppedRow],
) -> None:
    """Add up a row; one that cannot be used is dropped, with its reason."""
    try:
        add(row)
    except BadValueError as bad:
        dropped_rows.append(DroppedRow(source, identifier[:80], bad.code, str(bad)))
