"""The answer about the last decisions of a task: kept as bytes while nothing changes."""

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
from broker.api.state import ApiState, asking
from broker.decisions.answers.decision import task_decision
from broker.decisions.statements.decision_stamp import Stamp, read_stamp, stamp_query
from broker.store.connection.database import Database

UserT = TypeVar("UserT")


class KeptConnections(Generic[UserT]):
    """A few users of the database, each with a connection of its own in autocommit mode, made when they are needed.

    Args:
        database: its pool is left to others.
        name: of the connections, in ``pg_stat_activity``.
        most: that there are at once.
        statement_timeout_s: set once a connection.
        wait_s: for one that is free.
        make: the user of a connection.
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
        """One of them, for this block; it is not used again when the block fails.

        Raises:
            Problem: 503, all are at work.
        """
        if not self._slots.acquire(timeout=self._wait_s):
            raise Problem(503, "database_busy", "all connections to the database are in use", headers=_LATER)
        try:
            stack, user = self._taken()
            try:
                yield user
            except BaseException:
                with contextlib.suppress(Exception):  # the connection is not used again, whatever is wrong with it
                    stack.close()
                raise
            self._free.put((stack, user))
        finally:
            self._slots.release()

    def close(self) -> None:
        """Let go of all connections that are free."""
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
"""An answer is made anew after this; the second where something waits."""
MOST_BYTES = 32 << 20
"""Of all answers that are kept; the one that was not asked for for longest goes first."""

_Key = tuple[int, str | None, bool]
_Stamped = tuple[datetime | None, Stamp | None, bool]


@dataclass(frozen=True)
class _Kept:
    """An answer but for its first field, the instant of the question."""

    stamp: Stamp | None
    until_s: float
    rest: bytes
    tag: str


class DecisionAnswers:
    """The answers of one application, ``api``."""

    def __init__(self, api: ApiState) -> None:
        section = api.configuration.database
        self._api, self._lock = api, threading.Lock()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._size = 0
        self._stamps: KeptConnections[Callable[[int], _Stamped]] = KeptConnections(
            api.database,
            "gridbroker decisions",
            CONNECTIONS,
            statement_timeout_s=section.statement_timeout_s,
            wait_s=section.wait_s,
            make=self._reader,
        )

    def answer(self, request: Request, jeditaskid: int, brokerage: str | None) -> Response:
        """The answer about a task: as it was made before, where it still holds."""
        key = (jeditaskid, brokerage, request.state.identity is None)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        now = None if kept is None else self._still_holds(kept, jeditaskid)
        if kept is None or now is None:
            kept, now = self._make(key)
        body = b'{"now":' + as_json(plain(now)) + kept.rest
        return tagged(request, Response(body, 200, media_type=JSON), kept.tag)

    def close(self) -> None:
        """Let go of the connections."""
        self._stamps.close()

    def _still_holds(self, kept: _Kept, jeditaskid: int) -> datetime | None:
        """The instant for which a kept answer holds; None where it does not, or that cannot be found out."""
        if self._api.steady_s() >= kept.until_s:
            return None
        try:
            with self._stamps.one() as read:
                clock, stamp, _ = read(jeditaskid)
        except psycopg.Error:
            return None  # whoever makes the answer finds out what is wrong, with a connection that was tried first
        return (clock or self._api.now()) if stamp is not None and stamp == kept.stamp else None

    def _make(self, key: _Key) -> tuple[_Kept, datetime]:
        jeditaskid, brokerage, nameless = key
        with asking(self._api) as asked:
            query = stamp_query(asked.catalogue)
            _, stamp, waits = read_stamp(Database.raw(asked.connection), query, jeditaskid)
            document = plain(task_decision(asked, jeditaskid, brokerage=brokerage, evaluate=False))
        del document["now"]
        rest = b"," + as_json(hidden(document) if nameless else document)[1:]
        until_s = self._api.steady_s() + (WAITING_LASTS_S if waits else LASTS_S)
        # weak: another instant of the question makes it no other answer
        kept = _Kept(stamp, until_s, rest, f'W/"{hashlib.blake2b(rest, digest_size=12).hexdigest()}"')
        if stamp is not None:
            self._keep(key, kept)
        return kept, asked.now

    def _keep(self, key: _Key, kept: _Kept) -> None:
        with self._lock:
            before = self._kept.pop(key, None)
            self._size += len(kept.rest) - (0 if before is None else len(before.rest))
            self._kept[key] = kept
            while self._size > MOST_BYTES:
                self._size -= len(self._kept.popitem(last=False)[1].rest)

    def _reader(self, connection: psycopg.Connection[Any]) -> Callable[[int], _Stamped]:
        with asking(self._api) as asked:
            query = stamp_query(asked.catalogue)
        return lambda jeditaskid: read_stamp(connection, query, jeditaskid)


_making = threading.Lock()


def decision_answers_of(api: ApiState) -> DecisionAnswers:
    """The answers of an application, made at the first request."""
    with _making:
        found = api.kept.get(NAME)
        if not isinstance(found, DecisionAnswers):
            found = api.kept[NAME] = DecisionAnswers(api)
            api.at_end.append(found.close)
        return found
