"""Raw sources: the rows from which a snapshot was built, as read.

A snapshot can be rebuilt from its raw sources at any time, so these are what is stored. Values are those of the
database driver: strings, numbers, booleans, aware or naive (UTC) times, decoded JSON, None for NULL.

Readers of single values return the value or raise :class:`BadValueError` with the reason.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from broker.codec.work_texts import read_json
from broker.domain.instants import aware
from broker.domain.work import DroppedRow
from broker.json_depth import is_too_deep

State = Literal["ok", "stale", "missing", "shrunk", "failed", "changed"]


@dataclass(frozen=True)
class SourceState:
    """The state of a source. ``age_s`` is the age of its newest row."""

    name: str
    state: State
    rows: int
    age_s: float | None
    limit_s: float | None
    dropped_rows: int = 0
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        """The state as JSON, as stored with a snapshot; the key ``dropped_rows`` predates its name here."""
        document = dataclasses.asdict(self)
        document["left_out"] = document.pop("dropped_rows")
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SourceState:
        """Read the JSON of :meth:`as_json` of this or an older version; unknown fields are ignored.

        Raises:
            TypeError: a field without a default is missing.
        """
        fields = {field.name for field in dataclasses.fields(cls)}
        values = {"dropped_rows" if name == "left_out" else name: value for name, value in document.items()}
        return cls(**{name: value for name, value in values.items() if name in fields})

    @property
    def usable(self) -> bool:
        """Whether rules may use it: present and fresh. For a shrunk source the last good reading stands in."""
        return self.state in ("ok", "shrunk")


#: Most bytes to which a stored source may unpack; a larger one is refused instead of filling the memory.
MAX_SOURCE_BYTES = 512 * 1024 * 1024


class SnapshotCorruptError(Exception):
    """The content of a stored source does not match its digest."""


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
        """The values of one column; empty if the rows lack it."""
        if name not in self.columns:
            return []
        place = self.columns.index(name)
        return [row[place] for row in self.values]


EMPTY = Rows((), ())


@dataclass(frozen=True)
class RawSource:
    """One source of a snapshot: its tables, and the time of its newest row (None if rows have no time)."""

    name: str
    tables: Mapping[str, Rows]
    newest: datetime | None = None

    @property
    def row_count(self) -> int:
        """Rows of all tables."""
        return sum(len(rows) for rows in self.tables.values())

    def rows(self, table: str) -> Rows:
        """The rows of a table of this source; empty if the source lacks it."""
        return self.tables.get(table, EMPTY)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"$time": aware(value).isoformat()}
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
        SnapshotCorruptError: the content does not match the digest, cannot be unpacked, or is larger than
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
        # most objects in a source are times; without any, nothing has to be restored
        body = json.loads(text, object_hook=_restore) if b'"$time"' in text else read_json(text)
        tables = {
            table: Rows(tuple(rows["columns"]), tuple(tuple(row) for row in rows["values"]))
            for table, rows in body["tables"].items()
        }
        return RawSource(body["name"], tables, body["newest"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SnapshotCorruptError(f"{name} is none: {error!r}") from error


#: A longer name is dropped, so that it cannot fill logs, tables and memory.
MAX_NAME_CHARACTERS = 256
#: A queue publishes a few kB; a document with more characters than this is not read.
MAX_JSON_CHARACTERS = 1_000_000
#: Most characters of a metric document: the one of users holds an entry for each user.
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
    """A string, or None for NULL; one that no database can hold (NUL, half of a surrogate pair) is refused."""
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
        BadValueError: too long, too deep, invalid JSON (including NaN and Infinity), a repeated key, or not an object.
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
    return aware(value).timestamp()


def instants_s(times: Iterable[Any], later_s: float = 0.0) -> set[float]:
    """These times as seconds since 1970 UTC, each shifted by ``later_s``; a value that is not a time is skipped."""
    known_times = {time for time in times if isinstance(time, datetime)}
    return {seconds(time, "") + later_s for time in known_times}


def known(value: float, field: str) -> float:
    """A number that must be present.

    Raises:
        BadValueError: it is NaN.
    """
    if math.isnan(value):
        raise BadValueError("missing", field, None)
    return value


def zero_if_null(value: float) -> float:
    """The number, or 0 for NaN: NULL counts as nothing."""
    return 0.0 if math.isnan(value) else value


def add_guarded(
    add: Callable[[dict[str, Any]], None],
    row: dict[str, Any],
    source: str,
    identifier: str,
    dropped_rows: list[DroppedRow],
) -> None:
    """Add a row; an unusable one is dropped with its reason."""
    try:
        add(row)
    except BadValueError as bad:
        dropped_rows.append(DroppedRow(source, identifier[:80], bad.code, str(bad)))
