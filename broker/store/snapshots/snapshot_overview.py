"""Overview of stored snapshots: the size of each source, how many snapshots share it, and the number of decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import Connection

_PARTS = """
    part AS (
        SELECT s.id, one.name, one.sha256 FROM broker.snapshots AS s,
               jsonb_each_text(s.sources -> 'parts') AS one (name, sha256)),
    shared AS (SELECT sha256, count(DISTINCT id) AS snapshots FROM part GROUP BY sha256),
    size AS (SELECT sha256, octet_length(data) AS bytes FROM broker.snapshot_blobs)"""

_READ_SNAPSHOTS = text(f"""
    WITH {_PARTS},
    wanted AS (
        SELECT * FROM broker.snapshots WHERE taken_at >= coalesce(:since, '-infinity'::timestamptz)),
    kept AS (
        SELECT p.id, count(*) AS sources, coalesce(sum(z.bytes), 0) AS bytes, count(*) - count(z.bytes) AS lost,
               coalesce(sum(z.bytes) FILTER (WHERE h.snapshots = 1), 0) AS own_bytes
        FROM part AS p JOIN shared AS h USING (sha256) LEFT JOIN size AS z USING (sha256) GROUP BY p.id),
    decided AS (
        SELECT snapshot AS id, sum(size)::bigint AS decisions
        FROM (
            SELECT snapshot, 1 AS size FROM broker.stored_decisions
            UNION ALL SELECT snapshot, size FROM broker.decision_repeats
        ) AS every GROUP BY snapshot
    )
    SELECT w.id, w.taken_at, w.engine, w.sources -> 'about' -> 'states' AS states, k.sources, k.bytes, k.own_bytes,
           k.lost, coalesce(d.decisions, 0) AS decisions
    FROM wanted AS w LEFT JOIN kept AS k USING (id) LEFT JOIN decided AS d USING (id)
    ORDER BY w.taken_at, w.id""")  # noqa: S608 - constants of this module

_READ_SOURCES = text(f"""
    WITH {_PARTS}
    SELECT p.name, p.sha256, z.bytes, h.snapshots
    FROM part AS p JOIN shared AS h USING (sha256) LEFT JOIN size AS z USING (sha256)
    WHERE p.id = :id ORDER BY p.name""")  # noqa: S608 - as above

_ADD_UP_BYTES = text("SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM broker.snapshot_blobs")
_READ_NEWEST_ID = text("SELECT id FROM broker.snapshots ORDER BY taken_at DESC, id LIMIT 1")


@dataclass(frozen=True)
class SnapshotLine:
    """One stored snapshot.

    Attributes:
        id: its name.
        taken_at: its instant (aware).
        engine: version of the broker that took it.
        sources: number of its sources.
        bytes: compressed size of all its sources.
        own_bytes: compressed size of the sources that no other snapshot shares.
        lost: number of sources whose content is missing.
        decisions: number of stored decisions based on it.
        not_ok: states of the sources that were not in order, by name.
    """

    id: str
    taken_at: datetime
    engine: str
    sources: int
    bytes: int
    own_bytes: int
    lost: int
    decisions: int
    not_ok: Mapping[str, str]


@dataclass(frozen=True)
class SourceLine:
    """One source of a stored snapshot: digest, compressed size (None: lost), and how many snapshots have it."""

    name: str
    sha256: str
    bytes: int | None
    snapshots: int


def stored_snapshots(connection: Connection, since: datetime | None = None) -> list[SnapshotLine]:
    """The stored snapshots from ``since`` on, oldest first."""
    return [
        SnapshotLine(
            row.id,
            row.taken_at,
            row.engine or "",
            row.sources or 0,
            int(row.bytes or 0),
            int(row.own_bytes or 0),
            row.lost or 0,
            row.decisions,
            _not_ok(row.states or []),
        )
        for row in connection.execute(_READ_SNAPSHOTS, {"since": since})
    ]


def _not_ok(states: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {str(state.get("name")): str(state.get("state")) for state in states if state.get("state") != "ok"}


def sources_of(connection: Connection, snapshot_id: str) -> list[SourceLine]:
    """The sources of a snapshot, ordered by name; empty if the snapshot is not stored."""
    return [SourceLine(*row) for row in connection.execute(_READ_SOURCES, {"id": snapshot_id})]


def total_bytes(connection: Connection) -> int:
    """Total size of all sources of all snapshots in bytes, each counted once."""
    return int(connection.execute(_ADD_UP_BYTES).scalar_one())


def newest_id(connection: Connection) -> str | None:
    """The id of the newest stored snapshot; None if there is none."""
    identifier: str | None = connection.execute(_READ_NEWEST_ID).scalar_one_or_none()
    return identifier
