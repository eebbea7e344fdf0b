"""The records of the copies in mode ``mirrored``: who makes them now, how old each is, and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.store.schema.migrate import MIRRORED

CLAIM = timedelta(minutes=3)
"""A program that has died holds its claim for this long after the last table that it read."""


@dataclass(frozen=True)
class CopyRecord:
    """One copy.

    Attributes:
        name: of the copy.
        part: the part of the copying that it belongs to.
        read_at: when its rows were read (aware); None: never.
        row_count: how many rows there are.
        read_s: seconds that reading and writing took.
        lacking: columns that PanDA's table does not have.
        failed_at: when it last could not be read (aware).
        failures: attempts since ``read_at`` that failed.
        error: why the last one did.
    """

    name: str
    part: str
    read_at: datetime | None
    row_count: int
    read_s: float | None
    lacking: tuple[str, ...]
    failed_at: datetime | None
    failures: int
    error: str


_CLAIM = sa.text("""
    INSERT INTO broker.mirror_parts AS p (part, started_at, claimed_until) VALUES (:part, :now, :until)
    ON CONFLICT (part) DO UPDATE SET started_at = :now, claimed_until = :until
    WHERE p.claimed_until <= :now AND p.started_at <= :not_after
    RETURNING part""")
_EXTEND = sa.text("UPDATE broker.mirror_parts SET claimed_until = :until WHERE part = :part")
_NOTE_READ = sa.text("""
    INSERT INTO broker.mirror_copies (name, part, read_at, row_count, read_s, sha256, lacking)
    VALUES (:name, :part, :now, :rows, :read_s, :sha256, :lacking)
    ON CONFLICT (name) DO UPDATE SET part = excluded.part, read_at = excluded.read_at, row_count = excluded.row_count,
        read_s = excluded.read_s, sha256 = excluded.sha256, lacking = excluded.lacking, failures = 0, error = ''""")
_NOTE_FAILED = sa.text("""
    INSERT INTO broker.mirror_copies AS m (name, part, failed_at, failures, error)
    VALUES (:name, :part, :now, 1, :error)
    ON CONFLICT (name) DO UPDATE
    SET failed_at = excluded.failed_at, failures = m.failures + 1, error = excluded.error""")
_READ_RECORDS = sa.text("""
    SELECT name, part, read_at, row_count, read_s, lacking, failed_at, failures, error
    FROM broker.mirror_copies ORDER BY part, name""")


def claim(connection: sa.Connection, part: str, now: datetime, every: timedelta) -> bool:
    """Whether the caller should copy ``part`` now: it is due, and no other process is copying it.

    Args:
        connection: of a short transaction.
        part: of the copying.
        now: the time (aware).
        every: the interval of copying; at least half of it passes between two beginnings.
    """
    values = {"part": part, "now": now, "until": now + CLAIM, "not_after": now - every / 2}
    return connection.execute(_CLAIM, values).first() is not None


def extend(connection: sa.Connection, part: str, until: datetime) -> None:
    """Extend a claim; a time that has passed releases it."""
    connection.execute(_EXTEND, {"part": part, "until": until})


def digest_of(connection: sa.Connection, name: str) -> str | None:
    """The digest of the rows of a copy as they were last read; None if there is none."""
    query = sa.text("SELECT sha256 FROM broker.mirror_copies WHERE name = :name AND read_at IS NOT NULL")
    sha256: str | None = connection.scalar(query, {"name": name})
    return sha256


def note_read(
    connection: sa.Connection,
    name: str,
    part: str,
    now: datetime,
    *,
    rows: int,
    read_s: float,
    sha256: str,
    lacking: Sequence[str] = (),
) -> None:
    """Record that a copy equals PanDA's table as of ``now`` (aware)."""
    values = {"rows": rows, "read_s": read_s, "sha256": sha256, "lacking": list(lacking)}
    connection.execute(_NOTE_READ, {"name": name, "part": part, "now": now, **values})


def note_failed(connection: sa.Connection, name: str, part: str, now: datetime, error: str) -> None:
    """Record that a copy could not be made at ``now`` (aware); the last one stays, and ages."""
    connection.execute(_NOTE_FAILED, {"name": name, "part": part, "now": now, "error": error[:500]})


def read_records(connection: sa.Connection) -> list[CopyRecord]:
    """All copies, by part and name."""
    rows = connection.execute(_READ_RECORDS)
    return [CopyRecord(**{**row._mapping, "lacking": tuple(row.lacking)}) for row in rows]


def copied_at(connection: sa.Connection) -> dict[str, datetime | None] | None:
    """When each copy was read (aware), by name; None in an installation that is not ``mirrored``."""
    query = sa.text("""
        SELECT i.mode, c.name, c.read_at FROM broker.installation AS i LEFT JOIN broker.mirror_copies AS c ON true""")
    rows = connection.execute(query).all()
    if not rows or rows[0].mode != MIRRORED:
        return None
    return {row.name: row.read_at for row in rows if row.name is not None}
