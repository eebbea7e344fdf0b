"""Events for many listeners: one look at the database a second for all of them, while there is any."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool

from broker.access.names import hidden
from broker.api.plain import plain
from broker.api.state import ApiState
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
