"""Convert values from drivers of PanDA's databases to those that columns of the mirror take.

Oracle returns numbers as Decimal, documents as text or parsed, times as naive UTC, and NULL for the empty text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from broker.domain.instants import naive

_INTEGERS = ("smallint", "integer", "bigint")
Converter = Callable[[Any], Any]


class BadCopiedValueError(ValueError):
    """A value that its column cannot hold; the message says which and why."""


def converter(column: str, sql_type: str, *, in_key: bool) -> Converter:
    """Return a converter from a driver's value to one that COPY can send to a column of ``sql_type``.

    Args:
        column: its name, for messages.
        sql_type: as the schema files declare it.
        in_key: whether it belongs to the primary key, where the empty text stands for Oracle's NULL.
    """
    kind = sql_type.split("(")[0].strip()
    if kind in _INTEGERS:
        return lambda value: None if value is None else _integer(column, value)
    if kind in ("numeric", "double precision", "real"):
        return lambda value: None if value is None else _number(column, value)
    if kind.startswith("timestamp"):
        return lambda value: None if value is None else _time(column, value)
    if kind in ("json", "jsonb"):
        return _document
    return lambda value: ("" if in_key else None) if value is None else _text(value)


def converted(rows: Iterable[Sequence[Any]], converters: Sequence[Converter]) -> list[tuple[Any, ...]]:
    """Convert all rows, each value by the converter of its column.

    Raises:
        BadCopiedValueError: a value does not fit.
    """
    return [tuple(convert(value) for convert, value in zip(converters, row, strict=True)) for row in rows]


def digest(rows: Iterable[Sequence[Any]]) -> str:
    """Return a digest that is the same for the same rows in any order."""
    row_digests = sorted(hashlib.sha256(repr(tuple(row)).encode("utf-8", "surrogatepass")).digest() for row in rows)
    return hashlib.sha256(b"".join(row_digests)).hexdigest()


def _integer(column: str, value: Any) -> int:
    if isinstance(value, str | float | Decimal) and float(value).is_integer():
        return int(value)
    if isinstance(value, int):
        return int(value)
    raise BadCopiedValueError(f"{column}: expected a whole number, found {str(value)[:40]!r}")


def _number(column: str, value: Any) -> int | float | Decimal:
    if isinstance(value, int | float | Decimal):
        return value
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise BadCopiedValueError(f"{column}: expected a number, found {str(value)[:40]!r}") from error


def _time(column: str, value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise BadCopiedValueError(f"{column}: expected a time, found {str(value)[:40]!r}")
    return naive(value)


def _document(value: Any) -> str | None:
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json.dumps(value)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value)
    if isinstance(value, float | Decimal) and float(value).is_integer():
        return str(int(value))
    return str(value)
