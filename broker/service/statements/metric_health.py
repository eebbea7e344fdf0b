"""Overall health for the metrics: closed queues, pauses, the plug-in, messages, jobs, the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.store.connection.tables import Names
from broker.store.service.agent_pauses import BRAKE

_CLOSED = sa.text("""
    SELECT state, count(DISTINCT queue) FROM broker.queue_health WHERE node = '' AND state <> 'healthy'
    GROUP BY state ORDER BY state""")
_HELD = sa.text("""
    SELECT queue, count(*) FROM broker.held_nodes WHERE held_until > clock_timestamp() GROUP BY queue ORDER BY queue""")
_PAUSED = sa.text("""
    SELECT agent, CASE WHEN editor = :brake THEN 'brake' ELSE 'operator' END FROM broker.agent_pauses
    WHERE ended_at IS NULL AND until > clock_timestamp() ORDER BY 1""")
_PLUGIN = sa.text("""
    SELECT hour, brokerage, outcome, reason, calls FROM broker.plugin_calls
    WHERE hour > clock_timestamp() - interval '3 hours'""")
_MESSAGES = sa.text("""
    SELECT channel,
        CASE WHEN state = 'waiting' AND tries > 0 THEN 'failing' ELSE state END AS state, count(*)
    FROM broker.notifications WHERE ended_at IS NULL OR ended_at > clock_timestamp() - interval '1 day'
    GROUP BY 1, 2 ORDER BY 1, 2""")
_STREAMS = sa.text("""
    SELECT channel, sent, lost, CASE WHEN tries > 0 THEN 1 ELSE 0 END, (
        SELECT count(*) FROM (SELECT FROM broker.decisions AS d WHERE d.id > s.position LIMIT 100000) AS later)
    FROM broker.decision_streams AS s ORDER BY channel""")
_ALARMS_ACKNOWLEDGED = sa.text("""
    SELECT count(*) FROM broker.acknowledged_alarms WHERE ended_at IS NULL AND until > clock_timestamp()""")
_SIZE = sa.text("SELECT pg_database_size(current_database())")
_JOBS = """
    SELECT coalesce(vo, ''), coalesce(gshare, ''), jobstatus, count(*) FROM {panda}.jobsactive4
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


@dataclass(frozen=True)
class Health:
    """The overall health at one instant.

    Attributes:
        closed: queues by state: ``suspected``, ``excluded``, ``probation``.
        held: nodes whose pilots get no jobs, by queue.
        paused: paused agents, with who paused them: ``brake`` or ``operator``.
        plugin: calls of the plug-in by hour, brokerage, outcome and reason.
        messages: notification messages by channel and state; ended ones only of the last day.
        streams: channels that publish decisions, with the numbers sent and lost, whether the last attempt failed, and
            the stored decisions not yet examined, up to 100,000.
        acknowledged: alarms that somebody is looking at.
        database_bytes: size of the database.
    """

    closed: Sequence[tuple[str, int]]
    held: Sequence[tuple[str, int]]
    paused: Sequence[tuple[str, str]]
    plugin: Sequence[tuple[datetime, str, str, str, int]]
    messages: Sequence[tuple[str, str, int]]
    streams: Sequence[tuple[str, int, int, int, int]]
    acknowledged: int
    database_bytes: int


def read_health(connection: sa.Connection) -> Health:
    """Return the health now."""
    return Health(
        _rows(connection, _CLOSED),
        _rows(connection, _HELD),
        _rows(connection, _PAUSED, brake=BRAKE),
        _rows(connection, _PLUGIN),
        _rows(connection, _MESSAGES),
        _rows(connection, _STREAMS),
        int(connection.scalar(_ALARMS_ACKNOWLEDGED) or 0),
        int(connection.scalar(_SIZE) or 0),
    )


def jobs_of_shares(connection: sa.Connection, names: Names) -> list[tuple[str, str, str, int]]:
    """Return the jobs that have not ended, by VO, share and status."""
    return _rows(connection, sa.text(names.sql(_JOBS)))


def _rows(connection: sa.Connection, query: sa.TextClause, **values: Any) -> list[Any]:
    return [tuple(row) for row in connection.execute(query, values)]
