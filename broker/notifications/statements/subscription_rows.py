"""Subscriptions to tasks as rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.store.connection.tables import Names

_TASK = "SELECT status, username FROM {panda}.jedi_tasks WHERE jeditaskid = :task"
_COUNT = sa.text("SELECT count(*) FROM broker.task_subscriptions WHERE jeditaskid = :task AND ended_at IS NULL")
_ADD = sa.text("""
    INSERT INTO broker.task_subscriptions (jeditaskid, channel, address, subscribed_at, subscribed_by)
    VALUES (:task, :channel, :address, :now, :by)
    ON CONFLICT (jeditaskid, channel, address) WHERE ended_at IS NULL DO NOTHING""")
_END = sa.text("""
    UPDATE broker.task_subscriptions SET ended_at = :now, ended_because = :why
    WHERE jeditaskid = :task AND channel = :channel AND address = :address AND ended_at IS NULL""")
_READ = sa.text("""
    SELECT jeditaskid, channel, address, subscribed_at, subscribed_by, told_waits_at, ended_at, ended_because
    FROM broker.task_subscriptions WHERE jeditaskid = :task ORDER BY id LIMIT 1000""")


def task_state(connection: sa.Connection, names: Names, task: int) -> tuple[str, str | None] | None:
    """Return status and user of a task; None if there is no such task."""
    row = connection.execute(sa.text(names.sql(_TASK)), {"task": task}).one_or_none()
    return None if row is None else (row.status, row.username)


def count_open(connection: sa.Connection, task: int) -> int:
    """Return how many subscriptions to a task are open."""
    return int(connection.execute(_COUNT, {"task": task}).scalar_one())


def add(connection: sa.Connection, task: int, channel: str, address: str, by: str, now: datetime) -> bool:
    """Subscribe; False if already subscribed."""
    values = {"task": task, "channel": channel, "address": address, "by": by, "now": now}
    return connection.execute(_ADD, values).rowcount == 1


def end(connection: sa.Connection, task: int, channel: str, address: str, why: str, now: datetime) -> bool:
    """End a subscription; False if there was none."""
    values = {"task": task, "channel": channel, "address": address, "why": why, "now": now}
    return connection.execute(_END, values).rowcount == 1


def read(connection: sa.Connection, task: int) -> list[dict[str, Any]]:
    """Return all subscriptions to a task by column, oldest first."""
    return [dict(row) for row in connection.execute(_READ, {"task": task}).mappings()]
