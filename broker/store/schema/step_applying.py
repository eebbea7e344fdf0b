"""Applying one schema step while brokers, pilots and pages keep running.

A step waits for its locks only briefly, because all others queue up behind it; then it releases everything and retries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import sqlalchemy as sa

from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.connection.tables import Migration
from broker.store.schema.step_effects import oldest_writer_of

LOCKS_WITHIN_S = 2.0
"""Seconds that a step waits for a lock, while others wait behind it."""
TRIES = 60
PAUSE_S = 0.5
"""Seconds between two attempts, in which waiting transactions proceed."""

# An arbitrary constant: the key of the transaction-scoped advisory lock that upgrades take.
_KEY = 4_706_178_253
_IS_APPLIED = sa.text("SELECT 1 FROM broker.schema_migrations WHERE part = :p AND version = :v")
_WRITE_DOWN = sa.text("INSERT INTO broker.schema_migrations (part, version, name, checksum) VALUES (:p, :v, :n, :c)")
_RAISE = sa.text("UPDATE broker.oldest_writer SET release = :release, part = :p, version = :v")


def lock(connection: sa.Connection) -> None:
    """Wait until no other upgrade is running; none can begin before the end of this transaction."""
    connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _KEY})


def apply_step(database: Database, step: Migration, pause: Callable[[float], object] | None = None) -> bool:
    """Apply one step unless it is applied already, and return whether it was applied now.

    Args:
        database: the database to change.
        step: the step to apply.
        pause: waits for some seconds; None for a real wait.

    Raises:
        Refused: its tables were locked by others at each attempt; nothing of it was kept.
    """
    wait = pause or threading.Event().wait
    for _ in range(TRIES):
        try:
            return _try(database, step)
        except (sa.exc.OperationalError, psycopg.OperationalError) as error:
            if not isinstance(getattr(error, "orig", error), _HELD):
                raise
        wait(PAUSE_S)
    raise Refused(
        f"{step.label} was not applied: its tables were in use at each of {TRIES} tries",
        repr(database),
        "see `SELECT * FROM pg_stat_activity` for transactions that do not end, and run it again",
    )


_HELD = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)


def _try(database: Database, step: Migration) -> bool:
    with database.begin() as connection:
        lock(connection)
        if connection.scalar(_IS_APPLIED, {"p": step.part, "v": step.version}) is not None:
            return False
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(LOCKS_WITHIN_S * 1000)}")
        release = oldest_writer_of(step)
        if release is not None:
            # before any other table, because writers lock this one first, too
            connection.exec_driver_sql("LOCK TABLE broker.oldest_writer IN ACCESS EXCLUSIVE MODE")
        database.raw(connection).execute(step.statements(database.names).encode())
        values = {"p": step.part, "v": step.version}
        if release is not None:
            connection.execute(_RAISE, values | {"release": release})
        connection.execute(_WRITE_DOWN, values | {"n": step.name, "c": step.checksum})
    return True
