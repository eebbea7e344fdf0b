"""Pins: fields of queues that an operator fixes for a while, regardless of CRIC. Every change of a pin is recorded."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel

from broker.errors import Refused
from broker.store.query_context import ResponseModel

_COLUMNS = "id, queue, field, value, reason, editor, set_at, until, ended_at, ended_by"


class PinRefused(Refused):
    """The pin cannot be set or ended in this way."""


class HeldField(ResponseModel):
    """A field of a queue that an operator holds, regardless of CRIC."""

    queue: str
    field: str
    value: object
    reason: str
    editor: str
    set_at: datetime
    until: datetime


class PinLine(HeldField):
    """A field of a queue that an operator holds, regardless of CRIC."""

    value: bool | int | float | str
    ended_at: datetime | None
    ended_by: str | None
    holds: bool


class EndedPin(BaseModel):
    """Whether the field was pinned."""

    queue: str
    field: str
    ended: bool


class Pin(HeldField):
    """A pin as it is stored. Times are aware; ``ended_at`` None: not ended early, so it ends at ``until``."""

    id: int
    ended_at: datetime | None
    ended_by: str | None

    def holds(self, now: datetime) -> bool:
        """Whether it is in force at ``now`` (aware)."""
        return self.set_at <= now < (self.until if self.ended_at is None else min(self.ended_at, self.until))

    def line(self, now: datetime) -> PinLine:
        """The pin with whether it is in force at ``now`` (aware)."""
        return PinLine(**self.model_dump(exclude={"id"}), holds=self.holds(now))

    @property
    def held_field(self) -> HeldField:
        """The pin without its number and end, as answers about decisions and queues show it."""
        return HeldField(**self.model_dump(include=set(HeldField.model_fields)))


def held_pins(connection: sa.Connection, now: datetime, queue: str | None = None) -> list[Pin]:
    """The pins in force at ``now`` (aware), of one queue or of all, by queue and field."""
    query = sa.text(f"""
        SELECT {_COLUMNS} FROM broker.queue_pins
        WHERE (CAST(:queue AS text) IS NULL OR queue = :queue) AND set_at <= :now AND until > :now
          AND (ended_at IS NULL OR ended_at > :now) ORDER BY queue, field, id""")  # noqa: S608 - a constant
    return [Pin(**row._mapping) for row in connection.execute(query, {"queue": queue, "now": now})]


def pins_of_queue(connection: sa.Connection, queue: str, most: int = 1000) -> list[Pin]:
    """All pins that a queue ever had, the newest first."""
    query = sa.text(f"""
        SELECT {_COLUMNS} FROM broker.queue_pins WHERE queue = :queue
        ORDER BY set_at DESC, id DESC LIMIT :most""")  # noqa: S608 - a constant
    return [Pin(**row._mapping) for row in connection.execute(query, {"queue": queue, "most": most})]


def set_pin(
    connection: sa.Connection,
    queue: str,
    field: str,
    value: Any,
    *,
    reason: str,
    editor: str,
    now: datetime,
    until: datetime,
) -> None:
    """Hold a field of a queue from ``now`` until ``until`` (aware); a pin that already holds it ends.

    Raises:
        PinRefused: the end is not after ``now``.
    """
    if until <= now:
        raise PinRefused(f"{until.isoformat()} has passed", f"{queue} {field}", "give a later --until")
    end_pin(connection, queue, field, editor=editor, now=now)
    connection.execute(
        sa.text("""
            INSERT INTO broker.queue_pins (queue, field, value, reason, editor, set_at, until)
            VALUES (:queue, :field, CAST(:value AS jsonb), :reason, :editor, :now, :until)"""),
        {
            "queue": queue,
            "field": field,
            "value": json.dumps(value),
            "reason": reason,
            "editor": editor,
            "now": now,
            "until": until,
        },
    )


def end_pin(connection: sa.Connection, queue: str, field: str, *, editor: str, now: datetime) -> bool:
    """End the pin of a field now (aware); return whether one was in force. One that had expired is recorded as such."""
    rows = connection.execute(
        sa.text("""
            UPDATE broker.queue_pins AS p SET
                ended_at = greatest(p.set_at, least(p.until, :now)),
                ended_by = CASE WHEN p.until <= :now THEN NULL ELSE :editor END
            WHERE queue = :queue AND field = :field AND ended_at IS NULL
            RETURNING until > :now"""),
        {"queue": queue, "field": field, "editor": editor, "now": now},
    )
    return any(row[0] for row in rows)
