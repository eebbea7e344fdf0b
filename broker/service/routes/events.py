"""Events: what happens, as it happens, for dashboards and pages.

Events for many listeners: one look at the database a second for all of them, while there is any.
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
KEPT = 2000
MOST = 500


class EventHub:
    """The events of one application.

    Args:
        api: of the application.
    """

    def __init__(self, api: ApiState) -> None:
        self._api = api
        self._kept: deque[tuple[int, bytes, bytes]] = deque(maxlen=KEPT)
        self._number = 0
        self._changed = asyncio.Condition()
        self._looking: asyncio.Task[None] | None = None
        self.listeners = 0

    async def stream(self, since: Cursor | None, *, names: bool) -> AsyncIterator[bytes]:
        """Server-sent events from now on, or from behind ``since``; ``names``: of users are shown."""
        self.listeners += 1
        try:
            await self._begin()
            position = self._number
            yield b": listening\n\n"
            if since is not None:
                async for block in self._earlier(since, names):
                    yield block
            while not self._api.ending.is_set():
                if self._kept and self._kept[0][0] > position + 1:
                    yield b"event: gap\ndata: {}\n\n"  # it was too slow, and what it missed is not kept
                for number, shown, without_names in list(self._kept):
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
        """Wait until there is more, the application ends (True), or for a while (False)."""
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
                    named, hiding = (block_of(event, cursor, names=shown) for shown in (True, False))
                    self._kept.append((self._number, named, hiding))
                self._changed.notify_all()

    def _now(self) -> Cursor:
        with self._api.database.begin() as connection:
            return event_reads.now(connection)

    def _after(self, cursor: Cursor) -> tuple[list[Event], Cursor]:
        with self._api.database.begin() as connection:
            return event_reads.after(connection, cursor, MOST)


def document_of(event: Event, *, names: bool) -> dict[str, Any]:
    """An event as plain JSON."""
    document: dict[str, Any] = plain({"event": event.kind, "at": event.at, **event.facts})
    return document if names else hidden(document)


def block_of(event: Event, cursor: Cursor, *, names: bool) -> bytes:
    """An event as a block of server-sent events; its id leads behind everything that was read with it."""
    data = json.dumps(document_of(event, names=names), ensure_ascii=True, allow_nan=False)
    return f"event: {event.kind}\nid: {cursor}\ndata: {data}\n\n".encode()


router = guarded_router(tag="events")

MEDIA_TYPE = "text/event-stream"
_NAME = "events"


class Events(BaseModel):
    """What happened behind a cursor.

    Attributes:
        events: by time; ``event`` is ``cycle``, ``outcome``, ``tuning`` or ``source``.
        next: the cursor behind them, for ``since``.
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
    """Cycles, changes of outcomes, of the tuning and of sources: server-sent events, or with `since` as JSON."""
    given = last_event_id or since
    cursor = None if given is None else Cursor.read(given)
    if given is not None and cursor is None:
        raise Problem(400, "bad_cursor", "the cursor is none of these events", "begin without one")
    if MEDIA_TYPE not in request.headers.get("accept", ""):
        return answer(request, await run_in_threadpool(_since, api, cursor, who is not None), items="events")
    hub = hub_of(api)
    if hub.listeners >= api.configuration.limits.event_listeners:
        raise Problem(503, "too_many_listeners", "too many clients listen", headers={"Retry-After": "30"})
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(hub.stream(cursor, names=who is not None), headers=headers, media_type=MEDIA_TYPE)


def hub_of(api: ApiState) -> EventHub:
    """The hub of an application."""
    found = api.kept.get(_NAME)
    if not isinstance(found, EventHub):
        found = api.kept[_NAME] = EventHub(api)
    return found


def _since(api: ApiState, cursor: Cursor | None, names: bool) -> Events:
    with api.database.begin() as connection:
        if cursor is None:
            return Events(events=[], next=str(event_reads.now(connection)))
        found, behind = event_reads.after(connection, cursor, MOST)
    return Events(events=[document_of(one, names=names) for one in found], next=str(behind))
