"""The nodes whose pilots temporarily get no jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.store.connection.plain_rows import tuples

_FORGET = sa.text("""
    DELETE FROM broker.held_nodes AS h WHERE NOT (:holding AND EXISTS (
        SELECT FROM broker.queue_health AS q
        WHERE (q.queue, q.node) = (h.queue, h.node) AND q.state = 'excluded' AND q.until_s > :now_s))""")
# a node that fails for both kinds of jobs is held until the later instant
_HOLD = sa.text("""
    INSERT INTO broker.held_nodes AS h (queue, node, held_until, failed, ended, tasks)
    SELECT queue, node, to_timestamp(max(until_s)), sum(failed), sum(ended), max(cardinality(tasks))
    FROM broker.queue_health WHERE node <> '' AND state = 'excluded' AND until_s > :now_s GROUP BY queue, node
    ON CONFLICT (queue, node) DO UPDATE
    SET held_until = excluded.held_until, failed = excluded.failed, ended = excluded.ended, tasks = excluded.tasks
    WHERE (h.held_until, h.failed, h.ended, h.tasks)
        IS DISTINCT FROM (excluded.held_until, excluded.failed, excluded.ended, excluded.tasks)""")


_READ = sa.text("""
    SELECT queue, node, held_until, failed, ended, tasks FROM broker.held_nodes
    WHERE held_until > :now AND (CAST(:queue AS text) IS NULL OR queue = :queue) ORDER BY queue, node""")


@dataclass(frozen=True)
class HeldNode:
    """A node whose pilots get no jobs until an instant, with the numbers of its failed jobs and their tasks."""

    queue: str
    node: str
    held_until: datetime
    failed: int
    ended: int
    tasks: int


def read_held(connection: sa.Connection, now: datetime, queue: str | None = None) -> list[HeldNode]:
    """The nodes held at an instant (aware), of all queues or one."""
    return [HeldNode(*row) for row in tuples(connection, _READ, {"now": now, "queue": queue})]


def hold_nodes(connection: sa.Connection, now: datetime, *, holding: bool) -> int:
    """Hold the nodes that are closed now, if ``holding``, and release all others; return the number of held nodes."""
    connection.execute(_FORGET, {"now_s": now.timestamp(), "holding": holding})
    if holding:
        connection.execute(_HOLD, {"now_s": now.timestamp()})
    return int(connection.scalar(sa.text("SELECT count(*) FROM broker.held_nodes")) or 0)
