"""The state of the decision streams that channels publish."""

from __future__ import annotations

from datetime import datetime, timedelta

from broker.notifications.statements import stream_rows
from broker.notifications.statements.stream_rows import StreamLine
from broker.store.query_context import QueryContext, ResponseModel

LOST_SHOWN = timedelta(days=1)
"""How long the doctor reports that decisions were lost."""


class StreamList(ResponseModel):
    """The channels that publish decisions.

    Attributes:
        streams: one line per channel, by name.
    """

    now: datetime
    streams: tuple[StreamLine, ...]


def stream_list(query: QueryContext) -> StreamList:
    """Return the state of each channel's decision stream."""
    return StreamList(now=query.now, streams=tuple(stream_rows.stream_states(query.connection)))


def lost_lately(one: StreamLine, now: datetime) -> bool:
    """Return whether decisions were found to be lost in the last day. Pure."""
    return one.lost_at is not None and now - one.lost_at < LOST_SHOWN
