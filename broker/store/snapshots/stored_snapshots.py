"""Snapshots, stored so that decisions can be replayed. Parts that snapshots share are stored once.

The sources of a stored snapshot are checked against their digests before the snapshot is built from them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker import __version__
from broker.errors import NOT_FOUND, BrokerError, NotFound
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import RawSource, Rows, SnapshotCorruptError, SourceState, decode
from broker.snapshot.snapshot import Snapshot, snapshot_id
from broker.snapshot.source_list import GRID_SOURCES
from broker.store.connection.plain_rows import tuples


class SnapshotLostError(BrokerError):
    """A snapshot is not as it was stored."""


class NoSuchSnapshot(SnapshotLostError, NotFound):
    """The snapshot was never stored, or is no longer kept."""

    exit_status = NOT_FOUND


_SAVE_PART = text("""
    INSERT INTO broker.snapshot_blobs (sha256, data) VALUES (:sha256, :data) ON CONFLICT (sha256) DO NOTHING""")

_MEND_PART = text("UPDATE broker.snapshot_blobs SET data = :data WHERE sha256 = :sha256 AND data <> :data")

_SAVE_SNAPSHOT = text("""
    INSERT INTO broker.snapshots AS s (id, taken_at, engine, sources)
    VALUES (:id, :taken_at, :engine, CAST(:sources AS jsonb)) ON CONFLICT (id) DO UPDATE SET taken_at = s.taken_at""")

# Existing parts are locked until the transaction ends, so that no cleanup removes them from under the new snapshot.
_LOCK_KNOWN_PARTS = text("SELECT sha256 FROM broker.snapshot_blobs WHERE sha256 = ANY(:wanted) FOR KEY SHARE")

_READ_LATEST_ID = text(
    "SELECT id FROM broker.snapshots WHERE taken_at BETWEEN :since AND :until ORDER BY taken_at DESC, id LIMIT 1"
)

# The last run with a snapshot of each agent, newest first: cycles without work store no snapshot.
_LAST_OF_AGENTS = text("""
    SELECT agent, run.id, run.taken_at
    FROM unnest(CAST(:agents AS text[])) AS agent, LATERAL (
        SELECT s.id, s.taken_at, r.started_at
        FROM broker.agent_runs AS r JOIN broker.snapshots AS s ON s.id = r.snapshot
        WHERE r.agent = agent.agent ORDER BY r.started_at DESC, r.id DESC LIMIT 1
    ) AS run ORDER BY run.started_at DESC, agent""")

_READ_SOURCES = text("SELECT sources FROM broker.snapshots WHERE id = :id")
_READ_HEADER = text("SELECT taken_at, engine, sources -> 'about' FROM broker.snapshots WHERE id = :id")
_READ_PARTS = text("SELECT sha256, data FROM broker.snapshot_blobs WHERE sha256 = ANY(:wanted)")


def save(
    connection: Connection,
    snapshot_id: str,
    taken_at: datetime,
    engine: str,
    parts: Mapping[str, tuple[str, bytes]],
    about: Mapping[str, Any] | None = None,
    *,
    repair: bool = False,
) -> None:
    """Store a snapshot once; each part is passed as its digest and its encoded form.

    ``about`` is stored with it, such as the state of each source. With ``repair`` stored parts that differ, for example
    because they were damaged, are written again: the caller has checked the parts that it passes.
    """
    hashes = {name: digest for name, (digest, _) in parts.items()}
    stored = set(connection.execute(_LOCK_KNOWN_PARTS, {"wanted": list(hashes.values())}).scalars())
    for digest, data in parts.values():
        if digest not in stored:
            connection.execute(_SAVE_PART, {"sha256": digest, "data": data})
        elif repair:
            connection.execute(_MEND_PART, {"sha256": digest, "data": data})
    sources = json.dumps({"parts": hashes, "about": dict(about or {})})
    connection.execute(_SAVE_SNAPSHOT, {"id": snapshot_id, "taken_at": taken_at, "engine": engine, "sources": sources})


def latest_id(connection: Connection, since: datetime, until: datetime) -> str | None:
    """The id of the newest stored snapshot taken between two instants; None if there is none."""
    identifier: str | None = connection.execute(_READ_LATEST_ID, {"since": since, "until": until}).scalar_one_or_none()
    return identifier


@dataclass(frozen=True)
class LastOfAgent:
    """The snapshot of the last run of an agent that stored one.

    Attributes:
        agent: its name.
        id: of the snapshot.
        taken_at: its instant (aware).
    """

    agent: str
    id: str
    taken_at: datetime


def last_of_agents(connection: Connection, agents: Iterable[str]) -> list[LastOfAgent]:
    """The last stored snapshot of each agent that has any, ordered by run, newest first."""
    return [LastOfAgent(*row) for row in tuples(connection, _LAST_OF_AGENTS, {"agents": sorted(agents)})]


@dataclass(frozen=True)
class Header:
    """The metadata of a stored snapshot: its instant (aware), who took it, and the state of each source."""

    taken_at: datetime
    engine: str
    about: Mapping[str, Any]


def header(connection: Connection, snapshot_id: str) -> Header:
    """The metadata of a stored snapshot.

    Raises:
        SnapshotLostError: the snapshot was never stored, or has been cleaned up.
    """
    row = connection.execute(_READ_HEADER, {"id": snapshot_id}).one_or_none()
    if row is None:
        remedy = "ask about a newer decision, or keep snapshots longer"
        raise NoSuchSnapshot(f"no snapshot {snapshot_id}", "broker.snapshots", remedy)
    return Header(row[0], row[1] or "", dict(row[2] or {}))


def about(connection: Connection, snapshot_id: str) -> tuple[datetime, dict[str, Any]]:
    """The instant of a snapshot, and what is stored with it, such as the state of each source.

    Raises:
        SnapshotLostError: the snapshot was never stored, or has been cleaned up.
    """
    stored = header(connection, snapshot_id)
    return stored.taken_at, dict(stored.about)


def read(connection: Connection, snapshot_id: str) -> dict[str, tuple[str, bytes]]:
    """The parts of a snapshot by name, as passed to :func:`save`. Decoding checks them against their digests.

    Raises:
        SnapshotLostError: the snapshot was never stored, or it or a part of it has been cleaned up.
    """
    sources = connection.execute(_READ_SOURCES, {"id": snapshot_id}).scalar_one_or_none()
    remedy = "ask about a newer decision, or keep snapshots longer"
    if sources is None:
        raise NoSuchSnapshot(f"no snapshot {snapshot_id}", "broker.snapshots", remedy)
    hashes: dict[str, str] = sources["parts"]
    rows = connection.execute(_READ_PARTS, {"wanted": list(hashes.values())})
    parts = {sha256: bytes(data) for sha256, data in rows}
    for name, sha256 in hashes.items():
        if sha256 not in parts:
            raise SnapshotLostError(f"part {name} of snapshot {snapshot_id} is lost", "broker.snapshot_blobs", remedy)
    return {name: (sha256, parts[sha256]) for name, sha256 in hashes.items()}


# The last snapshot of each time step.
_READ_STEPS = sa.text("""
    SELECT DISTINCT ON (date_bin(make_interval(secs => :step_s), taken_at, CAST(:since AS timestamptz)))
        taken_at, sources -> 'parts' ->> :source AS digest
    FROM broker.snapshots
    WHERE taken_at > :since AND taken_at <= :until AND sources -> 'parts' ? :source
    ORDER BY date_bin(make_interval(secs => :step_s), taken_at, CAST(:since AS timestamptz)), taken_at DESC""")
_READ_BLOBS = sa.text("SELECT sha256, data FROM broker.snapshot_blobs WHERE sha256 = ANY(:wanted)")


@dataclass(frozen=True)
class PartOfSnapshot:
    """A source of a snapshot: when the snapshot was taken (aware), and the digest under which the source is stored."""

    taken_at: datetime
    digest: str


def parts_over_time(
    connection: sa.Connection, source: str, since: datetime, until: datetime, step_s: float
) -> list[PartOfSnapshot]:
    """A source in the last snapshot of each time step between two instants (aware), oldest first."""
    span = {"source": source, "since": since, "until": until, "step_s": step_s}
    return [PartOfSnapshot(row.taken_at, row.digest) for row in connection.execute(_READ_STEPS, span)]


def read_parts(connection: sa.Connection, digests: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """The encoded sources with these digests, without those that are no longer stored."""
    for digest, data in connection.execute(_READ_BLOBS, {"wanted": list(digests)}):
        yield digest, bytes(data)


#: Stored columns by table of a source.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    read.name: read.columns_stored for source in GRID_SOURCES for read in source.reads
}


def missing_columns(sources: Mapping[str, RawSource]) -> tuple[str, ...]:
    """Columns of this version that the sources lack, as ``table.column``."""
    tables = [(table, rows) for source in sources.values() for table, rows in source.tables.items()]
    return tuple(f"{table}.{name}" for table, rows in tables for name in _missing(table, rows))


def completed(sources: Mapping[str, RawSource]) -> dict[str, RawSource]:
    """The sources with missing columns added as NULL, as if they were read from a database that lacks them."""
    return {
        name: RawSource(name, {table: _completed(table, rows) for table, rows in source.tables.items()}, source.newest)
        for name, source in sources.items()
    }


def _missing(table: str, rows: Rows) -> tuple[str, ...]:
    return tuple(name for name in COLUMNS.get(table, ()) if name not in rows.columns)


def _completed(table: str, rows: Rows) -> Rows:
    missing = _missing(table, rows)
    nulls = (None,) * len(missing)
    return Rows((*rows.columns, *missing), tuple((*row, *nulls) for row in rows.values)) if missing else rows


Parts = Mapping[str, tuple[str, bytes]]
"""The sources of a snapshot by name: digest and encoded form."""


@dataclass(frozen=True)
class EncodedSnapshot:
    """A stored snapshot.

    Attributes:
        id: its name.
        taken_at: its instant (aware).
        engine: version of the broker that took it.
        about: data stored with it, such as the state of each source.
        parts: its sources.
    """

    id: str
    taken_at: datetime
    engine: str
    about: Mapping[str, Any]
    parts: Parts

    def sources(self) -> dict[str, RawSource]:
        """Decode the sources, each checked against its digest, and all of them against the name of the snapshot.

        Raises:
            SnapshotCorruptError: a source does not match its digest, or the sources are not those of the snapshot.
        """
        sources = {}
        for name, (digest, data) in self.parts.items():
            try:
                sources[name] = decode(digest, data)
            except SnapshotCorruptError as error:
                raise SnapshotCorruptError(f"source {name}: {error}") from error
        own_id = snapshot_id(
            self.taken_at.astimezone(UTC), [(name, digest) for name, (digest, _) in self.parts.items()]
        )
        if own_id != self.id:
            raise SnapshotCorruptError(f"its sources are those of {own_id}")
        return sources

    def states(self) -> tuple[SourceState, ...]:
        """The recorded state of each source.

        Raises:
            SnapshotCorruptError: the states are not stored in a readable form.
        """
        try:
            return tuple(SourceState.from_json(state) for state in self.about.get("states", []))
        except (TypeError, AttributeError) as error:
            raise SnapshotCorruptError(f"the states of its sources cannot be read: {error}") from error

    def columns_not_stored(self) -> tuple[str, ...]:
        """Columns of sources that the version which took the snapshot did not store, as ``table.column``.

        Raises:
            SnapshotCorruptError: the snapshot is damaged.
        """
        return missing_columns(self.sources())

    def build(self) -> Snapshot:
        """Build the snapshot of the grid as the cycle saw it; columns that another version did not store count as NULL.

        Raises:
            SnapshotCorruptError: the snapshot is damaged.
        """
        sources = self.sources()
        try:
            known = sources if self.engine == __version__ else completed(sources)
            return build_snapshot(self.id, self.taken_at, known, self.states())
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SnapshotCorruptError(f"its sources are not those of this version: {error!r}") from error


def encoded_snapshot(connection: sa.Connection, identifier: str) -> EncodedSnapshot:
    """Read a stored snapshot without decoding it.

    Raises:
        SnapshotLostError: the snapshot, or a part of it, no longer exists.
    """
    stored = header(connection, identifier)
    parts = read(connection, identifier)
    return EncodedSnapshot(identifier, stored.taken_at, stored.engine, stored.about, parts)


def stored_snapshot(connection: sa.Connection, identifier: str) -> Snapshot:
    """Read and build the snapshot of the grid as the cycle that stored it saw it.

    Raises:
        SnapshotLostError: the snapshot no longer exists, or is damaged; the message names the source.
    """
    encoded = encoded_snapshot(connection, identifier)
    try:
        return encoded.build()
    except SnapshotCorruptError as error:
        raise SnapshotLostError(
            f"snapshot {identifier} cannot be read: {error}", "broker.snapshots", "ask about a newer decision"
        ) from error
