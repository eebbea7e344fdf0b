"""What the matchers of a process learn alongside the pilots: where jobs came, what changed, and which nodes asked.

Everything is read and written in small parts, with pauses: threads of a process take turns, and while one of them reads
thousands of rows, requests wait.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from broker.errors import BrokerError
from broker.pilots.statements.presented_nodes import NodeNotes, write_nodes
from broker.pilots.statements.task_queue_rows import CHANNEL
from broker.pilots.statements.task_queue_views import Views
from broker.store.connection.database import Database
from broker.store.connection.transient import TRANSIENT_ERRORS

LISTENS_AGAIN_AFTER_S, HEARS_ITS_END_AFTER_S = 5.0, 0.5
PAUSES = 5.0
"""How many times as long as a part took the pause lasts in which nothing more is read or written."""
_LOST: tuple[type[Exception], ...] = (BrokerError, psycopg.Error, *TRANSIENT_ERRORS)


class News:
    """Listens for task queues to which jobs came, so that pilots find them at once; writes which nodes asked.

    News that is missed while the connection is lost is found when everything is reread. The connection is made again.
    Pilots do not wait for what is read here; it takes a sixth of the time at most, and none while nobody asks. Nodes
    are written each minute; those that cannot be written are left out.

    Args:
        database: database whose pool has room for a connection.
        views: the known task queues.
        notes: the nodes that asked.
        now: returns the time on this host (aware).
    """

    def __init__(self, database: Database, views: Views, notes: NodeNotes, now: Callable[[], datetime]) -> None:
        self._database, self._views, self._notes, self._now = database, views, notes, now
        self._to_read: set[int] | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="matcher news", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
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
        self._to_read = None  # earlier news was missed
        while not self._ends.is_set():
            began = monotonic()
            if self._read_and_write(connection):
                self._hear(connection, PAUSES * (monotonic() - began), stop_after=None)
            else:
                self._hear(connection, HEARS_ITS_END_AFTER_S, stop_after=1)

    def _hear(self, connection: psycopg.Connection[Any], for_s: float, stop_after: int | None) -> None:
        """Listen for some seconds; ``stop_after``: end after this many messages, None: not before."""
        ends_at = monotonic() + for_s
        while not self._ends.is_set() and (left_s := ends_at - monotonic()) > 0:
            for news in connection.notifies(timeout=min(left_s, HEARS_ITS_END_AFTER_S), stop_after=stop_after):
                queues = queues_of(news.payload)
                self._to_read = None if queues is None or self._to_read is None else self._to_read | queues
                if stop_after is not None:
                    return

    def _read_and_write(self, connection: psycopg.Connection[Any]) -> bool:
        """Read and write a part of each that is due. Returns whether anything was."""
        now = self._now()
        with connection.cursor(row_factory=tuple_row) as cursor:
            has_read = [self._read_queues(cursor, now), self._read_part(cursor, now), self._views.refresh(cursor, now)]
        if (noted := self._notes.due()) is not None:
            with connection.transaction():
                write_nodes(connection, noted)
        return any(has_read) or noted is not None

    def _read_queues(self, cursor: psycopg.Cursor[Any], now: datetime) -> bool:
        """Read the task queues to which jobs came; all where it may be any. Returns whether any were read."""
        groups, queues = self._views.groups, self._to_read
        if queues is None and groups.current is None:
            self._to_read = set()  # the first pilot reads all
        if (not queues and queues is not None) or not groups.has_requests:
            return False
        if queues is None:
            self._to_read = set()
            groups.read(cursor, now, timedelta(0))
        else:
            part = set(islice(queues, groups.part))
            self._to_read = queues - part
            groups.read_some(cursor, part)
        return True

    def _read_part(self, cursor: psycopg.Cursor[Any], now: datetime) -> bool:
        """Read the next part of all task queues, where that is due. Returns whether it was."""
        is_due = self._views.groups.is_part_due(now)
        if is_due:
            self._views.groups.read_part(cursor, now)
        return is_due


def queues_of(payload: str) -> frozenset[int] | None:
    """The task queues that a message names; None: it may be any."""
    try:
        content = json.loads(payload)
    except ValueError:
        return None
    is_list = isinstance(content, list) and all(type(number) is int for number in content)
    return frozenset(content) if is_list else None
