"""How the decisions that channels publish fare."""

from __future__ import annotations

from datetime import datetime, timedelta

from broker.notifications.statements import stream_rows
from broker.notifications.statements.stream_rows import StreamLine
from broker.store.query_context import Answer, Asking

LOST_SHOWN = timedelta(days=1)
"""So long the doctor says that decisions were lost."""


class StreamList(Answer):
    """The channels that publish decisions.

    Attributes:
        streams: a line for each channel, in the order of their names.
    """

    now: datetime
    streams: tuple[StreamLine, ...]


def stream_list(asking: Asking) -> StreamList:
    """How the decisions of each channel fare."""
    return StreamList(now=asking.now, streams=tuple(stream_rows.standing(asking.connection)))


def lost_lately(one: StreamLine, now: datetime) -> bool:
    """Whether decisions were found to be lost in the last day. Pure."""
    return one.lost_at is not None and now - one.lost_at < LOST_SHOWN
