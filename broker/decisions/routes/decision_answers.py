"""The answer about the last decisions of a task, cached as bytes while nothing changes."""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import psycopg
from starlette.requests import Request
from starlette.responses import Response

from broker.access.names import hidden
from broker.api.plain import as_json, plain
from broker.api.presenting import JSON, tagged
from broker.api.problems import Problem
from broker.api.state import ApiState, query_context
from broker.decisions.answers.decision import task_decision
from broker.decisions.statements.decision_stamp import Stamp, read_stamp, stamp_query
from broker.store.connection.database import Database

UserT = TypeVar("UserT")


class ConnectionPool(Generic[UserT]):
    """A few users of the database, created on demand, each with its own connection in autocommit mode.

    Args:
        database: the database, whose own pool is left to others.
        name: name of the connections in ``pg_stat_activity``.
        most: most users at once.
        statement_timeout_s: set once per connection.
        wait_s: how long to wait for a free user.
        make: makes the user of a connection.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        most: int,
        *,
        statement_timeout_s: float,
        wait_s: float,
        make: Callable[[psycopg.Connection[Any]], UserT],
    ) -> None:
        self._database = database.sibling(name, most, statement_timeout_s=statement_timeout_s, pool_timeout_s=wait_s)
        self._make, self._wait_s = make, wait_s
        self._free: queue.LifoQueue[tuple[contextlib.ExitStack, UserT]] = queue.LifoQueue()
        self._slots = threading.Semaphore(most)

    @contextlib.contextmanager
    def one(self) -> Iterator[UserT]:
        """Borrow a user for this block; it is discarded if the block fails.

        Raises:
            Problem: 503, all are busy.
        """
        if not self._slots.acquire(timeout=self._wait_s):
            raise Problem(503, "database_busy", "all connections to the database are in use", headers=_LATER)
        try:
            stack, user = self._taken()
            try:
                yield user
            except BaseException:
                with contextlib.suppress(Exception):  # the connection is discarded, whatever is wrong with it
                    stack.close()
                raise
            self._free.put((stack, user))
        finally:
            self._slots.release()

    def close(self) -> None:
        """Close all free connections."""
        while True:
            try:
                stack, _ = self._free.get_nowait()
            except queue.Empty:
                break
            stack.close()
        self._database.close()

    def _taken(self) -> tuple[contextlib.ExitStack, UserT]:
        with contextlib.suppress(queue.Empty):
            return self._free.get_nowait()
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(self._database.autocommit())
            return stack.pop_all(), self._make(Database.raw(connection))
        raise AssertionError("an exit stack suppresses nothing")


_LATER = {"Retry-After": "1"}


NAME = "decision answers"
CONNECTIONS = 2
LASTS_S, WAITING_LASTS_S = 60.0, 5.0
"""Lifetime of an answer; the second applies if something waits."""
MOST_BYTES = 32 << 20
"""Most bytes of all cached answers; the least recently requested one is dropped first."""

_Key = tuple[int, str | None, bool]
_Stamped = tuple[datetime | None, Stamp | None, bool]


@dataclass(frozen=True)
class _CacheEntry:
    """An answer without its first field, the instant of the request."""

    stamp: Stamp | None
    until_s: float
    rest: bytes
    tag: str


class DecisionAnswers:
    """The cached answers of one application, ``api``."""

    def __init__(self, api: ApiState) -> None:
        section = api.configuration.database
        self._api, self._lock = api, threading.Lock()
        self._cache: OrderedDict[_Key, _CacheEntry] = OrderedDict()
        self._size = 0
        self._stamps: ConnectionPool[Callable[[int], _Stamped]] = ConnectionPool(
            api.database,
            "gridbroker decisions",
            CONNECTIONS,
            statement_timeout_s=section.statement_timeout_s,
            wait_s=section.wait_s,
            make=self._reader,
        )

    def answer(self, request: Request, jeditaskid: int, brokerage: str | None) -> Response:
        """Answer about a task, from the cache if the answer still holds."""
        key = (jeditaskid, brokerage, request.state.identity is None)
        with self._lock:
            entry = self._cache.get(key)
            if entry is not None:
                self._cache.move_to_end(key)
        now = None if entry is None else self._still_holds(entry, jeditaskid)
        if entry is None or now is None:
            entry, now = self._make(key)
        body = b'{"now":' + as_json(plain(now)) + entry.rest
        return tagged(request, Response(body, 200, media_type=JSON), entry.tag)

    def close(self) -> None:
        """Close the connections."""
        self._stamps.close()

    def _still_holds(self, entry: _CacheEntry, jeditaskid: int) -> datetime | None:
        """The instant for which a cached answer holds; None if it does not, or if this cannot be determined."""
        if self._api.steady_s() >= entry.until_s:
            return None
        try:
            with self._stamps.one() as read:
                clock, stamp, _ = read(jeditaskid)
        except psycopg.Error:
            return None  # making the answer will reveal the fault, on a connection that is tested first
        return (clock or self._api.now()) if stamp is not None and stamp == entry.stamp else None

    def _make(self, key: _Key) -> tuple[_CacheEntry, datetime]:
        jeditaskid, brokerage, nameless = key
        with query_context(self._api) as query:
            statement = stamp_query(query.catalogue)
            _, stamp, waits = read_stamp(Database.raw(query.connection), statement, jeditaskid)
            document = plain(task_decision(query, jeditaskid, brokerage=brokerage, evaluate=False))
        del document["now"]
        rest = b"," + as_json(hidden(document) if nameless else document)[1:]
        until_s = self._api.steady_s() + (WAITING_LASTS_S if waits else LASTS_S)
        # weak: the instant of the request does not make it a different answer
        entry = _CacheEntry(stamp, until_s, rest, f'W/"{hashlib.blake2b(rest, digest_size=12).hexdigest()}"')
        if stamp is not None:
            self._keep(key, entry)
        return entry, query.now

    def _keep(self, key: _Key, entry: _CacheEntry) -> None:
        with self._lock:
            before = self._cache.pop(key, None)
            self._size += len(entry.rest) - (0 if before is None else len(before.rest))
            self._cache[key] = entry
            while self._size > MOST_BYTES:
                self._size -= len(self._cache.popitem(last=False)[1].rest)

    def _reader(self, connection: psycopg.Connection[Any]) -> Callable[[int], _Stamped]:
        with query_context(self._api) as query:
            statement = stamp_query(query.catalogue)
        return lambda jeditaskid: read_stamp(connection, statement, jeditaskid)


_making = threading.Lock()


def decision_answers_of(api: ApiState) -> DecisionAnswers:
    """The cached answers of an application, created at the first request."""
    with _making:
        answers = api.parts.get(NAME)
        if not isinstance(answers, DecisionAnswers):
            answers = api.parts[NAME] = DecisionAnswers(api)
            api.at_end.append(answers.close)
        return answers
