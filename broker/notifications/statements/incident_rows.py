"""Incidents as rows: opened, seen again, resolved; and the resulting messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from broker.domain.incident import Incident, Severity
from broker.store.connection.tables import Names

_SEEN = sa.text("""
    INSERT INTO broker.incidents (id, kind, code, about, severity, sentence, page, began_at, opened_at, seen_at)
    VALUES (gen_random_uuid(), :kind, :code, :about, :severity, :sentence, :page, :began_at, :now, :now)
    ON CONFLICT (kind, code, about) WHERE resolved_at IS NULL DO UPDATE
    SET seen_at = excluded.seen_at, severity = excluded.severity, sentence = excluded.sentence
    RETURNING id, began_at""")
_OVER = sa.text("""
    UPDATE broker.incidents SET resolved_at = :now
    WHERE resolved_at IS NULL AND kind <> 'task' AND seen_at < :settled RETURNING id, severity""")
_FACT = sa.text("""
    INSERT INTO broker.incidents
        (id, kind, code, about, severity, sentence, page, began_at, opened_at, seen_at, resolved_at)
    VALUES (gen_random_uuid(), 'task', :code, :about, 'info', :sentence, :page, :now, :now, :now, :now)
    RETURNING id""")
_PLAN = sa.text("""
    INSERT INTO broker.notifications
        (incident, event, channel, address, rule, planned_at, not_before, tries, state)
    VALUES (:incident, :event, :channel, :address, :rule, :now, :not_before, 0, 'waiting')
    ON CONFLICT (incident, event, channel, address) DO NOTHING""")
_DROP_UNTOLD = sa.text("""
    UPDATE broker.notifications SET state = 'dropped', ended_at = :now, detail = 'it was over before it was sent'
    WHERE incident = :incident AND event = 'opened' AND state = 'waiting' AND tries = 0""")
_RECIPIENTS = sa.text("""
    SELECT channel, address, rule FROM broker.notifications
    WHERE incident = :incident AND event = 'opened' AND state <> 'dropped' ORDER BY id""")


@dataclass(frozen=True)
class PlannedMessage:
    """A message to send.

    Attributes:
        incident: number of its incident.
        event: ``opened`` or ``resolved``.
        channel: channel to send it by.
        rule: rule that requested it; for a task, ``subscription``.
        not_before: earliest time to send it (aware).
        address: address of a subscriber; if empty, the addresses of the channel.
    """

    incident: UUID
    event: str
    channel: str
    rule: str
    not_before: datetime
    address: str = ""


@dataclass(frozen=True)
class ResolvedIncident:
    """An incident that is over, with the recipients it was sent to."""

    incident: UUID
    severity: Severity
    recipients: tuple[tuple[str, str, str], ...]


def see(connection: sa.Connection, incident: Incident, now: datetime) -> tuple[UUID, datetime]:
    """Open an incident or keep it open; return its number and when it began."""
    values = {
        "kind": incident.kind, "code": incident.code, "about": incident.about, "severity": incident.severity,
        "now": now, "sentence": incident.sentence, "page": incident.page, "began_at": min(incident.since or now, now),
    }  # fmt: skip
    row = connection.execute(_SEEN, values).one()
    return row.id, row.began_at


def resolve(connection: sa.Connection, now: datetime, settle: timedelta) -> list[ResolvedIncident]:
    """Close the incidents not seen for ``settle``; their unsent messages are dropped."""
    closed = []
    for row in connection.execute(_OVER, {"now": now, "settled": now - settle}).all():
        connection.execute(_DROP_UNTOLD, {"incident": row.id, "now": now})
        recipients = connection.execute(_RECIPIENTS, {"incident": row.id}).all()
        closed.append(
            ResolvedIncident(
                row.id,
                row.severity,
                tuple((recipient.channel, recipient.address, recipient.rule) for recipient in recipients),
            )
        )
    return closed


def note_task(connection: sa.Connection, code: str, task: int, sentence: str, now: datetime) -> UUID:
    """Record an event of a task as an incident that is over at once; return its number."""
    values = {"code": code, "about": str(task), "sentence": sentence, "page": f"/tasks/{task}", "now": now}
    number: UUID = connection.execute(_FACT, values).scalar_one()
    return number


def plan(connection: sa.Connection, messages: Iterable[PlannedMessage], now: datetime) -> int:
    """Put messages into the outbox, once for each incident, event and channel; return how many are new."""
    planned = 0
    for message in messages:
        values = {"incident": message.incident, "event": message.event, "channel": message.channel,
                  "address": message.address, "rule": message.rule, "not_before": message.not_before,
                  "now": now}  # fmt: skip
        planned += connection.execute(_PLAN, values).rowcount
    return planned


_OPEN_TASKS = """
    SELECT subscription.id, subscription.jeditaskid, subscription.channel, subscription.address,
        subscription.told_waits_at, task.taskname, task.status, task.errordialog, waits.since, waits.reason
    FROM broker.task_subscriptions AS subscription
    LEFT JOIN {panda}.jedi_tasks AS task USING (jeditaskid)
    LEFT JOIN LATERAL (
        SELECT min(waiting_since) AS since, (array_agg(reason ORDER BY waiting_since))[1] AS reason
        FROM broker.chunk_states AS chunk
        WHERE chunk.jeditaskid = subscription.jeditaskid AND chunk.outcome <> 'brokered'
          AND chunk.waiting_since IS NOT NULL AND chunk.last_seen_at >= :still
    ) AS waits ON true
    WHERE subscription.ended_at IS NULL ORDER BY subscription.jeditaskid, subscription.id LIMIT :most"""
_NOTE_WAITS = sa.text("UPDATE broker.task_subscriptions SET told_waits_at = :now WHERE id = ANY(:ids)")
_END = sa.text("UPDATE broker.task_subscriptions SET ended_at = :now, ended_because = :why WHERE id = ANY(:ids)")
STILL_WAITS = timedelta(hours=1)
"""Work that no cycle has considered for this long no longer waits."""


@dataclass(frozen=True)
class SubscribedTask:
    """A subscription with the state of its task.

    Attributes:
        status: status of the task; None if it is gone.
        waits_since: since when work of the task waits; None if none does.
    """

    id: int
    jeditaskid: int
    channel: str
    address: str
    told_waits_at: datetime | None
    name: str | None
    status: str | None
    dialog: str | None
    waits_since: datetime | None
    waits_for: str | None


def read_subscribed(connection: sa.Connection, names: Names, now: datetime, most: int) -> list[SubscribedTask]:
    """Return the open subscriptions with the states of their tasks."""
    rows = connection.execute(sa.text(names.sql(_OPEN_TASKS)), {"still": now - STILL_WAITS, "most": most})
    return [SubscribedTask(*row) for row in rows]


def note_wait_message(connection: sa.Connection, ids: Sequence[int], now: datetime) -> None:
    """Record that subscribers were notified that their task waits."""
    connection.execute(_NOTE_WAITS, {"ids": list(ids), "now": now})


def end_subscriptions(connection: sa.Connection, ids: Sequence[int], why: str, now: datetime) -> None:
    """End subscriptions whose task has ended or is gone."""
    connection.execute(_END, {"ids": list(ids), "why": why, "now": now})
