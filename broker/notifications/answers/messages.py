"""Messages that were sent, and how their channels do."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from broker.notifications.statements import outbox_rows, stream_rows
from broker.notifications.statements.outbox_rows import ChannelStanding
from broker.redaction import HIDDEN
from broker.store.query_context import Answer, Asking

State = Literal["waiting", "delivered", "dropped", "given_up"]
Standing = ChannelStanding
"""How a channel fares."""
FAILING_FROM = 3
"""Failed tries after which a channel counts as failing."""


class MessageLine(Answer):
    """A message about an incident.

    Attributes:
        message: its number.
        incident: the number that all messages about the incident have.
        event: ``opened`` when the incident began, ``resolved`` when it ended.
        kind: ``alarm``, ``reason`` or ``task``.
        about: the source, agent, queue or task; of a reason the rule that asks.
        channel: by which it goes.
        address: of the subscriber; null: those of the channel.
        rule: that asked for it; of a task ``subscription``.
        state: ``waiting``, ``delivered``, ``dropped`` or ``given_up``.
        tries: how often it was tried.
        not_before: when a message that waits is tried next.
        ended_at: when it was delivered, dropped or given up.
        detail: what the other side answered, or why the last try failed.
    """

    message: int
    incident: str
    event: str
    kind: str
    code: str
    about: str
    severity: str
    sentence: str
    channel: str
    address: str | None
    rule: str
    state: str
    tries: int
    planned_at: datetime
    not_before: datetime
    ended_at: datetime | None
    detail: str | None


class MessageFilters(Answer):
    """Which messages: ``since`` then; of one state; of one channel; those before ``before``, at most ``limit``."""

    since: datetime | None = None
    state: State | None = None
    channel: str | None = None
    before: int | None = None
    limit: int = Field(default=100, ge=1, le=10_000)


class MessageList(Answer):
    """Messages, the newest first.

    Attributes:
        messages: of one page.
        next_before: for ``before`` of the page that follows; None at the end.
    """

    now: datetime
    messages: tuple[MessageLine, ...]
    next_before: int | None = None


def message_list(asking: Asking, filters: MessageFilters, *, with_addresses: bool = True) -> MessageList:
    """Messages of the last 90 days, or since then; addresses of people as ``***`` unless they may be seen."""
    since = filters.since or asking.now - timedelta(days=90)
    asked = filters.model_dump() | {"since": since, "most": filters.limit + 1}
    found = outbox_rows.history(asking.connection, asked)
    shown = found[: filters.limit]
    lines = tuple(_line(one, with_addresses) for one in shown)
    return MessageList(
        now=asking.now, messages=lines, next_before=shown[-1]["message"] if len(found) > filters.limit else None
    )


def _line(row: dict[str, Any], with_addresses: bool) -> MessageLine:
    if row["address"] and not with_addresses:
        row |= {"address": HIDDEN, "detail": None}
    return MessageLine(**row | {"address": row["address"] or None})


def standings(asking: Asking) -> list[ChannelStanding]:
    """How each channel fares that has, or had in the last day, a message, or by which no decisions get through."""
    found = outbox_rows.standing(asking.connection, asking.now)
    ill = {one.channel for one in found if fails(one)}
    # a channel by which neither goes is one alarm
    return found + [one for one in stream_rows.failing(asking.connection) if one.channel not in ill]


def fails(one: ChannelStanding) -> bool:
    """Whether a channel needs attention: its last tries failed, or messages were given up in the last day. Pure."""
    return one.tries >= FAILING_FROM or one.given_up > 0
