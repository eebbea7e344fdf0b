"""A database of which its holder can only read."""

from __future__ import annotations

from contextlib import AbstractContextManager

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.names import Names


class ReadOnlyDatabase:
    """Hands out read-only transactions of a database, and nothing else: the server refuses to write in them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def names(self) -> Names:
        """The schema names in it."""
        return self._database.names

    def read_snapshot(self) -> AbstractContextManager[sa.Connection]:
        """One read-only REPEATABLE READ transaction: every query sees the same instant."""
        return self._database.read_snapshot()

    def __repr__(self) -> str:
        return repr(self._database)
