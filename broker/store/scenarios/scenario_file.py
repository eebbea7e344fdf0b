"""Scenario files: one JSON object ``{"now": ..., "tables": {name: [row, ...]}}``, plain or gzipped."""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from broker.errors import FAILED, Refused
from broker.store.scenarios.scenario_values import BadValue, parse_time

LARGEST_BYTES = 500_000_000
"""A file that is larger when unpacked is refused before any of it is kept: as objects it takes ten times the memory."""

_PIECE_BYTES = 1 << 20

Row = Mapping[str, Any]


class BadScenario(Refused):
    """A scenario that is not one, or that cannot be stored."""


class UnreachableScenario(BadScenario):
    """A scenario file that cannot be read or written at all."""

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
        """Checks the outer shape of a document (the rows are checked against the columns when they are loaded).

        Raises:
            BadScenario: it has another shape.
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
        """The scenario as it is written to a file."""
        return {"now": self.now.astimezone(UTC).replace(tzinfo=None).isoformat(), "tables": self.tables}


def read_scenario(path: Path) -> Scenario:
    """Reads a ``.json`` or ``.json.gz`` file.

    Raises:
        BadScenario: there is no such file, it is too large, or it is not a scenario.
    """
    return Scenario.of(read_document(path), str(path))


def read_document(path: Path) -> Any:
    """The JSON in a ``.json`` or ``.json.gz`` file.

    Raises:
        BadScenario: there is no such file, it is too large, or not JSON.
    """
    data = _read(path)
    try:
        return json.loads(data, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite)
    except BadValue as error:
        raise BadScenario(error.what, str(path), "correct the file") from error
    except (ValueError, RecursionError) as error:
        raise BadScenario(f"not JSON: {error}", str(path), "correct the file") from error


def write_scenario(path: Path, scenario: Scenario) -> None:
    """Writes a ``.json`` or ``.json.gz`` file, one row a line; an interrupted run leaves no half a file.

    Raises:
        BadScenario: the file cannot be written.
    """
    write_text(path, _text(scenario))


def write_text(path: Path, text: str) -> None:
    """Writes a file whole, gzipped if its name ends with ``.gz``; an interrupted run leaves no half a file.

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
    """Refuses a file by its size on disk, or piece by piece by what it unpacks to; a pipe has neither.

    A few megabytes may unpack to terabytes: only the pieces up to the limit are looked at, and none is kept.
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
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadValue(f"the name {twice!r} stands twice in one object")
    return found


def _refuse_constant(word: str) -> Any:
    raise BadValue(f"{word} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadValue(f"the number {text[:40]} is out of range")
    return value
