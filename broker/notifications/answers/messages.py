"""Messages that were sent, and the state of their channels."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from broker.notifications.statements import outbox_rows, stream_rows
from broker.notifications.statements.outbox_rows import ChannelState as ChannelState
from broker.redaction import HIDDEN
from broker.store.query_context import QueryContext, ResponseModel

State = Literal["waiting", "delivered", "dropped", "given_up"]
"""State of a channel."""
FAILING_FROM = 3
"""Failed attempts from which on a channel counts as failing."""


class MessageLine(ResponseModel):
    """A message about an incident.

    Attributes:
        message: number of the message.
        incident: number shared by all messages about the incident.
        event: ``opened`` when the incident began, ``resolved`` when it ended.
        kind: ``alarm``, ``reason`` or ``task``.
        about: source, agent, queue or task; for a reason, the rule that requires the message.
        channel: channel of delivery.
        address: address of the subscriber; null: those of the channel.
        rule: rule that requires it; ``subscription`` for a task.
        state: ``waiting``, ``delivered``, ``dropped`` or ``given_up``.
        tries: number of delivery attempts.
        not_before: earliest time of the next attempt of a waiting message.
        ended_at: time at which it was delivered, dropped or given up.
        detail: answer of the receiver, or why the last attempt failed.
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


class MessageFilters(ResponseModel):
    """Filters of messages: planned since ``since``, by state, by channel, before ``before``; at most ``limit``."""

    since: datetime | None = None
    state: State | None = None
    channel: str | None = None
    before: int | None = None
    limit: int = Field(default=100, ge=1, le=10_000)


class MessageList(ResponseModel):
    """Messages, newest first.

    Attributes:
        messages: messages of this page.
        next_before: value of ``before`` for the next page; null at the end.
    """

    now: datetime
    messages: tuple[MessageLine, ...]
    next_before: int | None = None


def message_list(query: QueryContext, filters: MessageFilters, *, with_addresses: bool = True) -> MessageList:
    """Return messages of the last 90 days, or since an instant; people's addresses are ``***`` unless permitted."""
    since = filters.since or query.now - timedelta(days=90)
    parameters = filters.model_dump() | {"since": since, "most": filters.limit + 1}
    rows = outbox_rows.history(query.connection, parameters)
    page = rows[: filters.limit]
    lines = tuple(_line(row, with_addresses) for row in page)
    return MessageList(
        now=query.now, messages=lines, next_before=page[-1]["message"] if len(rows) > filters.limit else None
    )


def _line(row: dict[str, Any], with_addresses: bool) -> MessageLine:
    if row["address"] and not with_addresses:
        row |= {"address": HIDDEN, "detail": None}
    return MessageLine(**row | {"address": row["address"] or None})


def channel_states(query: QueryContext) -> list[ChannelState]:
    """Return the state of each channel with messages now or in the last day, or whose decisions do not get through."""
    channels = outbox_rows.channel_states(query.connection, query.now)
    ill = {channel.channel for channel in channels if fails(channel)}
    # a channel that delivers neither is one alarm
    return channels + [channel for channel in stream_rows.failing(query.connection) if channel.channel not in ill]


def fails(one: ChannelState) -> bool:
    """Return whether a channel's last attempts failed, or messages were given up in the last day. Pure."""
    return one.tries >= FAILING_FROM or one.given_up > 0
