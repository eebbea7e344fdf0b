"""The outbox as rows: messages that are due, the result of each attempt, and recently sent messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from broker.store.connection.plain_rows import tuples

_DUE = sa.text("""
    SELECT n.id, n.event, n.channel, n.address, n.rule, n.planned_at, n.tries,
        i.id, i.kind, i.code, i.about, i.severity, i.sentence, i.page, i.began_at, i.resolved_at
    FROM broker.notifications AS n JOIN broker.incidents AS i ON i.id = n.incident
    WHERE n.state = 'waiting' AND n.not_before <= :now
        -- nobody is told of the end first
        AND NOT EXISTS (
            SELECT FROM broker.notifications AS begun WHERE n.event = 'resolved' AND begun.incident = n.incident
                AND begun.event = 'opened' AND begun.channel = n.channel AND begun.address = n.address
                AND begun.state = 'waiting')
    ORDER BY array_position(ARRAY['critical', 'warning', 'info'], i.severity), n.id LIMIT :most""")
_LATELY = sa.text("""
    SELECT channel, count(*) FROM broker.notifications WHERE state = 'delivered' AND ended_at > :since
    GROUP BY channel""")
_TRYING = sa.text("""
    UPDATE broker.notifications SET tries = tries + 1, not_before = :again
    WHERE id = :id AND state = 'waiting' AND tries = :tries""")
_NOTE = sa.text("""
    UPDATE broker.notifications SET state = :state, detail = :detail,
        ended_at = CASE WHEN :state = 'waiting' THEN NULL ELSE CAST(:now AS timestamptz) END
    WHERE id = :id AND state = 'waiting'""")
_HISTORY = sa.text("""
    SELECT n.id AS message, CAST(i.id AS text) AS incident, n.event, i.kind, i.code, i.about, i.severity, i.sentence,
        n.channel, n.address, n.rule, n.state, n.tries, n.planned_at, n.not_before, n.ended_at, n.detail
    FROM broker.notifications AS n JOIN broker.incidents AS i ON i.id = n.incident
    WHERE (CAST(:state AS text) IS NULL OR n.state = :state)
      AND (CAST(:channel AS text) IS NULL OR n.channel = :channel)
      AND n.planned_at >= :since AND (CAST(:before AS bigint) IS NULL OR n.id < :before)
    ORDER BY n.id DESC LIMIT :most""")
_CHANNEL_STATES = sa.text("""
    SELECT channel, count(*) FILTER (WHERE state = 'waiting') AS waiting,
        count(*) FILTER (WHERE state = 'waiting' AND tries > 0) AS failing,
        coalesce(max(tries) FILTER (WHERE state = 'waiting'), 0) AS tries,
        count(*) FILTER (WHERE state = 'given_up' AND ended_at > :since) AS given_up,
        count(*) FILTER (WHERE state = 'delivered' AND ended_at > :since) AS delivered,
        max(ended_at) FILTER (WHERE state = 'delivered') AS delivered_at,
        min(planned_at) FILTER (WHERE state = 'waiting' AND tries > 0) AS failing_since,
        (array_agg(detail ORDER BY id DESC) FILTER (WHERE state IN ('waiting', 'given_up') AND detail IS NOT NULL))[1]
            AS detail
    FROM broker.notifications WHERE ended_at IS NULL OR ended_at > :since GROUP BY channel ORDER BY channel""")
_OF_MESSAGE = 7
"""Number of columns of the message, before those of the incident."""
_DAY = timedelta(days=1)
LONGEST_DETAIL = 300


@dataclass(frozen=True)
class IncidentRow:
    """The incident of a message."""

    number: UUID
    kind: str
    code: str
    about: str
    severity: str
    sentence: str
    page: str
    began_at: datetime
    resolved_at: datetime | None


@dataclass(frozen=True)
class OutboxRow:
    """A message of the outbox, ``of`` an incident."""

    id: int
    event: str
    channel: str
    address: str
    rule: str
    planned_at: datetime
    tries: int
    of: IncidentRow


@dataclass(frozen=True)
class ChannelState:
    """The state of a channel, now and over the last day.

    Attributes:
        waiting: messages still to be sent.
        failing: those of them with failed attempts.
        tries: attempts at the message that was tried most often.
        given_up: messages given up in the last day; ``delivered`` likewise.
        delivered_at: time of the last delivery.
        failing_since: when the oldest failing message was planned.
        detail: why the last attempt failed.
    """

    channel: str
    waiting: int
    failing: int
    tries: int
    given_up: int
    delivered: int
    delivered_at: datetime | None
    failing_since: datetime | None
    detail: str | None


def due(connection: sa.Connection, now: datetime, most: int) -> list[OutboxRow]:
    """Return the messages to send now, gravest first, then those waiting longest."""
    rows = [tuple(row) for row in connection.execute(_DUE, {"now": now, "most": most})]
    return [OutboxRow(*(*row[:_OF_MESSAGE], IncidentRow(*row[_OF_MESSAGE:]))) for row in rows]


def delivered_since(connection: sa.Connection, since: datetime) -> Mapping[str, int]:
    """Return the number of messages sent by each channel."""
    return {channel: int(count) for channel, count in connection.execute(_LATELY, {"since": since})}


def trying(connection: sa.Connection, row: OutboxRow, again: datetime) -> bool:
    """Record an attempt to send a message, and the time of the next one; False if another process is sending it."""
    values = {"id": row.id, "tries": row.tries, "again": again}
    return connection.execute(_TRYING, values).rowcount == 1


def note(connection: sa.Connection, number: int, state: str, now: datetime, detail: str | None = None) -> None:
    """Record the result of a message: ``delivered``, ``dropped``, ``given_up``, or ``waiting`` for another attempt."""
    short = None if detail is None else detail[:LONGEST_DETAIL]
    connection.execute(_NOTE, {"id": number, "state": state, "now": now, "detail": short})


def history(connection: sa.Connection, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return messages by column, newest first.

    Args:
        connection: connection to the database.
        filters: ``since``, the earliest planning time (aware); ``state`` and ``channel``, None for any; ``before``, an
            exclusive upper number or None; ``most``, the maximum number of messages.
    """
    return [dict(row) for row in connection.execute(_HISTORY, filters).mappings()]


def channel_states(connection: sa.Connection, now: datetime) -> list[ChannelState]:
    """Return the state of each channel that has a message, or had one in the last day."""
    return [ChannelState(*row) for row in tuples(connection, _CHANNEL_STATES, {"since": now - _DAY})]
