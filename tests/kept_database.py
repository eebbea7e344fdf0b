"""One database for the tests of a folder, emptied between the tests.

Copying and dropping a database costs 1,100 files and three checkpoints, and each new connection has to fill the caches
of its server process. Emptying the tables that a test has written takes a few milliseconds. The emptied database is
compared with its state before the first test; if any difference remains, it is dropped and the next test gets a new
one, so a test may change anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.errors import DatabaseUnavailable

LEAVING_S = 1.0
"""How long to wait for clients that have just closed their connections: they count as connected for a moment."""

_OWN = 16_384
"""The first object identifier of user objects; PostgreSQL's own objects have smaller ones."""

_CATALOGUE = f"""
SELECT (SELECT count(*) FROM pg_class WHERE oid >= {_OWN}),
       (SELECT sum(oid::bigint * (relnatts + 3 * relchecks + 7 * relhastriggers::int + 13 * relhasindex::int
               + 17 * relrowsecurity::int + 19 * relispopulated::int + 23 * relforcerowsecurity::int)
               + relnamespace::bigint * relowner::bigint + hashtext(relname) + ascii(relkind)
               + hashtext(coalesce(reloptions::text, '')) + hashtext(coalesce(relacl::text, '')))
        FROM pg_class WHERE oid >= {_OWN}),
       (SELECT sum(reltuples) FROM pg_class WHERE oid >= {_OWN} AND relkind = 'r'),
       (SELECT count(*) FROM pg_statistic WHERE starelid >= {_OWN}),
       (SELECT count(pg_sequence_last_value(seqrelid)) FROM pg_sequence),
       (SELECT string_agg(concat_ws(' ', nspname, nspowner, nspacl), '; ' ORDER BY oid) FROM pg_namespace
        WHERE nspname !~ '^pg_.*temp_'),
       (SELECT string_agg(setconfig::text, ' ') FROM pg_db_role_setting
        WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())),
       (SELECT concat_ws(' ', datdba, datallowconn, datconnlimit, datacl) FROM pg_database
        WHERE datname = current_database())"""
"""Numbers and texts that describe tables, indexes, statistics, sequences, schemas and the database."""

_COLUMNS = f"""
SELECT sum(attrelid::bigint * attnum + atttypid::bigint * 7 + attnotnull::int * 3 + atthasdef::int * 5
           + attisdropped::int * 11 + atttypmod + hashtext(attname)),
       string_agg(attrelid || attname || attacl::text, ' ') FILTER (WHERE attacl IS NOT NULL)
FROM pg_attribute WHERE attrelid >= {_OWN}"""
"""Describes the columns of all tables and indexes. Reading 5,000 of them takes half of the time of a comparison."""

_COLUMN_WRITES = """
SELECT pg_stat_get_tuples_inserted(c) + pg_stat_get_tuples_updated(c) + pg_stat_get_tuples_deleted(c)
FROM CAST('pg_attribute'::regclass AS oid) AS c"""
"""How many rows were written to the catalogue of columns since the database was created."""

_RARELY_CHANGED = (
    *("pg_attrdef", "pg_constraint", "pg_default_acl", "pg_event_trigger", "pg_extension", "pg_policy", "pg_proc"),
    *("pg_publication", "pg_rewrite", "pg_statistic_ext", "pg_trigger"),
)
"""Catalogues unaffected by temporary tables: a change shows in the transactions that wrote their rows."""

_CHANGES = "SELECT " + ", ".join(
    f"(SELECT sum(hashtext(ctid::text || xmin)) FROM {catalogue} WHERE oid >= {_OWN})" for catalogue in _RARELY_CHANGED
)

_WRITTEN_TABLES = f"""
SELECT oid, oid::regclass::text FROM pg_class
WHERE relkind = 'r' AND relpersistence <> 't' AND oid >= {_OWN} AND pg_relation_size(oid) > 0 ORDER BY 1"""

_TABLES = f"SELECT oid FROM pg_class WHERE relkind IN ('r', 'p') AND relpersistence <> 't' AND oid >= {_OWN} ORDER BY 1"

_RESTART_SEQUENCES = """
SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence
WHERE pg_sequence_last_value(seqrelid) IS NOT NULL"""

_FORGET_STATISTICS = f"DELETE FROM pg_statistic WHERE starelid >= {_OWN}"

_OTHER_CLIENTS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND NOT pid = ANY(%s)"""


_FORGET = """
SET SESSION AUTHORIZATION DEFAULT; RESET ALL; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all();
DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES; SELECT pg_stat_force_next_flush()"""
"""DISCARD ALL without DEALLOCATE ALL, because psycopg would not notice that its prepared statements are gone.

The session then reports its writes without delay, see ``_COLUMN_WRITES``.
"""


class Server(Protocol):
    """Creates and drops databases."""

    def create(self) -> str:
        """Create a database with the current schema and return its address."""
        ...

    def drop(self, name: str) -> None:
        """Drop a database."""
        ...


@dataclass
class InitialState:
    """The state of the database before its first test.

    Attributes:
        tables: object identifiers of all tables.
        filled: names of the tables that have rows, by object identifier.
        state: the result of :func:`read_state`.
        columns: a description of all columns.
        column_writes: how often the catalogue of columns had been written when they were last compared.
        attributes: the attributes of the :class:`Database`, which a test might set.
        pool: the connection pool; closing the database replaces it.
    """

    tables: frozenset[int]
    filled: dict[int, str]
    state: list[object]
    columns: list[tuple[Any, ...]]
    column_writes: int
    attributes: dict[str, object]
    pool: sa.Pool


class KeptDatabase:
    """A database that one test after the other uses."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._database: Database | None = None
        self._initial: InitialState | None = None

    def take(self) -> Database:
        """Return the database, with the current schema and without rows of earlier tests."""
        if self._database is None:
            self._database = Database(self._server.create())
            self._initial = read_initial_state(self._database)
        return self._database

    def give_back(self) -> None:
        """Empty the database for the next test, or drop it if a test has changed more than rows."""
        database, initial = self._database, self._initial
        if database is None or initial is None:
            return
        try:
            restored = restore(database, initial)
        except (sa.exc.SQLAlchemyError, psycopg.Error, DatabaseUnavailable):  # a trigger or a missing privilege refuses
            restored = False
        if not restored:
            self.close()

    def close(self) -> None:
        """Drop the database."""
        if self._database is not None:
            self._database.close()
            self._server.drop(sa.make_url(self._database.url).database or "")
        self._database = self._initial = None


def read_initial_state(database: Database) -> InitialState:
    """Read the current state of the database."""
    with database.autocommit() as connection:
        session = Database.raw(connection)
        _execute(session, _FORGET_STATISTICS)  # statistics inherited from the template would be missing afterwards
        _execute(session, _FORGET)
        tables = frozenset(oid for (oid,) in _rows(session, _TABLES))
        filled = dict(_rows(session, _WRITTEN_TABLES))
        columns, writes = _rows(session, _COLUMNS), _column_writes(session)
        state = read_state(session, filled.values())
        return InitialState(tables, filled, state, columns, writes, dict(vars(database)), database.engine.pool)


def restore(database: Database, initial: InitialState) -> bool:
    """Remove what a test has left, and return whether the database is in its initial state again.

    New tables are dropped, initially empty tables are truncated, sequences restart, and the results of ANALYZE are
    deleted. Sessions lose their settings, locks and temporary tables.
    """
    pool = database.engine.pool
    if vars(database) != initial.attributes or pool is not initial.pool:
        return False
    if not isinstance(pool, sa.QueuePool) or pool.checkedout():
        return False
    connections = [database.engine.connect() for _ in range(max(pool.checkedin(), 1))]
    try:
        sessions = [Database.raw(connection) for connection in connections]
        for session in sessions:
            session.rollback()
            session.autocommit = True
            _execute(session, _FORGET)
        return _no_other_clients(sessions) and _emptied(sessions[0], initial)
    finally:
        for connection in connections:
            Database.raw(connection).autocommit = False
            connection.close()


def read_state(session: psycopg.Connection[Any], tables: Iterable[str]) -> list[object]:
    """Read a description of the schema and the rows of some tables, for comparison."""
    rows = [_rows(session, f"SELECT t::text FROM {name} AS t ORDER BY 1") for name in tables]
    return [rows, _rows(session, _CATALOGUE), _rows(session, _CHANGES)]


def _emptied(session: psycopg.Connection[Any], initial: InitialState) -> bool:
    """Empty the database, and return whether it is in its initial state again."""
    writes = _column_writes(session)
    columns_written = writes != initial.column_writes
    if columns_written:
        _drop_new_tables(session, initial.tables)
    written_tables = [name for oid, name in _rows(session, _WRITTEN_TABLES) if oid not in initial.filled]
    if written_tables:
        _execute(session, f"TRUNCATE {', '.join(written_tables)} RESTART IDENTITY CASCADE")
    _execute(session, f"{_RESTART_SEQUENCES}; {_FORGET_STATISTICS}")
    if columns_written and _rows(session, _COLUMNS) != initial.columns:
        return False
    initial.column_writes = _column_writes(session)
    return read_state(session, initial.filled.values()) == initial.state


def _drop_new_tables(session: psycopg.Connection[Any], old_tables: frozenset[int]) -> None:
    for (oid,) in _rows(session, _TABLES):
        if oid not in old_tables:
            for (name,) in _rows(session, f"SELECT oid::regclass::text FROM pg_class WHERE oid = {oid}"):
                _execute(session, f"DROP TABLE {name} CASCADE")
    _execute(session, "SELECT pg_stat_force_next_flush()")  # otherwise the next test would see these writes as its own


def _column_writes(session: psycopg.Connection[Any]) -> int:
    ((writes,),) = _rows(session, _COLUMN_WRITES)
    return int(writes)


def _no_other_clients(sessions: list[psycopg.Connection[Any]]) -> bool:
    """Return whether only these sessions are connected, after waiting for clients that are about to leave."""
    own_pids, deadline = [session.info.backend_pid for session in sessions], time.monotonic() + LEAVING_S
    while sessions[0].execute(_OTHER_CLIENTS, (own_pids,)).fetchone() != (0,):
        if time.monotonic() > deadline:
            return False
    return True


def _rows(session: psycopg.Connection[Any], text: str) -> list[tuple[Any, ...]]:
    return session.execute(text.encode()).fetchall()


def _execute(session: psycopg.Connection[Any], text: str) -> None:
    session.execute(text.encode())
