"""Two restricted views of a database: one only reads, the other tries changes that are rolled back.

All transactions of the second (:func:`rolled_back`) are parts of one that is rolled back at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import Names


class ReadOnlyDatabase:
    """Provides nothing but read-only transactions of a database, in which the server refuses writes."""

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


class TriedDatabase(Database):
    """A database seen through one transaction; create it with :func:`rolled_back`."""

    def __init__(self, database: Database, connection: sa.Connection) -> None:
        """Use ``connection``, which is in the transaction that will be rolled back."""
        self.__dict__.update(database.__dict__)
        self._on_close = None
        self._tried = connection

    @contextlib.contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """A savepoint of the transaction: only the block is undone when it raises."""
        with self._tried.begin_nested():
            yield self._tried

    @contextlib.contextmanager
    def read_snapshot(self) -> Iterator[sa.Connection]:
        """The same transaction, which sees the trial changes."""
        yield self._tried


@contextlib.contextmanager
def rolled_back(database: Database) -> Iterator[Database]:
    """``database`` within one transaction that sees a single instant and is rolled back."""
    with database.repeatable() as connection:
        yield TriedDatabase(database, connection)
