"""Workers, Harvester instances and nodes as rows. Source: PanDA data model, Harvester, worker nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.feeds.model.rows import MappedTable, compare
from broker.feeds.statements.table_writing import read_rows, write_changes
from broker.pilots.model.worker_reports import NodeReport, WorkerReport
from broker.store.connection.tables import Names, quoted

_PILOT_STATUS = """
UPDATE {panda}.harvester_workers
SET pilotstatus = CAST(:status AS text), nodeid = coalesce(:node, nodeid), pilotstatussynctime = :now,
    lastupdate = :now,
    pilotstarttime = CASE WHEN CAST(:status AS text) = 'started' THEN CAST(:now AS timestamp) ELSE pilotstarttime END,
    pilotendtime = CASE WHEN CAST(:status AS text) = 'finished' THEN CAST(:now AS timestamp) ELSE pilotendtime END
WHERE harvesterid = :harvester AND workerid = :worker"""
_SAVE_HEARTBEAT = """
INSERT INTO {panda}.harvester_instances AS known (harvester_id, description, owner, hostname, lastupdate, starttime,
    sw_version, commit_stamp)
VALUES (:harvester, 'automatic', :owner, :host, :now, :started, :version, :commit)
ON CONFLICT (harvester_id) DO UPDATE SET owner = excluded.owner, hostname = excluded.hostname,
    lastupdate = excluded.lastupdate, starttime = coalesce(excluded.starttime, known.starttime),
    sw_version = coalesce(excluded.sw_version, known.sw_version),
    commit_stamp = coalesce(excluded.commit_stamp, known.commit_stamp)"""
_NODE_QUEUE = """
INSERT INTO {panda}.worker_node_queue (site, host_name, panda_queue, last_seen)
VALUES (:site, :host_name, :queue, :now)
ON CONFLICT (site, host_name, panda_queue) DO UPDATE SET last_seen = excluded.last_seen"""


def note_pilot_status(
    connection: sa.Connection, names: Names, harvester: str, worker: int, status: str, node: str | None, now: datetime
) -> int:
    """Record the status that a pilot reports; 0 where its worker is not known, which is no error."""
    values = {"harvester": harvester, "worker": worker, "status": status, "node": node, "now": naive(now)}
    return connection.execute(sa.text(names.sql(_PILOT_STATUS)), values).rowcount


def write_worker(connection: sa.Connection, names: Names, harvester: str, report: WorkerReport, now: datetime) -> None:
    """Insert a worker, or update the columns that its report contains."""
    columns = {**report.columns, "lastupdate": naive(now)}
    _upsert(connection, names, "harvester_workers", {"harvesterid": harvester, "workerid": report.worker}, columns)


def note_heartbeat(
    connection: sa.Connection,
    names: Names,
    harvester: str,
    owner: str | None,
    host: str | None,
    data: Mapping[str, Any],
    now: datetime,
) -> None:
    """Record that a Harvester instance lives; ``data`` has started, version and commit, or None for each."""
    values = {"harvester": harvester, "owner": owner, "host": host, "now": naive(now), **data}
    connection.execute(sa.text(names.sql(_SAVE_HEARTBEAT)), values)


def write_worker_counts(connection: sa.Connection, names: Names, table: MappedTable, harvester: str) -> None:
    """Rewrite the counts of the queues that a report is about."""
    # two reports of one instance at once would insert the same rows
    connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"), {"name": harvester})
    before = read_rows(connection, names, table, [harvester])
    write_changes(connection, names, table, compare(before, table))


def write_node(connection: sa.Connection, names: Names, report: NodeReport, now: datetime) -> None:
    """Insert a node, or record that it was seen; a level of its CPU that was not known is filled in."""
    stamp = naive(now)
    seen = {"last_seen": stamp}
    _upsert(connection, names, "worker_node", report.key, {**report.columns, **seen}, fill_if_null=set(report.columns))
    if report.queue is not None:
        place = {"site": report.key["site"], "host_name": report.key["host_name"], "queue": report.queue}
        connection.execute(sa.text(names.sql(_NODE_QUEUE)), {**place, "now": stamp})


def write_gpus(connection: sa.Connection, names: Names, report: NodeReport, now: datetime) -> None:
    """Insert the GPUs of a node, or update all that is known of them."""
    _upsert(connection, names, "worker_node_gpus", report.key, {**report.columns, "last_seen": naive(now)})


def _upsert(
    connection: sa.Connection,
    names: Names,
    table: str,
    key: Mapping[str, Any],
    columns: Mapping[str, Any],
    fill_if_null: Collection[str] = (),
) -> None:
    """Insert a row or update it; a value of the columns ``fill_if_null`` is written only where it is NULL."""
    values = {**key, **columns}
    named = ", ".join(quoted(name) for name in values)
    settings = ", ".join(
        f"{quoted(name)} = coalesce(known.{quoted(name)}, excluded.{quoted(name)})"
        if name in fill_if_null
        else f"{quoted(name)} = excluded.{quoted(name)}"
        for name in columns
    )
    statement = (
        f"INSERT INTO {names.table(table)} AS known ({named}) "  # noqa: S608 - quoted names
        f"VALUES ({', '.join(f':{name}' for name in values)}) "
        f"ON CONFLICT ({', '.join(quoted(name) for name in key)}) DO UPDATE SET {settings}"
    )
    connection.execute(sa.text(statement), values)
