"""The rows of ``broker.task_alternatives``: the ways in which a task may be run, in order of preference."""

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
    """Store the ways in which a task may be run."""
    rows = [
        {
            "task": jeditaskid,
            "position": position,
            "low": way.min_cores,
            "high": way.max_cores,
            "without": json.dumps(list(way.without_cores)),
            "memory": way.memory_mb,
            "disk": way.disk_mb,
            "wall": way.wall_s,
        }
        for position, way in enumerate(ways)
    ]
    if rows:
        connection.execute(_INSERT_ALTERNATIVES, rows)


def read(connection: sa.Connection, tasks: Sequence[int]) -> dict[int, tuple[WayToRun, ...]]:
    """The ways to run the tasks that have any, in order, by task."""
    ways_by_task: dict[int, list[WayToRun]] = {}
    for row in connection.execute(_READ_ALTERNATIVES, {"tasks": array_of(tasks)}):
        without = tuple(float(cores) for cores in row.without_cores)
        way = WayToRun(row.min_cores, row.max_cores, without, row.memory_mb, row.disk_mb, row.wall_s)
        ways_by_task.setdefault(row.jeditaskid, []).append(way)
    return {task: tuple(ways) for task, ways in ways_by_task.items()}
