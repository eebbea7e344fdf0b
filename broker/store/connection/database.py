"""Connections to PostgreSQL: short transactions, read-only snapshots, and named errors."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, cast

import psycopg
import sqlalchemy as sa
from sqlalchemy import exc as sa_exc
from sqlalchemy.pool import ConnectionPoolEntry

from broker.store.connection.address import parse_url, shown_url
from broker.store.connection.deadlines import DEADLINES
from broker.store.connection.denials import denial_of
from broker.store.connection.errors import (
    CommitOutcomeUnknown,
    ConnectionCut,
    DatabaseUnavailable,
    OnlyReads,
    ServerTooOld,
)
from broker.store.connection.lost_connections import first_line, is_connection_lost, sqlstate_of
from broker.store.connection.open_connections import OpenConnections
from broker.store.connection.tables import Names
from broker.store.connection.writer_guard import WriterGuard

OLDEST_SERVER = 15
"""The oldest major version of PostgreSQL that the broker is tested with."""

SILENCE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""libpq's settings against peers that vanish (PostgreSQL documentation, 32.1.2): the kernel gives up a silent peer 14 s
after its last packet (idle, then count times interval), or 15 s (here in ms) after data that it did not acknowledge."""

CONNECT_WITHIN_S = 10
"""Seconds for connecting, and for the first queries on a new connection."""
PING_WITHIN_S = 5.0
"""Seconds within which a pooled connection has to answer a ping."""
_SHORTEST_S = 0.1
_LONGEST_MS = 2**31 - 1
_left_s: ContextVar[float] = ContextVar("_left_s", default=float("inf"))
"""Seconds left to the work for which a connection is being taken from a pool."""

# The connections that the current attempt to connect has opened; None outside of an attempt.
_new_connections: ContextVar[list[psycopg.Connection[Any]] | None] = ContextVar("_new_connections", default=None)

_ONLY_READS = "25006"
"""SQLSTATE of a write in a read-only transaction, such as any on a standby."""
_REMEDY = "check that PostgreSQL runs there and that the address is right (--db or BROKER_DATABASE_URL)"


class Database:
    """One PostgreSQL database, with a pool of connections.

    Args:
        url: ``postgresql://`` address.
        names: the schema names of the database.
        application_name: shown in ``pg_stat_activity``.
        pool_size: number of connections kept open.
        statement_timeout_s: time after which PostgreSQL cancels a statement; None: no limit. With a limit,
            ``pool_size`` is also the largest number of connections.
        pool_timeout_s: how long to wait for a connection of the pool.
        on_close: called once by :meth:`close` (stops the embedded server).
        only_reads: whether every transaction is read-only.

    Attributes:
        guard: consulted in each transaction that may write; None if any schema is accepted.
    """

    def __init__(
        self,
        url: str,
        names: Names | None = None,
        *,
        application_name: str = "gridbroker",
        pool_size: int = 5,
        statement_timeout_s: float | None = None,
        pool_timeout_s: float = 30.0,
        on_close: Callable[[], None] | None = None,
        only_reads: bool = False,
    ) -> None:
        self.names = names or Names()
        parsed = parse_url(url)
        plain = parsed.set(drivername="postgresql")
        self._shown = shown_url(parsed)
        self.url = plain.render_as_string(hide_password=False)
        self._on_close = on_close
        self.guard: WriterGuard | None = None
        self._work: OpenConnections | None = None
        self._left_s: Callable[[], float] = lambda: float("inf")
        silence = {name: value for name, value in SILENCE.items() if name not in parsed.query}
        limits = "" if statement_timeout_s is None else f" -c statement_timeout={math.ceil(statement_timeout_s * 1000)}"
        if only_reads:
            limits += " -c default_transaction_read_only=on"
        self.engine = sa.create_engine(
            parsed,
            pool_size=pool_size,
            max_overflow=10 if statement_timeout_s is None else 0,
            pool_timeout=pool_timeout_s,
            # no table has the hstore type, which the first connection would otherwise look up in the catalogue
            use_native_hstore=False,
            connect_args={
                "application_name": application_name,
                "options": f"-c timezone=UTC -c jit=off{limits}",
                **silence,
            },
        )
        _bound_pool(self.engine)

    def limited(self, work: OpenConnections, left_s: Callable[[], float]) -> Database:
        """A view of this database for one piece of work: the same pool, but with limits on each transaction.

        Args:
            work: registers the connections, so that another thread can cut them.
            left_s: returns the seconds left to the work; each statement of a transaction, and each wait for a lock,
                may take as long as was left when the transaction began.
        """
        own = copy.copy(self)
        own._work, own._left_s, own._on_close = work, left_s, None
        return own

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[Database]:
        """A view of this database for short work: after ``seconds`` its connections are cut, whatever the peer does.

        The work then ends with :class:`~broker.store.connection.errors.ConnectionCut`.
        """
        work = OpenConnections()
        with DEADLINES.after(seconds, lambda: work.cut(f"no answer within {seconds:g} s")) as left_s:
            yield self.limited(work, left_s)

    def sibling(
        self,
        application_name: str,
        pool_size: int,
        *,
        statement_timeout_s: float | None = None,
        pool_timeout_s: float = 30.0,
        only_reads: bool = False,
    ) -> Database:
        """A separate connection pool for the same database, for work that must not wait for this pool."""
        own = Database(
            self.url,
            self.names,
            application_name=application_name,
            pool_size=pool_size,
            statement_timeout_s=statement_timeout_s,
            pool_timeout_s=pool_timeout_s,
            only_reads=only_reads,
        )
        own.guard = self.guard
        return own

    @contextlib.contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """Run the block in one transaction: committed at its end, rolled back when it raises.

        Raises:
            DatabaseUnavailable: there is no connection, or it was lost; nothing was kept.
            CommitOutcomeUnknown: the connection was lost during COMMIT.
            OnlyReads: the block writes, and the server is a standby.
            SchemaTooNew: the block writes, and a newer broker has upgraded the schema past this one.
        """
        with self._connection() as connection:
            transaction, too_new = connection.begin(), None
            try:
                self._limit(connection)
                too_new = None if self.guard is None else self.guard.limit(connection)
                yield connection
            except BaseException as error:
                self._roll_back(transaction)
                if too_new is not None and sqlstate_of(error) == _ONLY_READS:
                    raise too_new from error
                if sqlstate_of(error) == _ONLY_READS:
                    what, remedy = "this server only reads: it follows another one", "name the primary for what writes"
                    raise OnlyReads(what, self._shown, remedy) from error
                self._raise_if_lost(error)
                raise
            self._commit(transaction)

    @contextlib.contextmanager
    def read_snapshot(self) -> Iterator[sa.Connection]:
        """One read-only REPEATABLE READ transaction: every query sees the same instant."""
        with self._rolled_back(postgresql_readonly=True) as connection:
            yield connection

    @contextlib.contextmanager
    def repeatable(self) -> Iterator[sa.Connection]:
        """One REPEATABLE READ transaction that may write, and is always rolled back."""
        with self._rolled_back() as connection:
            yield connection

    @contextlib.contextmanager
    def _rolled_back(self, **options: bool) -> Iterator[sa.Connection]:
        with self._connection() as connection:
            connection = connection.execution_options(isolation_level="REPEATABLE READ", **options)
            transaction = connection.begin()
            try:
                self._limit(connection)
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
        """The psycopg connection underlying ``connection``, in the same transaction, for COPY."""
        return cast("psycopg.Connection[Any]", connection.connection.driver_connection)

    def server_version(self) -> int:
        """The major version of the server.

        Raises:
            ServerTooOld: the version is not supported.
        """
        with self._connection() as connection:
            number = int(connection.scalar(sa.text("SHOW server_version_num")) or 0)
        if number < OLDEST_SERVER * 10_000:
            raise ServerTooOld(
                f"PostgreSQL {number // 10_000} is too old", self._shown, f"use PostgreSQL {OLDEST_SERVER} or newer"
            )
        return number // 10_000

    def close(self) -> None:
        """Close all connections and release the embedded server if this object started it.

        A connection that another thread still uses is closed when that thread returns it.
        """
        _close_on_return(self.engine.pool)
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
        new_connections: list[psycopg.Connection[Any]] = []
        waiting, attempt = _left_s.set(self._left_s()), _new_connections.set(new_connections)
        try:
            connection = self.engine.connect()
        except BaseException as error:
            # SQLAlchemy drops a new connection without closing it when its first queries fail.
            for unusable in new_connections:
                unusable.close()
            if isinstance(error, sa_exc.DBAPIError):
                raise DatabaseUnavailable(f"cannot connect: {first_line(error.orig)}", self._shown, _REMEDY) from error
            raise
        finally:
            _left_s.reset(waiting)
            _new_connections.reset(attempt)
        with connection:
            if self._work is None:
                yield connection
                return
            with self._work.using(self.raw(connection)):
                yield connection

    def _limit(self, connection: sa.Connection) -> None:
        """Limit the statements of this transaction to the time left to the work."""
        left_s = self._left_s()
        if left_s == float("inf"):
            return
        limit_ms = min(max(int(left_s * 1000), 1), _LONGEST_MS)
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {limit_ms}; SET LOCAL lock_timeout = {limit_ms}")

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
        """Raise a named error in place of ``error`` if it means a missing privilege or a lost connection."""
        denied = denial_of(error, self.names, str(sa.make_url(self.url).username or ""))
        if denied is not None:
            raise denied from error
        if not is_connection_lost(error):
            return
        if self._work is not None and self._work.cut_because is not None:
            raise ConnectionCut(
                f"this process closed the connection: {self._work.cut_because}",
                self._shown,
                "nothing of the transaction was kept; it is tried again",
            ) from error
        raise DatabaseUnavailable(
            f"the connection was lost: {first_line(getattr(error, 'orig', None) or error)}",
            self._shown,
            "nothing of the transaction was kept; try again when the server is back",
        ) from error


def _bound_pool(engine: sa.Engine) -> None:
    """Bound the wait for a silent peer while a connection is opened or taken from the pool."""

    @sa.event.listens_for(engine, "do_connect")
    def connect(
        dialect: sa.Dialect, record: ConnectionPoolEntry, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        within_s = _patience_s(float(keywords.get("connect_timeout", CONNECT_WITHIN_S)))
        connection = dialect.connect(*arguments, **keywords | {"connect_timeout": math.ceil(within_s)})
        new_connections = _new_connections.get()
        if new_connections is not None:
            new_connections.append(cast("psycopg.Connection[Any]", connection))
        watch = contextlib.ExitStack()
        watch.enter_context(_cut_after(cast("psycopg.Connection[Any]", connection), within_s))
        record.info["first_questions"] = watch
        return connection

    @sa.event.listens_for(engine, "checkout")
    def ping(connection: psycopg.Connection[Any], record: ConnectionPoolEntry, proxy: object) -> None:
        """Ping a pooled connection; a new one has just answered SQLAlchemy's first queries."""
        first_questions = record.info.pop("first_questions", None)
        if first_questions is not None:
            first_questions.close()
            return
        try:
            with _cut_after(connection, _patience_s(PING_WITHIN_S)):
                engine.dialect.do_ping(cast("sa.engine.interfaces.DBAPIConnection", connection))
        except (psycopg.Error, OSError) as error:
            raise sa_exc.InvalidatePoolError from error

    @sa.event.listens_for(engine, "checkin")
    def leave_to_the_server(connection: psycopg.Connection[Any] | None, record: ConnectionPoolEntry) -> None:
        """Undo the read-write mode that SQLAlchemy sets after a read-only transaction: a standby refuses it."""
        if connection is not None and connection.read_only is False and not connection.closed:
            connection.read_only = None


def _close_on_return(pool: sa.Pool) -> None:
    """Close connections returned to ``pool`` from now on: after its disposal nobody takes them out again."""

    @sa.event.listens_for(pool, "checkin")
    def close(connection: psycopg.Connection[Any] | None, record: ConnectionPoolEntry) -> None:
        if connection is not None:
            record.invalidate()


def _patience_s(usual_s: float) -> float:
    """Seconds to wait for a peer: ``usual_s``, or the time left to the work if that is shorter."""
    return max(min(usual_s, _left_s.get()), _SHORTEST_S)


@contextlib.contextmanager
def _cut_after(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    work = OpenConnections()
    with work.using(connection), DEADLINES.after(seconds, lambda: work.cut(f"no answer within {seconds:g} s")):
        yield
