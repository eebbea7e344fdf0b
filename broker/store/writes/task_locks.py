"""Locking the tasks of a batch: a lock that another agent holds for a moment is waited for, a longer one is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

LOCK_WAIT_S = 2.0
"""Agents hold a task while they write its jobs. Who locks tasks waits for nothing else, so this cannot deadlock."""

_SKIP = " SKIP LOCKED"
_SHORT_WAIT = "SELECT set_config('lock_timeout', %s, true)"


def lock_tasks(
    connection: psycopg.Connection[Any],
    statement: str,
    values: Mapping[str, Any],
    tasks: Sequence[int],
    wait_s: float = LOCK_WAIT_S,
) -> list[tuple[Any, ...]]:
    """The rows of the tasks that are as the decisions saw them, locked; a task may be left out for that it is locked.

    Args:
        connection: in the transaction that writes.
        statement: selects rows, the number of the task first, and ends with ``FOR NO KEY UPDATE``.
        values: its parameters.
        tasks: that are wanted.
        wait_s: so long it is waited for each task that somebody else has locked.
    """
    rows = connection.execute(statement + _SKIP, values).fetchall()
    if len(rows) == len(set(tasks)):
        return rows
    limit = str(_scalar(connection, "SELECT current_setting('lock_timeout')"))
    connection.execute("SAVEPOINT waiting_for_tasks")
    try:
        connection.execute(_SHORT_WAIT, [f"{max(1, int(wait_s * 1000))}ms"])
        rows = connection.execute(statement, values).fetchall()
        connection.execute(_SHORT_WAIT, [limit])
    except psycopg.errors.LockNotAvailable:
        connection.execute("ROLLBACK TO SAVEPOINT waiting_for_tasks")
        rows = connection.execute(statement + _SKIP, values).fetchall()
    connection.execute("RELEASE SAVEPOINT waiting_for_tasks")
    return rows


def _scalar(connection: psycopg.Connection[Any], statement: str) -> object:
    row = connection.execute(statement).fetchone()
    return None if row is None else row[0]
