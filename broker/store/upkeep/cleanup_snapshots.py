"""Removing stored snapshots that no decision needs, and the parts of them that no other snapshot shares.

Parts are stored once under the hash of their content, so that a cycle may be about to use one that was left over. Who
stores a snapshot holds the parts that it found until its transaction ends; so a part is removed only when it could be
locked, and only if a look taken after that finds no snapshot with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa


@dataclass(frozen=True)
class RemovedSnapshots:
    """What a batch removed.

    Attributes:
        snapshots: how many.
        blobs: parts that went with them.
        size_bytes: of these parts.
    """

    snapshots: int = 0
    blobs: int = 0
    size_bytes: int = 0


_NEEDED = """(
    EXISTS (SELECT FROM broker.decisions AS d WHERE d.snapshot = s.id)
    OR EXISTS (SELECT FROM broker.decision_repeats AS r WHERE r.snapshot = s.id)
    OR EXISTS (SELECT FROM broker.decisions_unpacked AS u WHERE u.snapshot = s.id))"""
_USED = "EXISTS (SELECT FROM broker.snapshots AS s WHERE jsonb_path_query_array(s.sources, '$.parts.*') ? b.sha256)"

# The newest one stays: it says how large the sources of the next one should be.
_REMOVABLE = f"""
    FROM broker.snapshots AS s
    WHERE s.taken_at < :before AND s.taken_at < (SELECT max(taken_at) FROM broker.snapshots) AND NOT {_NEEDED}"""  # noqa: S608 - constants
_LOCK_REMOVABLE = sa.text(f"""
    SELECT s.id {_REMOVABLE}
    ORDER BY s.taken_at, s.id LIMIT :rows FOR UPDATE OF s SKIP LOCKED""")
_DELETE_SNAPSHOTS = sa.text(f"""
    DELETE FROM broker.snapshots AS s WHERE s.id = ANY(:ids) AND NOT {_NEEDED}
    RETURNING jsonb_path_query_array(s.sources, '$.parts.*')""")  # noqa: S608 - constants
_LOCK_BLOBS = sa.text("SELECT sha256 FROM broker.snapshot_blobs WHERE sha256 = ANY(:hashes) FOR UPDATE SKIP LOCKED")
_LOCK_UNUSED = sa.text(f"""
    SELECT b.sha256 FROM broker.snapshot_blobs AS b WHERE NOT {_USED}
    ORDER BY b.created_at, b.sha256 LIMIT :rows FOR UPDATE OF b SKIP LOCKED""")  # noqa: S608 - constants
_DELETE_BLOBS = sa.text(f"""
    DELETE FROM broker.snapshot_blobs AS b WHERE b.sha256 = ANY(:hashes) AND NOT {_USED}
    RETURNING octet_length(b.data)""")  # noqa: S608 - constants
_ADD_UP_BYTES = sa.text("SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM broker.snapshot_blobs")

_WOULD_GO = """
    SELECT s.id FROM broker.snapshots AS s
    WHERE s.taken_at < :before AND s.taken_at < (SELECT max(taken_at) FROM broker.snapshots)
      AND NOT EXISTS (
          SELECT FROM (
              SELECT snapshot, decided_at FROM broker.stored_decisions
              UNION ALL SELECT snapshot, decided_at FROM broker.decision_repeats
          ) AS d
          WHERE d.snapshot = s.id AND d.decided_at >= coalesce(CAST(:decisions_before AS timestamptz), '-infinity'))"""
_COUNT_REMOVABLE = sa.text(f"""
    WITH gone AS MATERIALIZED ({_WOULD_GO}), used AS MATERIALIZED (
        SELECT DISTINCT part.hash FROM broker.snapshots AS s, jsonb_each_text(s.sources -> 'parts') AS part (name, hash)
        WHERE s.id NOT IN (SELECT id FROM gone)
    )
    SELECT (SELECT count(*) FROM gone), count(*), coalesce(sum(octet_length(b.data)), 0)::bigint
    FROM broker.snapshot_blobs AS b WHERE b.sha256 NOT IN (SELECT hash FROM used)""")  # noqa: S608 - constants


def stored_bytes(connection: sa.Connection) -> int:
    """Bytes of all parts of snapshots."""
    return int(connection.execute(_ADD_UP_BYTES).scalar_one())


def kept(connection: sa.Connection) -> int:
    """How many snapshots there are."""
    return int(connection.execute(sa.text("SELECT count(*) FROM broker.snapshots")).scalar_one())


def kept_blobs(connection: sa.Connection) -> int:
    """How many parts of snapshots there are."""
    return int(connection.execute(sa.text("SELECT count(*) FROM broker.snapshot_blobs")).scalar_one())


def count_removable(connection: sa.Connection, before: datetime) -> int:
    """How many snapshots older than ``before`` no decision needs."""
    return int(connection.execute(sa.text(f"SELECT count(*) {_REMOVABLE}"), {"before": before}).scalar_one())


def count_unused_blobs(connection: sa.Connection) -> int:
    """How many parts belong to no snapshot."""
    statement = f"SELECT count(*) FROM broker.snapshot_blobs AS b WHERE NOT {_USED}"  # noqa: S608 - constants
    return int(connection.execute(sa.text(statement)).scalar_one())


def remove(connection: sa.Connection, before: datetime, rows: int) -> RemovedSnapshots:
    """Remove at most ``rows`` snapshots older than ``before`` that no decision needs, the oldest first."""
    ids = list(connection.execute(_LOCK_REMOVABLE, {"before": before, "rows": rows}).scalars())
    if not ids:
        return RemovedSnapshots()
    # A statement of its own: it sees what was decided while the rows were being locked.
    parts = list(connection.execute(_DELETE_SNAPSHOTS, {"ids": ids}).scalars())
    hashes = {hash_ for part in parts for hash_ in part}
    locked = connection.execute(_LOCK_BLOBS, {"hashes": sorted(hashes)}).scalars()
    sizes = _delete_blobs(connection, locked)
    return RemovedSnapshots(len(parts), len(sizes), sum(sizes))


def remove_unused_blobs(connection: sa.Connection, rows: int) -> RemovedSnapshots:
    """Remove at most ``rows`` parts that belong to no snapshot."""
    sizes = _delete_blobs(connection, connection.execute(_LOCK_UNUSED, {"rows": rows}).scalars())
    return RemovedSnapshots(0, len(sizes), sum(sizes))


def _delete_blobs(connection: sa.Connection, locked: Iterable[str]) -> list[int]:
    return list(connection.execute(_DELETE_BLOBS, {"hashes": list(locked)}).scalars())


def count(connection: sa.Connection, before: datetime, decisions_before: datetime | None) -> RemovedSnapshots:
    """What would go when the decisions older than ``decisions_before`` (None: none of them) have gone."""
    row = connection.execute(_COUNT_REMOVABLE, {"before": before, "decisions_before": decisions_before}).one()
    return RemovedSnapshots(*row)
