"""The HTTP API of live events, for dashboards and pages.

Many listeners share one check of the database a second, which runs only while there are any.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Header, Query, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from broker.access.names import hidden
from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.plain import plain
from broker.api.presenting import answer
from broker.api.problems import Problem
from broker.api.state import ApiState, State, Who
from broker.service.statements import event_reads
from broker.service.statements.event_reads import Cursor, Event
from broker.store.connection.transient import TRANSIENT_ERRORS

_log = logging.getLogger(__name__)
LOOK_EVERY_S = 1.0
HEARTBEAT_S = 15.0
BUFFER_SIZE = 2000
MOST = 500


class EventHub:
    """Distributes the events of one application.

    Args:
        api: state of the application.
    """

    def __init__(self, api: ApiState) -> None:
        self._api = api
        self._buffer: deque[tuple[int, bytes, bytes]] = deque(maxlen=BUFFER_SIZE)
        self._number = 0
        self._changed = asyncio.Condition()
        self._looking: asyncio.Task[None] | None = None
        self.listeners = 0

    async def stream(self, since: Cursor | None, *, names: bool) -> AsyncIterator[bytes]:
        """Stream server-sent events from now on, or after ``since``; ``names`` includes user names."""
        self.listeners += 1
        try:
            await self._begin()
            position = self._number
            yield b": listening\n\n"
            if since is not None:
                async for block in self._earlier(since, names):
                    yield block
            while not self._api.ending.is_set():
                if self._buffer and self._buffer[0][0] > position + 1:
                    yield b"event: gap\ndata: {}\n\n"  # it was too slow, and the events it missed are not stored
                for number, shown, without_names in list(self._buffer):
                    if number > position:
                        position = number
                        yield shown if names else without_names
                if not await self._wait(position):
                    yield b": still here\n\n"
        finally:
            self.listeners -= 1
            if self.listeners == 0 and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _begin(self) -> None:
        if self._looking is None:
            cursor = await run_in_threadpool(self._now)
            if self._looking is None:
                self._looking = asyncio.get_running_loop().create_task(self._look(cursor))

    async def _wait(self, position: int) -> bool:
        """Wait until there is more, the application ends (True), or a timeout (False)."""
        for _ in range(int(HEARTBEAT_S)):
            try:
                async with asyncio.timeout(1.0), self._changed:
                    await self._changed.wait_for(lambda: self._number > position)
                    return True
            except TimeoutError:
                if self._api.ending.is_set():
                    return True
        return False

    async def _earlier(self, since: Cursor, names: bool) -> AsyncIterator[bytes]:
        cursor, more = since, True
        while more and not self._api.ending.is_set():
            events, cursor = await run_in_threadpool(self._after, cursor)
            more = bool(events)
            for event in events:
                yield block_of(event, cursor, names=names)

    async def _look(self, cursor: Cursor) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                events, cursor = await run_in_threadpool(self._after, cursor)
            except TRANSIENT_ERRORS as error:
                _log.warning("events wait: database", extra={"fields": {"error": str(error)}})
                continue
            if not events:
                continue
            async with self._changed:
                for event in events:
                    self._number += 1
                    block_with_names, hiding = (block_of(event, cursor, names=names) for names in (True, False))
                    self._buffer.append((self._number, block_with_names, hiding))
                self._changed.notify_all()

    def _now(self) -> Cursor:
        with self._api.database.begin() as connection:
            return event_reads.now(connection)

    def _after(self, cursor: Cursor) -> tuple[list[Event], Cursor]:
        with self._api.database.begin() as connection:
            return event_reads.after(connection, cursor, MOST)


def document_of(event: Event, *, names: bool) -> dict[str, Any]:
    """Return an event as plain JSON."""
    document: dict[str, Any] = plain({"event": event.kind, "at": event.at, **event.facts})
    return document if names else hidden(document)


def block_of(event: Event, cursor: Cursor, *, names: bool) -> bytes:
    """Return an event as a block of server-sent events; its id is the cursor after everything read with it."""
    data = json.dumps(document_of(event, names=names), ensure_ascii=True, allow_nan=False)
    return f"event: {event.kind}\nid: {cursor}\ndata: {data}\n\n".encode()


router = guarded_router(tag="events")

MEDIA_TYPE = "text/event-stream"
_NAME = "events"


class Events(BaseModel):
    """Events after a cursor.

    Attributes:
        events: events by time; ``event`` is ``cycle``, ``outcome``, ``tuning`` or ``source``.
        next: cursor after these events, for ``since``.
    """

    events: list[dict[str, Any]]
    next: str


@router.get(
    "/events", response_model=Events, responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}}
)
@allow(READ)
async def listen(
    request: Request,
    api: State,
    who: Who,
    since: Annotated[str | None, Query(max_length=100, description="A cursor: `next`, or the id of an event.")] = None,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    """Stream cycles and changes of outcomes, tuning and sources as server-sent events; JSON with `since`."""
    cursor_text = last_event_id or since
    cursor = None if cursor_text is None else Cursor.read(cursor_text)
    if cursor_text is not None and cursor is None:
        raise Problem(400, "bad_cursor", "the cursor is none of these events", "begin without one")
    if MEDIA_TYPE not in request.headers.get("accept", ""):
        return answer(request, await run_in_threadpool(_since, api, cursor, who is not None), items="events")
    hub = hub_of(api)
    if hub.listeners >= api.configuration.limits.event_listeners:
        raise Problem(503, "too_many_listeners", "too many clients listen", headers={"Retry-After": "30"})
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(hub.stream(cursor, names=who is not None), headers=headers, media_type=MEDIA_TYPE)


def hub_of(api: ApiState) -> EventHub:
    """Return the hub of an application."""
    hub = api.parts.get(_NAME)
    if not isinstance(hub, EventHub):
        hub = api.parts[_NAME] = EventHub(api)
    return hub


def _since(api: ApiState, cursor: Cursor | None, names: bool) -> Events:
    with api.database.begin() as connection:
        if cursor is None:
            return Events(events=[], next=str(event_reads.now(connection)))
        rows, behind = event_reads.after(connection, cursor, MOST)
    return Events(events=[document_of(event, names=names) for event in rows], next=str(behind))
