"""One database that the tests of a folder use one after the other, emptied in between.

To copy and to remove a database takes 1,100 files and three checkpoints, and each new connection fills the caches of
its server process anew; to empty the tables that a test has written to takes a few milliseconds. What was emptied is
compared with what the database was like before its first test. Where a difference is left, the database is removed and
the next test has a new one: a test may do anything.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.errors import DatabaseUnavailable

LEAVING_S = 1.0
"""A client that has closed its connection counts as connected for a moment."""

_OWN = 16_384
"""The first object identifier that is not PostgreSQL's own."""

_CATALOGUE = f"""
SELECT (SELECT count(*) FROM pg_class WHERE oid >= {_OWN}),
       (SELECT sum(oid::bigint * (relnatts + 3 * relchecks + 7 * relhastriggers::int + 13 * relhasindex::int
               + 17 * relrowsecurity::int + 19 * relispopulated::int + 23 * relforcerowsecurity::int)
               + relnamespace::bigint * relowner::bigint + hashtext(relname) + ascii(relkind)
               + hashtext(coalesce(reloptions::text, '')) + hashtext(coalesce(relacl::text, '')))
        FROM pg_class WHERE oid >= {_OWN}),
       (SELECT sum(reltuples) FROM pg_class WHERE oid >= {_OWN} AND relkind = 'r'),
       (SELECT sum(attrelid::bigint * attnum + atttypid::bigint * 7 + attnotnull::int * 3 + atthasdef::int * 5
               + attisdropped::int * 11 + atttypmod + hashtext(attname)) FROM pg_attribute WHERE attrelid >= {_OWN}),
       (SELECT string_agg(attrelid || attname || attacl::text, ' ') FROM pg_attribute
        WHERE attrelid >= {_OWN} AND attacl IS NOT NULL),
       (SELECT count(*) FROM pg_statistic WHERE starelid >= {_OWN}),
       (SELECT count(pg_sequence_last_value(seqrelid)) FROM pg_sequence),
       (SELECT string_agg(concat_ws(' ', nspname, nspowner, nspacl), '; ' ORDER BY oid) FROM pg_namespace
        WHERE nspname !~ '^pg_.*temp_'),
       (SELECT string_agg(setconfig::text, ' ') FROM pg_db_role_setting
        WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())),
       (SELECT concat_ws(' ', datdba, datallowconn, datconnlimit, datacl) FROM pg_database
        WHERE datname = current_database())"""
"""Tables, indexes, columns, statistics, sequences, schemas and the database itself, as numbers and texts to compare."""

_RARELY_CHANGED = (
    *("pg_attrdef", "pg_constraint", "pg_default_acl", "pg_event_trigger", "pg_extension", "pg_policy", "pg_proc"),
    *("pg_publication", "pg_rewrite", "pg_statistic_ext", "pg_trigger"),
)
"""Catalogues in which temporary tables leave no trace: a change shows in the transactions that wrote their rows."""

_CHANGES = "SELECT " + ", ".join(
    f"(SELECT sum(hashtext(ctid::text || xmin)) FROM {catalogue} WHERE oid >= {_OWN})" for catalogue in _RARELY_CHANGED
)

_WRITTEN_TABLES = f"""
SELECT oid, oid::regclass::text FROM pg_class
WHERE relkind = 'r' AND relpersistence <> 't' AND oid >= {_OWN} AND pg_relation_size(oid) > 0 ORDER BY 1"""

_TABLES = f"SELECT oid FROM pg_class WHERE relkind IN ('r', 'p') AND relpersistence <> 't' AND oid >= {_OWN} ORDER BY 1"

_RESTART_SEQUENCES = """
SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence WHERE pg_sequence_last_value(seqrelid) IS NOT NULL
"""

_FORGET_STATISTICS = f"DELETE FROM pg_statistic WHERE starelid >= {_OWN}"

_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND NOT pid = ANY(%s)"""


_FORGET = (
    *("SET SESSION AUTHORIZATION DEFAULT", "RESET ALL", "CLOSE ALL", "UNLISTEN *", "SELECT pg_advisory_unlock_all()"),
    *("DISCARD PLANS", "DISCARD TEMP", "DISCARD SEQUENCES"),
)
"""DISCARD ALL without its DEALLOCATE ALL, of which psycopg does not learn that prepared statements are gone."""


class Server(Protocol):
    """What makes and drops databases."""

    def create(self) -> str:
        """The address of a new database with the current schema."""
        ...

    def drop(self, name: str) -> None:
        """Remove a database."""
        ...


@dataclass(frozen=True)
class Before:
    """What the database was like before its first test.

    Attributes:
        tables: object identifiers of all tables.
        filled: those of the tables with rows.
        state: :func:`read_state`.
        attributes: those of the :class:`Database`, which a test might set.
        pool: of its connections; another one after it was closed.
    """

    tables: frozenset[int]
    filled: frozenset[int]
    state: list[object]
    attributes: dict[str, object]
    pool: sa.Pool


class KeptDatabase:
    """A database for one test after the other."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._database: Database | None = None
        self._before: Before | None = None

    def take(self) -> Database:
        """The database, with the current schema and no rows of a test."""
        if self._database is None:
            self._database = Database(self._server.create())
            self._before = read_before(self._database)
        return self._database

    def give_back(self) -> None:
        """Empty the database for the next test, or remove it where a test has changed more than rows."""
        database, before = self._database, self._before
        if database is None or before is None:
            return
        try:
            is_as_before = emptied(database, before)
        except (sa.exc.SQLAlchemyError, psycopg.Error, DatabaseUnavailable):  # a trigger refuses it, a right is gone
            is_as_before = False
        if not is_as_before:
            self.close()

    def close(self) -> None:
        """Remove the database."""
        if self._database is not None:
            self._database.close()
            self._server.drop(sa.make_url(self._database.url).database or "")
        self._database = self._before = None


def read_before(database: Database) -> Before:
    """What the database is like now."""
    with database.autocommit() as connection:
        raw = Database.raw(connection)
        _execute(raw, _FORGET_STATISTICS)  # the server's own, of the template, would be missed afterwards
        tables = frozenset(oid for (oid,) in _rows(raw, _TABLES))
        filled = frozenset(oid for oid, _ in _rows(raw, _WRITTEN_TABLES))
        return Before(tables, filled, read_state(raw), dict(vars(database)), database.engine.pool)


def emptied(database: Database, before: Before) -> bool:
    """Remove what a test has left; whether all is as before.

    Tables that are new are dropped, those that were empty are truncated, sequences begin anew, and what ANALYZE has
    found is forgotten. Sessions lose their settings, locks and temporary tables.
    """
    pool = database.engine.pool
    if vars(database) != before.attributes or pool is not before.pool:
        return False
    if not isinstance(pool, sa.QueuePool) or pool.checkedout():
        return False
    held = [database.engine.connect() for _ in range(max(pool.checkedin(), 1))]
    try:
        sessions = [Database.raw(connection) for connection in held]
        for session in sessions:
            session.rollback()
            session.autocommit = True
            for statement in _FORGET:
                _execute(session, statement)
        if not _alone(sessions):
            return False
        _empty(sessions[0], before)
        return read_state(sessions[0]) == before.state
    finally:
        for connection in held:
            Database.raw(connection).autocommit = False
            connection.close()


def read_state(session: psycopg.Connection[Any]) -> list[object]:
    """What describes the schema, and all rows: to be compared."""
    filled = _rows(session, _WRITTEN_TABLES)
    rows = [_rows(session, f"SELECT t::text FROM {name} AS t ORDER BY 1") for _, name in filled]
    return [filled, rows, _rows(session, _CATALOGUE), _rows(session, _CHANGES)]


def _empty(session: psycopg.Connection[Any], before: Before) -> None:
    added = [oid for (oid,) in _rows(session, _TABLES) if oid not in before.tables]
    for oid in added:
        for (name,) in _rows(session, f"SELECT oid::regclass::text FROM pg_class WHERE oid = {oid}"):
            _execute(session, f"DROP TABLE {name} CASCADE")
    written = [name for oid, name in _rows(session, _WRITTEN_TABLES) if oid not in before.filled]
    if written:
        _execute(session, f"TRUNCATE {', '.join(written)} RESTART IDENTITY CASCADE")
    _execute(session, _RESTART_SEQUENCES)
    _execute(session, _FORGET_STATISTICS)


def _alone(sessions: list[psycopg.Connection[Any]]) -> bool:
    """Whether nobody but these sessions is connected, or about to leave."""
    own, deadline = [session.info.backend_pid for session in sessions], time.monotonic() + LEAVING_S
    while sessions[0].execute(_OTHERS, (own,)).fetchone() != (0,):
        if time.monotonic() > deadline:
            return False
    return True


def _rows(session: psycopg.Connection[Any], text: str) -> list[tuple[Any, ...]]:
    return session.execute(text.encode()).fetchall()


def _execute(session: psycopg.Connection[Any], text: str) -> None:
    session.execute(text.encode())
