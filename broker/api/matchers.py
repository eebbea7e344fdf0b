"""Matchers that stay connected. Requests that come while one is at work are matched together, in one transaction.

What a matcher remembers of the task queues saves reading them for every pilot, and one commit for several pilots saves
waiting for the disk for each. Nobody is answered before the commit.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from broker.api.kept_connections import KeptConnections
from broker.api.problems import Problem
from broker.api.state import ApiState
from broker.errors import BrokerError
from broker.pools.matcher import Pilot
from broker.store.connection.database import Database
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.matching.job_match import Matcher, MatchFound, NumberedRequest

_log = logging.getLogger(__name__)

THREADS = 2
MOST_TOGETHER = 16
MOST_WAITING = 1000
"""Requests that wait for a matcher; those beyond are asked to come again."""
NAME = "matchers"

_OF_ALL = (BrokerError, Problem, *TRANSIENT_ERRORS)
"""What is wrong with the database is wrong for each request of a group."""

Answered = tuple[MatchFound, bool]
"""What was found, and whether an earlier request of this number got it."""


@dataclass(frozen=True)
class _Waiting:
    pilot: Pilot
    numbered: NumberedRequest | None
    answer: asyncio.Future[Answered]


class Matchers:
    """A few threads, each with a matcher on a connection of its own.

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
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._matchers: KeptConnections[Matcher] = KeptConnections(
            database,
            "gridbroker matcher",
            THREADS,
            statement_timeout_s=statement_timeout_s,
            wait_s=wait_s,
            make=lambda connection: Matcher(connection, database.names, np.random.default_rng(secrets.randbits(31))),
        )
        self._threads = [threading.Thread(target=self._work, name=f"matcher {n}", daemon=True) for n in range(THREADS)]
        for thread in self._threads:
            thread.start()

    async def match(self, pilot: Pilot, numbered: NumberedRequest | None) -> Answered:
        """One job for a pilot, or why there is none; and whether an earlier request of this number got it.

        Raises:
            Problem: 503, too many wait.
        """
        if self._waiting.qsize() >= MOST_WAITING:
            raise Problem(503, "matchers_busy", "all matchers are at work", headers={"Retry-After": "1"})
        answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.put(_Waiting(pilot, numbered, answer))
        return await answer

    def close(self) -> None:
        """End the threads, and let go of all connections."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()
        self._matchers.close()

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            together = [first]
            while len(together) < MOST_TOGETHER:
                try:
                    one = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if one is None:  # the end, once these are answered
                    self._waiting.put(None)
                    break
                together.append(one)
            self._answer(together)

    def _answer(self, together: list[_Waiting]) -> None:
        loop = together[0].answer.get_loop()
        try:
            with self._matchers.one() as matcher:
                found = matcher.match_together([(one.pilot, one.numbered) for one in together], self._now())
        except Exception as error:  # a request ends with it, and says what it may; those beside it do not
            if len(together) == 1 or isinstance(error, _OF_ALL):
                _tell(loop, _fail, together, error)
                return
            for one in together:
                self._answer([one])
            return
        _tell(loop, _settle, together, found)


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[..., None], together: list[_Waiting], result: object) -> None:
    try:
        loop.call_soon_threadsafe(what, together, result)
    except RuntimeError as error:  # the loop is closed: nobody waits any more
        _log.warning("pilots were not answered", extra={"fields": {"pilots": len(together), "error": str(error)}})


def _settle(together: list[_Waiting], found: list[Answered]) -> None:
    for one, answer in zip(together, found, strict=True):
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
