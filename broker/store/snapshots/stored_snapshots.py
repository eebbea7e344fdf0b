"""Snapshots, kept so that a decision can be asked again. Parts that two snapshots share are stored once."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker.errors import NOT_FOUND, BrokerError, NotFound


class SnapshotLostError(BrokerError):
    """A snapshot is not as it was stored."""


class NoSuchSnapshot(SnapshotLostError, NotFound):
    """A snapshot was never stored, or is not kept any more."""

    exit_status = NOT_FOUND


_SAVE_PART = text("""
    INSERT INTO broker.snapshot_blobs (sha256, data) VALUES (:sha256, :data) ON CONFLICT (sha256) DO NOTHING""")

_MEND_PART = text("UPDATE broker.snapshot_blobs SET data = :data WHERE sha256 = :sha256 AND data <> :data")

_SAVE_SNAPSHOT = text("""
    INSERT INTO broker.snapshots AS s (id, taken_at, engine, sources)
    VALUES (:id, :taken_at, :engine, CAST(:sources AS jsonb)) ON CONFLICT (id) DO UPDATE SET taken_at = s.taken_at""")

# What is found is held until the transaction ends, so that no clean-up takes it away from under the new snapshot.
_LOCK_KNOWN_PARTS = text("SELECT sha256 FROM broker.snapshot_blobs WHERE sha256 = ANY(:wanted) FOR KEY SHARE")

_READ_LATEST_ID = text(
    "SELECT id FROM broker.snapshots WHERE taken_at BETWEEN :since AND :until ORDER BY taken_at DESC, id LIMIT 1"
)

# Cycles without work store no snapshot: of each agent the last run that has one, newest first.
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
    """Store a snapshot, once: each part as its digest and its encoded form.

    ``about`` is kept with it, such as the state of each source. With ``repair`` the parts that are stored already are
    written again if they are not the same, as when one was damaged: the caller has checked those that it gives.
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
    """The id of the newest stored snapshot taken between two instants; None when there is none."""
    found: str | None = connection.execute(_READ_LATEST_ID, {"since": since, "until": until}).scalar_one_or_none()
    return found


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
    """The last stored snapshot of each agent that has any, that of the newest run first."""
    return [LastOfAgent(*row) for row in connection.execute(_LAST_OF_AGENTS, {"agents": sorted(agents)})]


@dataclass(frozen=True)
class Header:
    """What is kept of a snapshot beside its sources: its instant (aware), who took it, and the state of each source."""

    taken_at: datetime
    engine: str
    about: Mapping[str, Any]


def header(connection: Connection, snapshot_id: str) -> Header:
    """What is kept of a snapshot beside its sources.

    Raises:
        SnapshotLostError: it was never stored, or was cleared away.
    """
    row = connection.execute(_READ_HEADER, {"id": snapshot_id}).one_or_none()
    if row is None:
        remedy = "ask about a newer decision, or keep snapshots longer"
        raise NoSuchSnapshot(f"no snapshot {snapshot_id}", "broker.snapshots", remedy)
    return Header(row[0], row[1] or "", dict(row[2] or {}))


def about(connection: Connection, snapshot_id: str) -> tuple[datetime, dict[str, Any]]:
    """The instant of a snapshot, and what is kept with it such as the state of each source.

    Raises:
        SnapshotLostError: it was never stored, or was cleared away.
    """
    found = header(connection, snapshot_id)
    return found.taken_at, dict(found.about)


def read(connection: Connection, snapshot_id: str) -> dict[str, tuple[str, bytes]]:
    """The parts of a snapshot by name, as they were given to :func:`save`. Decoding checks them against their digests.

    Raises:
        SnapshotLostError: it was never stored, or was cleared away.
    """
    sources = connection.execute(_READ_SOURCES, {"id": snapshot_id}).scalar_one_or_none()
    remedy = "ask about a newer decision, or keep snapshots longer"
    if sources is None:
        raise NoSuchSnapshot(f"no snapshot {snapshot_id}", "broker.snapshots", remedy)
    hashes: dict[str, str] = sources["parts"]
    found = connection.execute(_READ_PARTS, {"wanted": list(hashes.values())})
    parts = {sha256: bytes(data) for sha256, data in found}
    for name, sha256 in hashes.items():
        if sha256 not in parts:
            raise SnapshotLostError(f"part {name} of snapshot {snapshot_id} is lost", "broker.snapshot_blobs", remedy)
    return {name: (sha256, parts[sha256]) for name, sha256 in hashes.items()}


# The last snapshot of each step of time.
_READ_STEPS = sa.text("""
    SELECT DISTINCT ON (date_bin(make_interval(secs => :step_s), taken_at, CAST(:since AS timestamptz)))
        taken_at, sources -> 'parts' ->> :source AS digest
    FROM broker.snapshots
    WHERE taken_at > :since AND taken_at <= :until AND sources -> 'parts' ? :source
    ORDER BY date_bin(make_interval(secs => :step_s), taken_at, CAST(:since AS timestamptz)), taken_at DESC""")
_READ_BLOBS = sa.text("SELECT sha256, data FROM broker.snapshot_blobs WHERE sha256 = ANY(:wanted)")


@dataclass(frozen=True)
class PartOfSnapshot:
    """A source as a snapshot has it: when that was taken (aware), and the digest under which the source is kept."""

    taken_at: datetime
    digest: str


def parts_over_time(
    connection: sa.Connection, source: str, since: datetime, until: datetime, step_s: float
) -> list[PartOfSnapshot]:
    """A source in the last snapshot of each step between two instants (aware), the oldest first."""
    span = {"source": source, "since": since, "until": until, "step_s": step_s}
    return [PartOfSnapshot(row.taken_at, row.digest) for row in connection.execute(_READ_STEPS, span)]


def read_parts(connection: sa.Connection, digests: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """The encoded sources of these digests; those that are no longer kept are not among them."""
    for digest, data in connection.execute(_READ_BLOBS, {"wanted": list(digests)}):
        yield digest, bytes(data)
