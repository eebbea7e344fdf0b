"""Statements on a connection of libpq from the event loop itself: no thread is woken, and nobody waits for another.

For a few statements that are run very often. Parameters and results are in the text form of PostgreSQL; columns are
whole numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.pq import ExecStatus

Row = tuple[int | None, ...]
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


class QuickConnection:
    """Runs one statement at a time on ``connection``, which is in autocommit mode and used by nobody else meanwhile.

    Args:
        connection: an open one.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._pgconn = connection.pgconn
        self._prepared: dict[str, bytes] = {}

    async def rows(self, statement: str, values: Sequence[str]) -> list[Row]:
        """The rows that a statement finds; its plan is kept for the next time.

        Raises:
            psycopg.Error: as psycopg has it.
        """
        name = self._prepared.get(statement)
        if name is None:
            name = b"quick_%d" % len(self._prepared)
            self._pgconn.send_prepare(name, statement.encode())
            await self._results()
            self._prepared[statement] = name
        self._pgconn.send_query_prepared(name, [value.encode() for value in values])
        found = (await self._results())[-1]
        columns = range(found.nfields)
        return [
            tuple(None if (value := found.get_value(row, column)) is None else int(value) for column in columns)
            for row in range(found.ntuples)
        ]

    async def _results(self) -> list[psycopg.pq.abc.PGresult]:
        """All results of what was sent.

        Raises:
            psycopg.Error: the statement failed, or the connection is lost.
        """
        while self._pgconn.flush():
            await self._ready(writing=True)
        found = []
        while True:
            while self._pgconn.is_busy():
                await self._ready(writing=False)
                self._pgconn.consume_input()
            result = self._pgconn.get_result()
            if result is None:
                break
            found.append(result)
        for one in found:
            if one.status not in _GOOD:
                raise _error(one)
        return found

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
