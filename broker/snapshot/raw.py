"""Raw sources: the rows that a snapshot was made from, as they were read.

A snapshot is rebuilt from its raw sources at any time, so these are what is kept. Values are those of the database
driver: strings, numbers, booleans, aware or naive (UTC) times, decoded JSON, None for NULL.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from broker.codec.work_texts import read_json

#: Bytes that one stored source may unpack to; a larger one is refused instead of filling the memory.
MAX_SOURCE_BYTES = 512 * 1024 * 1024


class SnapshotCorruptError(Exception):
    """A stored source does not have the content that its name promises."""


@dataclass(frozen=True)
class Rows:
    """Rows of one table: column names and values."""

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.values)

    def records(self) -> Iterator[dict[str, Any]]:
        """Each row as a dictionary by column name."""
        for row in self.values:
            yield dict(zip(self.columns, row, strict=True))

    def column(self, name: str) -> list[Any]:
        """The values of one column; none where the rows lack it."""
        if name not in self.columns:
            return []
        place = self.columns.index(name)
        return [row[place] for row in self.values]


EMPTY = Rows((), ())


@dataclass(frozen=True)
class RawSource:
    """One source of a snapshot: its tables, and the time of its newest row (None where rows carry no time)."""

    name: str
    tables: Mapping[str, Rows]
    newest: datetime | None = None

    @property
    def row_count(self) -> int:
        """Rows of all tables."""
        return sum(len(rows) for rows in self.tables.values())

    def rows(self, table: str) -> Rows:
        """The rows of a table of this source; none when the source does not have it."""
        return self.tables.get(table, EMPTY)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return {"$time": aware.astimezone(UTC).isoformat()}
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"a snapshot cannot hold a {type(value).__name__}")


def _restore(value: dict[str, Any]) -> Any:
    if len(value) == 1 and "$time" in value:
        return datetime.fromisoformat(value["$time"])
    return value


def encode(source: RawSource) -> tuple[str, bytes]:
    """The SHA-256 of a source's content and its compressed form; equal content gives equal bytes."""
    body = {
        "name": source.name,
        "newest": source.newest,
        "tables": {
            name: {"columns": list(rows.columns), "values": rows.values} for name, rows in sorted(source.tables.items())
        },
    }
    text = json.dumps(body, default=_plain, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(text).hexdigest(), zlib.compress(text, 3)


def decode(digest: str, data: bytes) -> RawSource:
    """The source stored as ``data`` under ``digest``.

    Raises:
        SnapshotCorruptError: the content is not that of the digest, cannot be unpacked, or is larger than
        MAX_SOURCE_BYTES.
    """
    name = f"the stored source {digest[:12]}"
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, MAX_SOURCE_BYTES)
    except zlib.error as error:
        raise SnapshotCorruptError(f"{name} cannot be unpacked: {error}") from error
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise SnapshotCorruptError(f"{name} is cut off, or unpacks to more than {MAX_SOURCE_BYTES} bytes")
    if hashlib.sha256(text).hexdigest() != digest:
        raise SnapshotCorruptError(f"{name} is not what its digest promises")
    try:
        # times make most of the objects of a source; without any, nothing has to be restored
        body = json.loads(text, object_hook=_restore) if b'"$time"' in text else read_json(text)
        tables = {
            table: Rows(tuple(rows["columns"]), tuple(tuple(row) for row in rows["values"]))
            for table, rows in body["tables"].items()
        }
        return RawSource(body["name"], tables, body["newest"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SnapshotCorruptError(f"{name} is none: {error!r}") from error
