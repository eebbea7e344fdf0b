"""Matchers that stay connected: what each remembers of the task queues saves reading them for every pilot."""

from __future__ import annotations

import contextlib
import queue
import secrets
import threading
from collections.abc import Iterator
from datetime import datetime

import numpy as np

from broker.api.problems import Problem
from broker.api.state import ApiState
from broker.pools.matcher import Pilot
from broker.store.connection.database import Database
from broker.store.matching.job_match import Matcher, MatchFound, NumberedRequest

CONNECTIONS = 4
NAME = "matchers"


class Matchers:
    """A few matchers, each with a connection of its own, made when they are needed.

    Args:
        database: where jobs wait; its pool is left to others.
        statement_timeout_s: for each statement.
        wait_s: for a matcher that is free.
    """

    def __init__(self, database: Database, statement_timeout_s: float, wait_s: float) -> None:
        self._database = database.sibling(
            "gridbroker matcher", CONNECTIONS, statement_timeout_s=statement_timeout_s, pool_timeout_s=wait_s
        )
        self._free: queue.LifoQueue[tuple[contextlib.ExitStack, Matcher]] = queue.LifoQueue()
        self._slots = threading.Semaphore(CONNECTIONS)
        self._wait_s = wait_s

    def match(self, pilot: Pilot, now: datetime, numbered: NumberedRequest | None) -> tuple[MatchFound, bool]:
        """One job for a pilot, or why there is none; and whether an earlier request of this number got it."""
        with self._one() as matcher:
            return matcher.match_numbered(pilot, now, numbered) if numbered else (matcher.match(pilot, now), False)

    def close(self) -> None:
        """Let go of all connections that are free."""
        while True:
            try:
                stack, _ = self._free.get_nowait()
            except queue.Empty:
                break
            stack.close()
        self._database.close()

    @contextlib.contextmanager
    def _one(self) -> Iterator[Matcher]:
        if not self._slots.acquire(timeout=self._wait_s):
            raise Problem(503, "matchers_busy", "all matchers are at work", headers={"Retry-After": "1"})
        try:
            stack, matcher = self._taken()
            try:
                yield matcher
            except BaseException:
                with contextlib.suppress(Exception):  # the connection is not used again, whatever is wrong with it
                    stack.close()
                raise
            self._free.put((stack, matcher))
        finally:
            self._slots.release()

    def _taken(self) -> tuple[contextlib.ExitStack, Matcher]:
        try:
            return self._free.get_nowait()
        except queue.Empty:
            pass
        stack = contextlib.ExitStack()
        connection = stack.enter_context(self._database.autocommit())
        generator = np.random.default_rng(secrets.randbits(31))
        return stack, Matcher(Database.raw(connection), self._database.names, generator)


_making = threading.Lock()


def matchers_of(api: ApiState) -> Matchers:
    """The matchers of an application, made at the first request."""
    with _making:
        found = api.kept.get(NAME)
        if not isinstance(found, Matchers):
            section = api.configuration.database
            found = api.kept[NAME] = Matchers(api.database, section.statement_timeout_s, section.wait_s)
            api.at_end.append(found.close)
        return found
