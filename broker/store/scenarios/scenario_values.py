"""Values of a scenario file to values of a column and back. No database here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from broker.errors import BrokerError

Converter = Callable[[Any], Any]

_INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
_SIZED = re.compile(r"character(?: varying)?\((\d+)\)")

JSON_IN_TEXT = frozenset({("sw_tags", "data"), ("task_evaluation", "value_json")})
"""Text columns that hold a JSON document: objects in a scenario file."""


class BadValue(BrokerError):
    """A value that its column cannot hold."""


def to_column(sql_type: str) -> Converter:
    """The conversion from a JSON value (never None) to what COPY sends to a column of ``sql_type``.

    The conversion raises :class:`BadValue` with the reason.
    """
    if sql_type in _INTEGER_BITS:
        return lambda value: _integer(value, _INTEGER_BITS[sql_type])
    if sql_type.startswith("timestamp"):
        aware = sql_type.endswith("with time zone")
        return lambda value: _time(value, aware)
    if sql_type in ("json", "jsonb"):
        return lambda value: _json(value, allow_nul=sql_type == "json")
    if sql_type.startswith("numeric") or sql_type == "double precision":
        return _number
    if sql_type == "boolean":
        return _boolean
    sized = _SIZED.fullmatch(sql_type)
    longest = int(sized[1]) if sized else None
    return lambda value: _text(value, longest)


def from_column(table: str, column: str, sql_type: str) -> Converter:
    """The conversion from what psycopg reads from a column (never None) to a JSON value."""
    if (table, column) in JSON_IN_TEXT:
        return json_document
    if sql_type.startswith("timestamp"):
        return lambda value: value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat()
    if sql_type.startswith("numeric"):
        return _plain
    if sql_type.startswith("character("):
        return lambda value: value.rstrip(" ")
    return lambda value: value


def parse_time(text: object) -> datetime:
    """An ISO 8601 time as an aware time in UTC; without an offset it is UTC.

    Raises:
        BadValue: it is not a time.
    """
    if not isinstance(text, str):
        raise BadValue(f"expected an ISO 8601 time, found {_shown(text)}")
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadValue(f"expected an ISO 8601 time, found {_shown(text)}") from error


def _integer(value: object, bits: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValue(f"expected a whole number, found {_shown(value)}")
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise BadValue(f"{_shown(value)} does not fit into {bits} bits")
    return value


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadValue(f"expected a number, found {_shown(value)}")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise BadValue(f"expected true or false, found {_shown(value)}")
    return value


def _time(value: object, aware: bool) -> datetime:
    time = parse_time(value)
    return time if aware else time.replace(tzinfo=None)


def _json(value: object, *, allow_nul: bool) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if not allow_nul and "\\u0000" in text:
        raise BadValue("the document holds a NUL character, which jsonb cannot store")
    return _encodable(text)


def _text(value: object, longest: int | None) -> str:
    if isinstance(value, dict | list):
        value = _json(value, allow_nul=True)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise BadValue(f"expected text, found {_shown(value)}")
    if "\0" in value:
        raise BadValue("the text holds a NUL character, which PostgreSQL cannot store")
    if longest is not None and len(value) > longest:
        raise BadValue(f"{len(value)} characters, the column takes {longest}")
    return _encodable(value)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadValue("the text holds half of a surrogate pair, which is not a character") from error
    return text


def json_document(text: str) -> Any:
    """The JSON object or list in a text column; any other text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict | list) else text


def _plain(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
