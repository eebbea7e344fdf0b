"""Scenario files: one JSON object ``{"now": ..., "tables": {name: [row, ...]}}``, plain or gzipped.

:func:`to_column` and :func:`from_column` convert values between scenario files and columns. Nothing here accesses a
database.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from broker.domain.instants import aware, naive
from broker.errors import FAILED, BrokerError, Refused

Converter = Callable[[Any], Any]

_INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
_SIZED = re.compile(r"character(?: varying)?\((\d+)\)")

JSON_IN_TEXT = frozenset({("sw_tags", "data"), ("task_evaluation", "value_json")})
"""Text columns that hold a JSON document, which is an object in a scenario file."""


class BadValue(BrokerError):
    """The column cannot hold the value."""


def to_column(sql_type: str) -> Converter:
    """The converter from a JSON value (never None) to the COPY value of a column of ``sql_type``.

    The converter raises :class:`BadValue` with the reason.
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
    max_length = int(sized[1]) if sized else None
    return lambda value: _as_text(value, max_length)


def from_column(table: str, column: str, sql_type: str) -> Converter:
    """The converter from a value that psycopg reads from a column (never None) to a JSON value."""
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
    """Parse an ISO 8601 time to an aware time in UTC; a time without an offset is in UTC.

    Raises:
        BadValue: the text is not a time.
    """
    if not isinstance(text, str):
        raise BadValue(f"expected an ISO 8601 time, found {_shown(text)}")
    try:
        time = datetime.fromisoformat(text)
        return aware(time)
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


def _as_text(value: object, max_length: int | None) -> str:
    if isinstance(value, dict | list):
        value = _json(value, allow_nul=True)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise BadValue(f"expected text, found {_shown(value)}")
    if "\0" in value:
        raise BadValue("the text holds a NUL character, which PostgreSQL cannot store")
    if max_length is not None and len(value) > max_length:
        raise BadValue(f"{len(value)} characters, the column takes {max_length}")
    return _encodable(value)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadValue("the text holds half of a surrogate pair, which is not a character") from error
    return text


def json_document(text: str) -> Any:
    """The JSON object or list in a text column; any other text unchanged."""
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


LARGEST_BYTES = 500_000_000
"""Largest unpacked size of a file. Larger ones are refused before they are read: objects take ten times the memory."""

_PIECE_BYTES = 1 << 20

Row = Mapping[str, Any]


class BadScenario(Refused):
    """The scenario is invalid, or cannot be stored."""


class UnreachableScenario(BadScenario):
    """The scenario file cannot be read or written at all."""

    exit_status = FAILED


@dataclass(frozen=True)
class Scenario:
    """A grid and its work at one instant.

    Attributes:
        now: the instant, aware.
        tables: rows by table; a column that a row leaves out is NULL.
    """

    now: datetime
    tables: Mapping[str, Sequence[Row]]

    @classmethod
    def of(cls, document: object, where: str = "the scenario") -> Scenario:
        """Check the outer shape of a document (rows are checked against the columns when they are loaded).

        Raises:
            BadScenario: the document has another shape.
        """
        remedy = 'write {"now": ISO-8601 time, "tables": {name: [row, ...]}}'
        if not isinstance(document, dict) or set(document) != {"now", "tables"}:
            raise BadScenario("not a scenario", where, remedy)
        tables = document["tables"]
        if not isinstance(tables, dict):
            raise BadScenario('"tables" is not an object', where, remedy)
        for name, rows in tables.items():
            if not isinstance(rows, list | tuple):
                raise BadScenario(f"table {name!r} is not a list of rows", where, remedy)
            for number, row in enumerate(rows, 1):
                if not isinstance(row, dict):
                    raise BadScenario("the row is not an object", f"table {name}, row {number}", remedy)
        try:
            return cls(parse_time(document["now"]), tables)
        except BadValue as error:
            raise BadScenario(error.what, f'"now" of {where}', remedy) from error

    def document(self) -> dict[str, Any]:
        """The scenario as the JSON document that is written to a file."""
        return {"now": naive(self.now).isoformat(), "tables": self.tables}


def read_scenario(path: Path) -> Scenario:
    """Read a scenario from a ``.json`` or ``.json.gz`` file.

    Raises:
        BadScenario: there is no such file, it is too large, or it is not a scenario.
    """
    return Scenario.of(read_document(path), str(path))


def read_document(path: Path) -> Any:
    """The JSON in a ``.json`` or ``.json.gz`` file.

    Raises:
        BadScenario: there is no such file, it is too large, or it is not JSON.
    """
    data = _read(path)
    try:
        return json.loads(data, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite)
    except BadValue as error:
        raise BadScenario(error.what, str(path), "correct the file") from error
    except (ValueError, RecursionError) as error:
        raise BadScenario(f"not JSON: {error}", str(path), "correct the file") from error


def write_scenario(path: Path, scenario: Scenario) -> None:
    """Write a ``.json`` or ``.json.gz`` file, one row per line; an interrupted run leaves no partial file.

    Raises:
        BadScenario: the file cannot be written.
    """
    write_text(path, _text(scenario))


def write_text(path: Path, text: str) -> None:
    """Write a file atomically, gzipped if its name ends with ``.gz``; an interrupted run leaves no partial file.

    Raises:
        BadScenario: the file cannot be written.
    """
    data = text.encode()
    if path.name.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UnreachableScenario(f"cannot write: {error.strerror}", str(path), "choose another file") from error


def _text(scenario: Scenario) -> str:
    document = scenario.document()
    tables = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]"
        for name, rows in document["tables"].items()
    ]
    return f'{{"now": {json.dumps(document["now"])}, "tables": {{\n' + ",\n".join(tables) + "\n}}\n"


def _read(path: Path) -> bytes:
    try:
        _refuse_large(path)
        with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadScenario(f"cannot read: {error}", str(path), "write it anew") from error
    except OSError as error:
        raise UnreachableScenario(f"cannot read: {error.strerror}", str(path)) from error
    if len(data) > LARGEST_BYTES:
        raise _too_large(path)
    return data


def _refuse_large(path: Path) -> None:
    """Refuse a file by its size on disk or, for gzip, by its unpacked size; a pipe is not checked.

    A few megabytes may unpack to terabytes, so the file is unpacked in pieces, only up to the limit, and none is kept.
    """
    if not path.is_file():
        return
    if not path.name.endswith(".gz"):
        if path.stat().st_size > LARGEST_BYTES:
            raise _too_large(path)
        return
    unpacked = 0
    with gzip.open(path) as stream:
        while piece := stream.read(_PIECE_BYTES):
            unpacked += len(piece)
            if unpacked > LARGEST_BYTES:
                raise _too_large(path)


def _too_large(path: Path) -> BadScenario:
    return BadScenario(f"larger than {LARGEST_BYTES:,} bytes when unpacked", str(path), "split the scenario")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise BadValue(f"the name {repeated!r} stands twice in one object")
    return members


def _refuse_constant(word: str) -> Any:
    raise BadValue(f"{word} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadValue(f"the number {text[:40]} is out of range")
    return value
