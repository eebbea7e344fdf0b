"""Connections that stay open for one kind of question: no checkout, no ping, statements prepared once."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import psycopg

from broker.api.problems import Problem
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
