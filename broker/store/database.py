"""Connections to PostgreSQL: short transactions, read-only snapshots, errors with names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import psycopg
import sqlalchemy as sa
from sqlalchemy import exc as sa_exc

from broker.store.errors import BadDatabaseUrl, CommitOutcomeUnknown, DatabaseUnavailable, ServerTooOld
from broker.store.names import Names

OLDEST_SERVER = 15
"""The oldest major version of PostgreSQL that the broker is tested with."""

_LOST = ("08", "57P01", "57P02", "57P03", "57P05")
_DRIVER = "postgresql+psycopg"
_REMEDY = "check that PostgreSQL runs there and that the address is right (--db or BROKER_DATABASE_URL)"


def parse_url(url: str) -> sa.URL:
    """``url`` as an address for SQLAlchemy with psycopg 3.

    Raises:
        BadDatabaseUrl: it cannot be parsed or is not PostgreSQL's.
    """
    try:
        parsed = sa.make_url(url)
    except (sa_exc.ArgumentError, ValueError) as error:
        raise BadDatabaseUrl("the database address cannot be read", "", _example()) from error
    if parsed.drivername not in ("postgresql", "postgres", _DRIVER):
        raise BadDatabaseUrl(f"not a PostgreSQL address: {parsed.drivername}://...", "", _example())
    return parsed.set(drivername=_DRIVER)


def _example() -> str:
    return "write postgresql://user@host:5432/name"


class Database:
    """One PostgreSQL database, with a pool of connections.

    Args:
        url: ``postgresql://`` address.
        names: the schema names in it.
        application_name: shown in ``pg_stat_activity``.
        pool_size: connections kept open.
        on_close: called once by :meth:`close` (stops the embedded server).
    """

    def __init__(
        self,
        url: str,
        names: Names | None = None,
        *,
        application_name: str = "gridbroker",
        pool_size: int = 5,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.names = names or Names()
        parsed = parse_url(url)
        plain = parsed.set(drivername="postgresql")
        self._shown = plain.render_as_string(hide_password=True)
        self.url = plain.render_as_string(hide_password=False)
        self._on_close = on_close
        self.engine = sa.create_engine(
            parsed,
            pool_pre_ping=True,
            pool_size=pool_size,
            connect_args={
                "application_name": application_name,
                "connect_timeout": 10,
                "options": "-c timezone=UTC -c jit=off",
            },
        )

    @contextlib.contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """One transaction: committed at the end of the block, rolled back when it raises.

        Raises:
            DatabaseUnavailable: no connection, or it was lost; nothing was kept.
            CommitOutcomeUnknown: it was lost during COMMIT.
        """
        with self._connection() as connection:
            transaction = connection.begin()
            try:
                yield connection
            except BaseException as error:
                self._roll_back(transaction)
                self._raise_if_lost(error)
                raise
            self._commit(transaction)

    @contextlib.contextmanager
    def read_snapshot(self) -> Iterator[sa.Connection]:
        """One read-only REPEATABLE READ transaction: every query sees the same instant."""
        with self._connection() as connection:
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            transaction = connection.begin()
            try:
                yield connection
            except BaseException as error:
                self._raise_if_lost(error)
                raise
            finally:
                self._roll_back(transaction)

    @contextlib.contextmanager
    def autocommit(self) -> Iterator[sa.Connection]:
        """A connection outside transactions, for statements that PostgreSQL refuses inside one."""
        with self._connection() as connection:
            try:
                yield connection.execution_options(isolation_level="AUTOCOMMIT")
            except BaseException as error:
                self._raise_if_lost(error)
                raise

    @staticmethod
    def raw(connection: sa.Connection) -> psycopg.Connection[Any]:
        """The psycopg connection below ``connection``, in the same transaction, for COPY."""
        return cast("psycopg.Connection[Any]", connection.connection.driver_connection)

    def server_version(self) -> int:
        """Major version of the server.

        Raises:
            ServerTooOld: it is not supported.
        """
        with self._connection() as connection:
            number = int(connection.scalar(sa.text("SHOW server_version_num")) or 0)
        if number < OLDEST_SERVER * 10_000:
            raise ServerTooOld(
                f"PostgreSQL {number // 10_000} is too old", self._shown, f"use PostgreSQL {OLDEST_SERVER} or newer"
            )
        return number // 10_000

    def close(self) -> None:
        """Closes all connections and, where this object started it, lets go of the embedded server."""
        self.engine.dispose()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({self._shown!r})"

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        try:
            connection = self.engine.connect()
        except sa_exc.DBAPIError as error:
            raise DatabaseUnavailable(f"cannot connect: {_first_line(error.orig)}", self._shown, _REMEDY) from error
        with connection:
            yield connection

    def _commit(self, transaction: sa.RootTransaction) -> None:
        try:
            transaction.commit()
        except (sa_exc.DBAPIError, psycopg.Error) as error:
            if not is_connection_lost(error):
                raise
            raise CommitOutcomeUnknown(
                "the connection was lost during COMMIT", self._shown, "read back what was written before repeating it"
            ) from error

    @staticmethod
    def _roll_back(transaction: sa.RootTransaction) -> None:
        # A dead connection has nothing left to roll back; the error that killed it is already on its way.
        with contextlib.suppress(sa_exc.DBAPIError, psycopg.Error):
            transaction.rollback()

    def _raise_if_lost(self, error: BaseException) -> None:
        if is_connection_lost(error):
            raise DatabaseUnavailable(
                f"the connection was lost: {_first_line(getattr(error, 'orig', None) or error)}",
                self._shown,
                "nothing of the transaction was kept; try again when the server is back",
            ) from error


def is_connection_lost(error: BaseException) -> bool:
    """Whether ``error`` (of SQLAlchemy or psycopg) means that the connection is gone."""
    if isinstance(error, sa_exc.DBAPIError):
        return bool(error.connection_invalidated) or is_connection_lost(error.orig or Exception())
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(_LOST)


def _first_line(error: BaseException | None) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
