"""Matchers that stay connected. Requests that come together, or while all are at work, are matched with one commit.

A matcher keeps the task queues in memory, which saves reading them for every pilot, and one commit for several pilots
saves waiting for the disk for each. While one group waits for the disk, others are matched. Nobody is answered before
the commit. The event loop runs what nearly every request needs; the rest runs in threads: reading the task queues of a
place, and matching pilots alone.
"""

from __future__ import annotations

import asyncio
import gc
import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import psycopg

from broker.api.problems import Problem
from broker.api.state import ApiState
from broker.errors import BrokerError
from broker.garbage_collection import keep_what_is_there
from broker.pilots.model.matcher import Pilot
from broker.pilots.routes.matcher_fast_path import MatcherConnection
from broker.pilots.routes.matcher_news import News
from broker.pilots.statements.matches import MatchOutcome, MatchRequest, NumberedRequest
from broker.pilots.statements.presented_nodes import NodeNotes
from broker.pilots.statements.task_queue_views import Views
from broker.store.connection.database import Database
from broker.store.connection.transient import TRANSIENT_ERRORS

CONNECTIONS = 3
MOST_TOGETHER = 16
WORTH_A_STATEMENT = 8
"""Requests for which one more matcher is put to work: a statement costs as much as several of its pilots, but all
requests in one group would leave the processors idle while it waits for the disk."""
WAITS_FOR_ITS_END_S, WAITS_FOR_OTHERS_S = 0.01, 0.002
"""How long fewer requests wait: for the end of a matcher at work; or until as many are here as those before them."""
MOST_WAITING = 1000
"""Most requests that wait for a matcher; further ones are asked to come again."""
NAME = "matchers"
ResultT = TypeVar("ResultT")

_OF_ALL: tuple[type[Exception], ...] = (BrokerError, Problem, *TRANSIENT_ERRORS)
"""Errors of the database, which concern each request of a group."""
_IN_THE_WAY: tuple[type[Exception], ...] = (psycopg.errors.UniqueViolation, psycopg.errors.TransactionRollback)
"""Nothing was kept: the same request came twice, or another transaction was in the way."""

Answered = tuple[MatchOutcome, bool]
"""The outcome, and whether an earlier request of this number got it."""


@dataclass(frozen=True)
class _Waiting:
    match_request: MatchRequest
    answer: asyncio.Future[Answered]


class Matchers:
    """A few matchers, each on a connection of its own. Used from one event loop.

    Args:
        database: where jobs wait; its pool is left to others.
        now: returns the time on this host (aware).
        statement_timeout_s: timeout of each statement.
        wait_s: longest wait for a connection.
    """

    def __init__(
        self, database: Database, now: Callable[[], datetime], statement_timeout_s: float, wait_s: float
    ) -> None:
        self._now = now
        self._database = database.sibling(
            "gridbroker matcher", CONNECTIONS + 1, statement_timeout_s=statement_timeout_s, pool_timeout_s=wait_s
        )
        self._waiting: deque[_Waiting] = deque()
        self._notes = NodeNotes()
        views = Views()
        self._free = [MatcherConnection(self._database, views) for _ in range(CONNECTIONS)]
        self._news = News(self._database, views, self._notes, now)
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="matcher")
        self._at_work: set[asyncio.Task[None]] = set()
        self._is_called = self._has_kept = False
        self._held: asyncio.TimerHandle | None = None
        self._before = 0

    async def match(self, pilot: Pilot, numbered: NumberedRequest | None) -> Answered:
        """Match a pilot: one job, or why there is none; and whether an earlier request of this number got it.

        Raises:
            Problem: 503, too many wait.
        """
        if len(self._waiting) >= MOST_WAITING:
            raise Problem(503, "matchers_busy", "all matchers are at work", headers={"Retry-After": "1"})
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answered] = loop.create_future()
        self._waiting.append(_Waiting((pilot, numbered), answer))
        self._notes.note(pilot, self._now())
        self._call()
        return await answer

    def close(self) -> None:
        """End what is under way, and close all connections."""
        for task in self._at_work:
            task.cancel()
        self._threads.shutdown()
        self._news.close()
        for number, connection in enumerate(self._free):
            if not number:
                connection.give_back()
            connection.close()
        self._database.close()

    def _call(self) -> None:
        """Schedule the matching of the waiting requests, once those that came with them are here."""
        if self._free and self._waiting and not self._is_called:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_called = False
        wait_s = waits_for_others_s(len(self._waiting), len(self._free), self._before)
        if not wait_s:
            self._serve_all()
            return
        loop = asyncio.get_running_loop()
        if self._held is None or self._held.when() > loop.time() + wait_s:
            self._hold_no_longer()
            self._held = loop.call_later(wait_s, self._serve_all)

    def _hold_no_longer(self) -> None:
        if self._held is not None:
            self._held.cancel()
            self._held = None

    def _serve_all(self) -> None:
        self._hold_no_longer()
        while self._free and self._waiting:
            self._before = group_size(len(self._waiting), len(self._free))
            together = [self._waiting.popleft() for _ in range(self._before)]
            task = asyncio.get_running_loop().create_task(self._serve(self._free.pop(), together))
            self._at_work.add(task)
            task.add_done_callback(self._at_work.discard)

    async def _serve(self, connection: MatcherConnection, together: list[_Waiting]) -> None:
        """Answer a group; requests that came meanwhile are next."""
        try:
            await self._answer(connection, together)
        except asyncio.CancelledError:
            connection.drop()
            raise
        except Exception as error:  # the requests end with it, and report what they may
            connection.drop()
            _fail(together, error)
        self._free.append(connection)
        self._call()

    async def _answer(self, connection: MatcherConnection, together: list[_Waiting]) -> None:
        now, requests = self._now(), [request.match_request for request in together]
        try:
            await self._look(connection, requests, now)
            group = connection.matcher.group(requests, now)
            try:
                while (take := group.next_take()) is not None:
                    group.settle(await connection.async_libpq.rows(take.statement, take.values))
                    for request, match in zip(together, group.matches, strict=True):
                        if match is not None:
                            _settle(request, (match, False))
            except _IN_THE_WAY:
                group.put_back()  # each alone
        except _OF_ALL:
            raise
        except Exception:  # of one request: the others go on
            if len(together) == 1:
                raise
            connection.drop()
        await self._answer_alone(connection, [request for request in together if not request.answer.done()], now)

    async def _look(self, connection: MatcherConnection, requests: list[MatchRequest], now: datetime) -> None:
        if not connection.is_open:
            await self._in_thread(connection.open)
        if connection.matcher.unknown(requests, now):
            await self._in_thread(connection.matcher.look, requests, now)
            self._keep_first_read()

    def _keep_first_read(self) -> None:
        """Keep the garbage collector from visiting the task queues that were read first; it would stop requests."""
        if not self._has_kept and gc.get_freeze_count():  # in a process that also froze what it imported
            keep_what_is_there()
        self._has_kept = True

    async def _answer_alone(self, connection: MatcherConnection, left: list[_Waiting], now: datetime) -> None:
        for request in left:
            try:
                if not connection.is_open:
                    await self._in_thread(connection.open)
                _settle(request, await self._in_thread(connection.matcher.match_one, *request.match_request, now))
            except _OF_ALL:
                raise
            except Exception as error:  # it reports what it may; the others do not end with it
                connection.drop()
                _fail([request], error)

    async def _in_thread(self, run: Callable[..., ResultT], *arguments: Any) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._threads, run, *arguments)


def waits_for_others_s(waiting: int, free: int, before: int) -> float:
    """How long requests wait for others, in seconds, because they are few.

    Clients that are answered together soon ask again: the first of them does not go alone.

    Args:
        waiting: waiting requests.
        free: free matchers.
        before: requests of the last group.
    """
    if not 0 < waiting < WORTH_A_STATEMENT:
        return 0.0
    if free < CONNECTIONS:
        return WAITS_FOR_ITS_END_S
    return WAITS_FOR_OTHERS_S if waiting < before else 0.0


def group_size(waiting: int, free: int) -> int:
    """How many of the waiting requests the next matcher takes.

    Args:
        waiting: waiting requests, one at least.
        free: free matchers, one at least.
    """
    groups = max(1, min(free, waiting // WORTH_A_STATEMENT))
    return min(MOST_TOGETHER, math.ceil(waiting / groups))


def _settle(request: _Waiting, answer: Answered) -> None:
    if not request.answer.done():  # its client may have gone
        request.answer.set_result(answer)


def _fail(together: list[_Waiting], error: Exception) -> None:
    for request in together:
        if not request.answer.done():
            request.answer.set_exception(error)


_making = threading.Lock()


def matchers_of(api: ApiState) -> Matchers:
    """The matchers of an application, created at the first request."""
    with _making:
        matchers = api.parts.get(NAME)
        if not isinstance(matchers, Matchers):
            section = api.configuration.database
            matchers = api.parts[NAME] = Matchers(api.database, api.now, section.statement_timeout_s, section.wait_s)
            api.at_end.append(matchers.close)
        return matchers
