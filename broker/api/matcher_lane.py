"""A matcher on a connection of its own, which the event loop and threads use in turn."""

from __future__ import annotations

import contextlib
import secrets

import numpy as np
import psycopg
import sqlalchemy as sa
from sqlalchemy import exc as sa_exc

from broker.api.quick_connection import QuickConnection
from broker.store.connection.database import Database
from broker.store.matching.job_match import Matcher
from broker.store.matching.task_queue_views import Views

# The same statements with other values: to plan one anew for its values takes longer than to run it.
_PLANS = "SET plan_cache_mode = force_generic_plan"


class Lane:
    """One of them; nobody uses it while somebody else does.

    Args:
        database: its pool has room for it.
        views: what is known of the task queues; all lanes of a process share it.

    Attributes:
        matcher: while it is open.
        quick: the same connection for the event loop, while it is open.
    """

    matcher: Matcher
    quick: QuickConnection
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
            DatabaseUnavailable: nobody answers.
        """
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(self._database.autocommit())
            connection.exec_driver_sql(_PLANS)
            raw = Database.raw(connection)
            generator = np.random.default_rng(secrets.randbits(31))
            self.matcher = Matcher(raw, self._database.names, generator, self._views)
            self.quick = QuickConnection(raw)
            self._connection, self._stack = connection, stack.pop_all()

    def drop(self) -> None:
        """Let go of the connection, whatever is wrong with it; another is made when it is needed."""
        stack, self._stack = self._stack, None
        if stack is None:
            return
        with contextlib.suppress(sa_exc.SQLAlchemyError, psycopg.Error):
            self._connection.invalidate()
            stack.close()

    def close(self) -> None:
        """Let go of the connection, where there is one."""
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()
