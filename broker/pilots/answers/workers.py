"""What pilots and Harvester report of workers and nodes, and the settings of queues that pilots read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.feeds.model.worker_statistics import worker_table
from broker.fetching.documents import Document
from broker.pilots.model.values import storable
from broker.pilots.model.worker_reports import NodeReport, WorkerRefused, WorkerReport, moment, read_worker
from broker.pilots.statements import queue_data as queue_rows, worker_rows
from broker.store.connection.database import Database

LIMIT_S = 10.0
_NOW = sa.text("SELECT clock_timestamp()")


def pilot_status(database: Database, harvester: str, worker: int, status: str, node: str | None) -> None:
    """Record that a pilot started or finished; one whose worker is not known is no error."""
    with database.within(LIMIT_S) as limited, limited.begin() as connection:
        worker_rows.note_pilot_status(connection, database.names, harvester, worker, status, node, _now(connection))


def update_workers(database: Database, harvester: str, workers: Sequence[Any]) -> list[bool]:
    """Record workers; return for each whether it was understood."""
    reports = [_understood(values) for values in workers]
    with database.within(LIMIT_S) as limited, limited.begin() as connection:
        now = _now(connection)
        # in one order, so that two reports do not wait for each other
        for report in sorted((one for one in reports if one is not None), key=lambda one: one.worker):
            worker_rows.write_worker(connection, database.names, harvester, report, now)
    return [one is not None for one in reports]


def heartbeat(database: Database, harvester: str, owner: str | None, host: str | None, data: Mapping[str, Any]) -> None:
    """Record that a Harvester instance lives.

    Raises:
        WorkerRefused: its start time is no time.
    """
    started = data.get("startTime")
    try:
        about = {
            "started": None if started is None else moment(started),
            "version": _cut(data.get("sw_version")),
            "commit": _cut(data.get("commit_stamp")),
        }
    except ValueError as error:
        raise WorkerRefused(f"startTime: {error}") from error
    with database.within(LIMIT_S) as limited, limited.begin() as connection:
        worker_rows.note_heartbeat(
            connection, database.names, harvester, _cut(owner), _cut(host), about, _now(connection)
        )


def worker_statistics(database: Database, harvester: str, queue: str, statistics: Any) -> str:
    """Rewrite the worker counts of a queue; return what is wrong with the report, empty if nothing."""
    report = {"harvester_id": harvester, "panda_queue": queue, "statistics": statistics}
    with database.within(LIMIT_S) as limited, limited.begin() as connection:
        table = worker_table(Document(report, "statistics", suspicious=True), _now(connection).astimezone(UTC))
        if table.dropped_rows:
            return "; ".join(f"{row.code}: {row.detail}" for row in table.dropped_rows)
        worker_rows.write_worker_counts(connection, database.names, table, harvester)
    return ""


def node(database: Database, report: NodeReport) -> None:
    """Record a worker node."""
    with database.within(LIMIT_S) as limited, limited.begin() as connection:
        worker_rows.write_node(connection, database.names, report, _now(connection))


def gpus(database: Database, report: NodeReport) -> None:
    """Record the GPUs of a worker node."""
    with database.within(LIMIT_S) as limited, limited.begin() as connection:
        worker_rows.write_gpus(connection, database.names, report, _now(connection))


def queue_data(database: Database, queue: str) -> dict[str, Any] | None:
    """The settings of a queue; None where there is none."""
    if storable(queue) != queue:
        return None
    with database.within(LIMIT_S) as limited, limited.read_snapshot() as connection:
        return queue_rows.queue_data(connection, database.names, queue)


def all_queue_data(database: Database) -> dict[str, dict[str, Any]]:
    """The settings of all queues, by name."""
    with database.within(LIMIT_S) as limited, limited.read_snapshot() as connection:
        return queue_rows.all_queue_data(connection, database.names)


def storage_data(database: Database) -> dict[str, dict[str, Any]]:
    """The endpoints, by name."""
    with database.within(LIMIT_S) as limited, limited.read_snapshot() as connection:
        return queue_rows.storage_data(connection, database.names)


def _understood(values: Any) -> WorkerReport | None:
    try:
        return read_worker(values)
    except WorkerRefused:
        return None


def _cut(value: Any) -> str | None:
    return None if value is None else storable(str(value))[:100]


def _now(connection: sa.Connection) -> datetime:
    now: datetime = connection.execute(_NOW).scalar_one()
    return now
