"""Matchers that stay connected. Requests that come together, or while all are at work, are matched with one commit.

What a matcher remembers of the task queues saves reading them for every pilot, and one commit for several pilots saves
waiting for the disk for each. While the disk is waited for, others are matched. Nobody is answered before the commit.
What is run for nearly every request is run from the event loop; the rest in threads: reading the task queues of a
place, and whoever is matched alone.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from broker.api.problems import Problem
from broker.api.state import ApiState
from broker.errors import BrokerError
from broker.pilots.model.matcher import Pilot
from broker.pilots.routes.matcher_fast_path import Lane
from broker.pilots.statements.matches import Asked, MatchFound, NumberedRequest
from broker.pilots.statements.presented_nodes import NodeNotes, write_nodes
from broker.pilots.statements.task_queue_rows import CHANNEL
from broker.pilots.statements.task_queue_views import Views
from broker.pilots.statements.waiting_group_reads import LASTS
from broker.store.connection.database import Database
from broker.store.connection.transient import TRANSIENT_ERRORS

LANES = 3
MOST_TOGETHER = 16
WORTH_A_STATEMENT = 8
"""Requests for which one more matcher is put to work: a statement costs as much as several of its pilots, but all that
waits in one group would leave the processors idle while the disk is waited for."""
WAITS_FOR_ITS_END_S, WAITS_FOR_OTHERS_S = 0.01, 0.002
"""Fewer wait so long, while a matcher is at work, for its end; or until as many are here as those before them."""
MOST_WAITING = 1000
"""Requests that wait for a matcher; those beyond are asked to come again."""
LISTENS_AGAIN_AFTER_S, HEARS_ITS_END_AFTER_S = 5.0, 0.5
LOOKS_AGAIN_AFTER_S = 1.0
"""At places, whether what is known of them is about to be too old."""
READS_A_PART = 10.0
"""So many times as long as it took to read task queues, none are read."""
NAME = "matchers"
ResultT = TypeVar("ResultT")

_OF_ALL: tuple[type[Exception], ...] = (BrokerError, Problem, *TRANSIENT_ERRORS)
"""What is wrong with the database is wrong for each request of a group."""
_LOST: tuple[type[Exception], ...] = (BrokerError, psycopg.Error, *TRANSIENT_ERRORS)
_IN_THE_WAY: tuple[type[Exception], ...] = (psycopg.errors.UniqueViolation, psycopg.errors.TransactionRollback)
"""Nothing was kept: the same request came twice, or another transaction was in the way."""

Answered = tuple[MatchFound, bool]
"""What was found, and whether an earlier request of this number got it."""


@dataclass(frozen=True)
class _Waiting:
    asked: Asked
    answer: asyncio.Future[Answered]


class Matchers:
    """A few matchers, each on a connection of its own. Used from one event loop.

    Args:
        database: where jobs wait; its pool is left to others.
        now: the time on this host (aware).
        statement_timeout_s: for each statement.
        wait_s: for a connection.
    """

    def __init__(
        self, database: Database, now: Callable[[], datetime], statement_timeout_s: float, wait_s: float
    ) -> None:
        self._now = now
        self._database = database.sibling(
            "gridbroker matcher", LANES + 1, statement_timeout_s=statement_timeout_s, pool_timeout_s=wait_s
        )
        self._waiting: deque[_Waiting] = deque()
        self._notes = NodeNotes()
        views = Views()
        self._free = [Lane(self._database, views) for _ in range(LANES)]
        self._news = News(self._database, views, self._notes, now)
        self._threads = ThreadPoolExecutor(LANES, thread_name_prefix="matcher")
        self._at_work: set[asyncio.Task[None]] = set()
        self._is_called = False
        self._held: asyncio.TimerHandle | None = None
        self._before = 0

    async def match(self, pilot: Pilot, numbered: NumberedRequest | None) -> Answered:
        """One job for a pilot, or why there is none; and whether an earlier request of this number got it.

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
        """End what is under way, and let go of all connections."""
        for task in self._at_work:
            task.cancel()
        self._threads.shutdown()
        self._news.close()
        for number, lane in enumerate(self._free):
            if not number:
                lane.give_back()
            lane.close()
        self._database.close()

    def _call(self) -> None:
        """Have those that wait matched, once those that came with them are here."""
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

    async def _serve(self, lane: Lane, together: list[_Waiting]) -> None:
        """Answer a group; whoever came meanwhile is the next."""
        try:
            await self._answer(lane, together)
        except asyncio.CancelledError:
            lane.drop()
            raise
        except Exception as error:  # the requests end with it, and say what they may
            lane.drop()
            _fail(together, error)
        self._free.append(lane)
        self._call()

    async def _answer(self, lane: Lane, together: list[_Waiting]) -> None:
        now, asked = self._now(), [one.asked for one in together]
        try:
            await self._look(lane, asked, now)
            group = lane.matcher.group(asked, now)
            try:
                while (take := group.next_take()) is not None:
                    group.settle(await lane.quick.rows(take.statement, take.values))
                    for one, found in zip(together, group.found, strict=True):
                        if found is not None:
                            _settle(one, (found, False))
            except _IN_THE_WAY:
                group.put_back()  # each alone
        except _OF_ALL:
            raise
        except Exception:  # of one of them: those beside it go on
            if len(together) == 1:
                raise
            lane.drop()
        await self._answer_alone(lane, [one for one in together if not one.answer.done()], now)

    async def _look(self, lane: Lane, asked: list[Asked], now: datetime) -> None:
        if not lane.is_open:
            await self._in_thread(lane.open)
        if lane.matcher.unknown(asked, now):
            await self._in_thread(lane.matcher.look, asked, now)

    async def _answer_alone(self, lane: Lane, left: list[_Waiting], now: datetime) -> None:
        for one in left:
            try:
                if not lane.is_open:
                    await self._in_thread(lane.open)
                _settle(one, await self._in_thread(lane.matcher.match_one, *one.asked, now))
            except _OF_ALL:
                raise
            except Exception as error:  # it says what it may; the others do not end with it
                lane.drop()
                _fail([one], error)

    async def _in_thread(self, run: Callable[..., ResultT], *arguments: Any) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._threads, run, *arguments)


class News:
    """Hears into which task queues jobs came, so that pilots find them at once; tells which nodes asked.

    What is not heard, since the connection was lost, is found when all is read again. The connection is made again.
    Pilots do not wait for what is read here; it takes a tenth of the time at most, and nothing while nobody asks. Nodes
    are written in parts, from each minute on; those that cannot be are left out.

    Args:
        database: its pool has room for a connection.
        views: what is known of the task queues.
        notes: the nodes that asked.
        now: the time on this host (aware).
    """

    def __init__(self, database: Database, views: Views, notes: NodeNotes, now: Callable[[], datetime]) -> None:
        self._database, self._views, self._notes, self._now = database, views, notes, now
        self._told: set[int] | None = None
        self._reads_again_at = self._looks_again_at = 0.0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="matcher news", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hear nothing more."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                with self._database.autocommit() as connection:
                    try:
                        self._listen(Database.raw(connection))
                    except psycopg.Error:
                        connection.invalidate()
                        raise
            except _LOST:
                self._ends.wait(LISTENS_AGAIN_AFTER_S)

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
        self._told = None  # nobody heard what came before
        while not self._ends.is_set():
            if monotonic() >= self._reads_again_at:
                self._read(connection)
            for news in connection.notifies(timeout=HEARS_ITS_END_AFTER_S, stop_after=1):
                queues = queues_of(news.payload)
                self._told = None if queues is None or self._told is None else self._told | queues
            if monotonic() >= self._looks_again_at:
                self._looks_again_at = monotonic() + LOOKS_AGAIN_AFTER_S
                with connection.cursor(row_factory=tuple_row) as cursor:
                    self._views.refresh(cursor, self._now())
            if (noted := self._notes.due()) is not None:
                with connection.transaction():
                    write_nodes(connection, noted)

    def _read(self, connection: psycopg.Connection[Any]) -> None:
        """Read what was told of, or all where anything may have changed or what is known is about to be too old."""
        groups, told, began = self._views.groups, self._told, monotonic()
        self._told = set()
        if not groups.asked:
            return
        with connection.cursor(row_factory=tuple_row) as cursor:
            if told is None:
                groups.read(cursor, self._now(), timedelta(0))
            elif groups.known(self._now(), LASTS / 2) is None:
                groups.asked = False
                groups.read(cursor, self._now(), LASTS / 2)
            else:
                groups.read_some(cursor, told)
        self._reads_again_at = monotonic() + READS_A_PART * (monotonic() - began)


def queues_of(payload: str) -> frozenset[int] | None:
    """The task queues that a message names; None: it may be any."""
    try:
        found = json.loads(payload)
    except ValueError:
        return None
    is_list = isinstance(found, list) and all(type(one) is int for one in found)
    return frozenset(found) if is_list else None


def waits_for_others_s(waiting: int, free: int, before: int) -> float:
    """How long requests wait for others, in seconds, since they are few.

    Clients that are answered together soon ask again: the first of them does not go alone.

    Args:
        waiting: requests.
        free: matchers.
        before: requests of the last group.
    """
    if not 0 < waiting < WORTH_A_STATEMENT:
        return 0.0
    if free < LANES:
        return WAITS_FOR_ITS_END_S
    return WAITS_FOR_OTHERS_S if waiting < before else 0.0


def group_size(waiting: int, free: int) -> int:
    """How many of those that wait the next matcher takes.

    Args:
        waiting: requests, one at least.
        free: matchers, one at least.
    """
    groups = max(1, min(free, waiting // WORTH_A_STATEMENT))
    return min(MOST_TOGETHER, math.ceil(waiting / groups))


def _settle(one: _Waiting, answer: Answered) -> None:
    if not one.answer.done():  # its client may have gone
        one.answer.set_result(answer)


def _fail(together: list[_Waiting], error: Exception) -> None:
    for one in together:
        if not one.answer.done():
            one.answer.set_exception(error)


_making = threading.Lock()


def matchers_of(api: ApiState) -> Matchers:
    """The matchers of an application, made at the first request."""
    with _making:
        found = api.kept.get(NAME)
        if not isinstance(found, Matchers):
            section = api.configuration.database
            found = api.kept[NAME] = Matchers(api.database, api.now, section.statement_timeout_s, section.wait_s)
            api.at_end.append(found.close)
        return found
