"""Statements of a matcher on a libpq connection, run by the event loop itself or by a thread."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from psycopg.pq import ExecStatus
from sqlalchemy import exc as sa_exc

from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.running_limits import give_back
from broker.pilots.statements.task_queue_views import Views
from broker.store.connection.database import Database

Row = tuple[int | None, ...]
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


class AsyncLibpq:
    """Runs one statement at a time on ``connection``, which is in autocommit mode and not used elsewhere meanwhile.

    Args:
        connection: an open connection.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._pgconn = connection.pgconn
        self._prepared: dict[str, bytes] = {}

    async def rows(self, statement: str, values: Sequence[str]) -> list[Row]:
        """Run a statement and return its rows; its plan is kept for the next time.

        Raises:
            psycopg.Error: as psycopg would raise it.
        """
        name = self._prepared.get(statement)
        if name is None:
            name = b"quick_%d" % len(self._prepared)
            self._pgconn.send_prepare(name, statement.encode())
            await self._results()
            self._prepared[statement] = name
        self._pgconn.send_query_prepared(name, [value.encode() for value in values])
        result = (await self._results())[-1]
        columns = range(result.nfields)
        return [
            tuple(None if (value := result.get_value(row, column)) is None else int(value) for column in columns)
            for row in range(result.ntuples)
        ]

    async def _results(self) -> list[psycopg.pq.abc.PGresult]:
        """All results of the statement that was sent.

        Raises:
            psycopg.Error: the statement failed, or the connection is lost.
        """
        while self._pgconn.flush():
            await self._ready(writing=True)
        results = []
        while True:
            while self._pgconn.is_busy():
                await self._ready(writing=False)
                self._pgconn.consume_input()
            result = self._pgconn.get_result()
            if result is None:
                break
            results.append(result)
        for one in results:
            if one.status not in _GOOD:
                raise _error(one)
        return results

    async def _ready(self, *, writing: bool) -> None:
        """Wait until the socket can be read, or also written."""
        loop, socket = asyncio.get_running_loop(), self._pgconn.socket
        ready: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(socket, wake)
        if writing:
            loop.add_writer(socket, wake)
        try:
            await ready
        finally:
            loop.remove_reader(socket)
            if writing:
                loop.remove_writer(socket)


def _error(result: psycopg.pq.abc.PGresult) -> psycopg.Error:
    state = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
    message = (result.error_message or b"").decode("utf-8", "replace").strip()
    try:
        kind = psycopg.errors.lookup("" if state is None else state.decode())
    except KeyError:
        kind = psycopg.OperationalError
    return kind(message)


# The same statements run with other values: planning one anew for its values takes longer than running it.
_PLANS = "SET plan_cache_mode = force_generic_plan"


class MatcherConnection:
    """A matcher on a connection of its own; only one group uses it at a time.

    Args:
        database: database whose pool has room for the connection.
        views: the known task queues; all connections of a process share them.

    Attributes:
        matcher: the matcher, while it is open.
        async_libpq: the same connection for the event loop, while it is open.
    """

    matcher: Matcher
    async_libpq: AsyncLibpq
    _connection: sa.Connection

    def __init__(self, database: Database, views: Views) -> None:
        self._database, self._views = database, views
        self._stack: contextlib.ExitStack | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._stack is not None

    def open(self) -> None:
        """Connect.

        Raises:
            DatabaseUnavailable: the database does not answer.
        """
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(self._database.autocommit())
            connection.exec_driver_sql(_PLANS)
            raw = Database.raw(connection)
            generator = np.random.default_rng(secrets.randbits(31))
            self.matcher = Matcher(raw, self._database.names, generator, self._views)
            self.async_libpq = AsyncLibpq(raw)
            self._connection, self._stack = connection, stack.pop_all()

    def drop(self) -> None:
        """Drop the connection, whatever is wrong with it; another is made when it is needed."""
        stack, self._stack = self._stack, None
        if stack is None:
            return
        with contextlib.suppress(sa_exc.SQLAlchemyError, psycopg.Error):
            self._connection.invalidate()
            stack.close()

    def give_back(self) -> None:
        """Give back the tokens of running limits that the process holds; if that fails, they are free after a while."""
        if self._stack is not None:
            with contextlib.suppress(psycopg.Error):
                give_back(Database.raw(self._connection), self._views.tokens)

    def close(self) -> None:
        """Close the connection, if there is one."""
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()
