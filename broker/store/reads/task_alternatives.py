"""The rows of ``broker.task_alternatives``: the ways in which a task may be run, the one wanted most first."""

from __future__ import annotations

import json
from collections.abc import Sequence

import sqlalchemy as sa

from broker.domain.work import WayToRun
from broker.store.connection.array_transfer import array_of

_INSERT_ALTERNATIVES = sa.text("""
    INSERT INTO broker.task_alternatives
        (jeditaskid, position, min_cores, max_cores, without_cores, memory_mb, disk_mb, wall_s)
    VALUES (:task, :position, :low, :high, CAST(:without AS jsonb), :memory, :disk, :wall)""")
_READ_ALTERNATIVES = sa.text("""
    SELECT jeditaskid, min_cores, max_cores, without_cores, memory_mb, disk_mb, wall_s
    FROM broker.task_alternatives WHERE jeditaskid = ANY(CAST(:tasks AS bigint[])) ORDER BY jeditaskid, position""")


def add(connection: sa.Connection, jeditaskid: int, ways: Sequence[WayToRun]) -> None:
    """Keep the ways in which a task may be run."""
    rows = [
        {
            "task": jeditaskid,
            "position": position,
            "low": one.min_cores,
            "high": one.max_cores,
            "without": json.dumps(list(one.without_cores)),
            "memory": one.memory_mb,
            "disk": one.disk_mb,
            "wall": one.wall_s,
        }
        for position, one in enumerate(ways)
    ]
    if rows:
        connection.execute(_INSERT_ALTERNATIVES, rows)


def read(connection: sa.Connection, tasks: Sequence[int]) -> dict[int, tuple[WayToRun, ...]]:
    """The ways of those of ``tasks`` that have any, in order."""
    found: dict[int, list[WayToRun]] = {}
    for row in connection.execute(_READ_ALTERNATIVES, {"tasks": array_of(tasks)}):
        without = tuple(float(one) for one in row.without_cores)
        one = WayToRun(row.min_cores, row.max_cores, without, row.memory_mb, row.disk_mb, row.wall_s)
        found.setdefault(row.jeditaskid, []).append(one)
    return {task: tuple(ways) for task, ways in found.items()}
