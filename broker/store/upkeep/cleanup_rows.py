"""Removing old rows of our own tables, and stored snapshots that no decision needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa


@dataclass(frozen=True)
class AgedRows:
    """One kind of rows with a limited retention time.

    Attributes:
        kind: its name in reports and in the options of the agent.
        table: name of a table of ours.
        time: the column that the age is counted from.
        also: a further condition on the row ``r``.
    """

    kind: str
    table: str
    time: str
    also: str = "true"

    def remove(self, connection: sa.Connection, before: datetime, rows: int) -> int:
        """Remove at most ``rows`` rows older than ``before``, oldest first, and return how many were removed."""
        values = {"before": before, "rows": rows}
        return connection.execute(sa.text(_DELETE_OLD_ROWS.format(**self._parts())), values).rowcount

    def count(self, connection: sa.Connection, before: datetime) -> int:
        """The number of rows older than ``before``."""
        return int(
            connection.execute(sa.text(_COUNT_OLD_ROWS.format(**self._parts())), {"before": before}).scalar_one()
        )

    def count_all(self, connection: sa.Connection) -> int:
        """The number of rows of any age."""
        return int(connection.execute(sa.text(_COUNT_ROWS.format(**self._parts()))).scalar_one())

    def _parts(self) -> dict[str, str]:
        return {"table": f"broker.{self.table}", "time": self.time, "also": self.also}


_DELETE_OLD_ROWS = """
    DELETE FROM {table} WHERE ctid = ANY(ARRAY(
        SELECT r.ctid FROM {table} AS r WHERE r.{time} < :before AND {also}
        ORDER BY r.{time} LIMIT :rows FOR UPDATE SKIP LOCKED))"""
_COUNT_ROWS = "SELECT count(*) FROM {table}"
_COUNT_OLD_ROWS = "SELECT count(*) FROM {table} AS r WHERE r.{time} < :before AND {also}"

# The last run of an agent stays, however old, because operators are shown it. It may also still be open.
_NOT_ITS_LAST = "EXISTS (SELECT FROM broker.agent_runs AS n WHERE n.agent = r.agent AND n.started_at > r.started_at)"

# Days with a partition are dropped whole; these are rows of days without one, and rows of older releases.
DECISIONS = AgedRows("decisions", "decisions_default", "decided_at")
OLD_DECISIONS = AgedRows("old_decisions", "decisions_unpacked", "decided_at")
DECISION_REPEATS = AgedRows("decision_repeats", "decision_repeats", "decided_at")
CHUNK_STATES = AgedRows("chunk_states", "chunk_states", "last_seen_at")
_UNUSED = "NOT EXISTS (SELECT FROM broker.decisions AS d WHERE d.legend = r.id)"
DECISION_LEGENDS = AgedRows("decision_legends", "decision_legends", "last_used_at", _UNUSED)
JOB_ACTIONS = AgedRows("job_actions", "job_actions", "acted_at")
AGENT_RUNS = AgedRows("agent_runs", "agent_runs", "started_at", _NOT_ITS_LAST)
REBROKERED_FROM = AgedRows("rebrokered_from", "rebrokered_from", "rebrokered_at")
#: Tables with what the agent ``outcomes`` has learned, which applies only to the scenario it was learned from.
LEARNED_TABLES = (
    "queue_record", "queue_failures", "queue_cores", "job_starts", "queue_health", "task_ends", "folded_ends",
    "outcomes_folded", "held_nodes", "failed_inputs", "held_jobs",
)  # fmt: skip
QUEUE_RECORD = AgedRows("queue_record", "queue_record", "hour")
QUEUE_FAILURES = AgedRows("queue_failures", "queue_failures", "hour")
QUEUE_CORES = AgedRows("queue_cores", "queue_cores", "hour")
JOB_STARTS = AgedRows("job_starts", "job_starts", "hour")
#: Forecasts of starts, and how they turned out.
FORECASTS = AgedRows("forecasts", "forecasts", "made_at")
#: Tables derived from failed and finished jobs: retries, and what their tasks request.
FAILURE_TABLES = ("failed_jobs", "retry_actions", "request_learned", "request_changes")
RETRY_ACTIONS = AgedRows("retry_actions", "retry_actions", "acted_at")
FAILED_JOBS = AgedRows("failed_jobs", "failed_jobs", "failed_at")
REQUEST_CHANGES = AgedRows("request_changes", "request_changes", "changed_at")
REQUEST_LEARNED = AgedRows("request_learned", "request_learned", "evaluated_at")
# Messages are removed with their incident; an incident with a waiting message stays.
_NONE_WAITS = "NOT EXISTS (SELECT FROM broker.notifications AS n WHERE n.incident = r.id AND n.state = 'waiting')"
INCIDENTS = AgedRows("incidents", "incidents", "resolved_at", _NONE_WAITS)
TASK_SUBSCRIPTIONS = AgedRows("task_subscriptions", "task_subscriptions", "ended_at")
DECISION_QUALITY = AgedRows("decision_quality", "decision_quality", "decided_at")
JOB_STATUS_REPORTS = AgedRows("job_status_reports", "job_status_reports", "reported_at")
# Expiries and heartbeats are times of the database's clock, which also decides that a lease or service has ended.
LEASES = AgedRows("leases", "leases", "expires_at", "r.expires_at < clock_timestamp()")
# Changes are removed with their run. The last run of each feed stays, because operators are shown it.
_NOT_ITS_LAST_FEED = "EXISTS (SELECT FROM broker.feed_runs AS n WHERE n.feed = r.feed AND n.started_at > r.started_at)"
FEED_RUNS = AgedRows("feed_runs", "feed_runs", "started_at", _NOT_ITS_LAST_FEED)
SANDBOXES = AgedRows("sandboxes", "sandboxes", "used_at")
# Only ended pilots have this time; their jobs are searched seven days back.
SUBMITTED_PILOTS = AgedRows("submitted_pilots", "submitted_pilots", "ended_at")
SERVICES = AgedRows("services", "services", "seen_at", "r.seen_at < clock_timestamp()")


@dataclass(frozen=True)
class RemovedSnapshots:
    """The result of a batch.

    Attributes:
        snapshots: number of removed snapshots.
        blobs: number of parts removed with them.
        size_bytes: size of these parts.
    """

    snapshots: int = 0
    blobs: int = 0
    size_bytes: int = 0


_NEEDED = """(
    EXISTS (SELECT FROM broker.decisions AS d WHERE d.snapshot = s.id)
    OR EXISTS (SELECT FROM broker.decision_repeats AS r WHERE r.snapshot = s.id)
    OR EXISTS (SELECT FROM broker.decisions_unpacked AS u WHERE u.snapshot = s.id))"""
_USED = "EXISTS (SELECT FROM broker.snapshots AS s WHERE jsonb_path_query_array(s.sources, '$.parts.*') ? b.sha256)"

# The newest snapshot stays, because it indicates how large the sources of the next one should be.
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
    """Total size of all parts of snapshots in bytes."""
    return int(connection.execute(_ADD_UP_BYTES).scalar_one())


def count_snapshots(connection: sa.Connection) -> int:
    """The number of snapshots."""
    return int(connection.execute(sa.text("SELECT count(*) FROM broker.snapshots")).scalar_one())


def count_blobs(connection: sa.Connection) -> int:
    """The number of parts of snapshots."""
    return int(connection.execute(sa.text("SELECT count(*) FROM broker.snapshot_blobs")).scalar_one())


def count_removable(connection: sa.Connection, before: datetime) -> int:
    """The number of snapshots older than ``before`` that no decision needs."""
    return int(connection.execute(sa.text(f"SELECT count(*) {_REMOVABLE}"), {"before": before}).scalar_one())


def count_unused_blobs(connection: sa.Connection) -> int:
    """The number of parts that belong to no snapshot."""
    statement = f"SELECT count(*) FROM broker.snapshot_blobs AS b WHERE NOT {_USED}"  # noqa: S608 - constants
    return int(connection.execute(sa.text(statement)).scalar_one())


def remove(connection: sa.Connection, before: datetime, rows: int) -> RemovedSnapshots:
    """Remove at most ``rows`` snapshots older than ``before`` that no decision needs, oldest first."""
    ids = list(connection.execute(_LOCK_REMOVABLE, {"before": before, "rows": rows}).scalars())
    if not ids:
        return RemovedSnapshots()
    # A separate statement, so that it sees decisions made while the rows were being locked.
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
    """What would be removed once decisions older than ``decisions_before`` (None: no decisions) are removed."""
    row = connection.execute(_COUNT_REMOVABLE, {"before": before, "decisions_before": decisions_before}).one()
    return RemovedSnapshots(*row)
