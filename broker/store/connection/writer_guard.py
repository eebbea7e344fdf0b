"""Whether this release may write under the current schema of a database, checked anew in each transaction.

A newer release may upgrade the schema while a process of this one runs. The schema names the oldest release that may
write (``broker.oldest_writer``). The check takes the weakest lock on that table until its transaction ends, and an
upgrade that changes the result takes the strongest first: it waits for current writers, and later ones see the change.
"""

from __future__ import annotations

import re

import sqlalchemy as sa

from broker import __version__
from broker.store.connection.errors import SchemaTooNew
from broker.store.connection.tables import OWN, PANDA, read_migrations

_READ = "SELECT release, part, version FROM broker.oldest_writer"
_EXISTS = sa.text("SELECT to_regclass('broker.oldest_writer')")


def numbers_of(release: str) -> tuple[int, ...]:
    """The three numbers of a release such as ``1.2.0``; a suffix, as in ``1.2.0rc1``, is ignored."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    return tuple(int(one or 0) for one in match.groups()) if match else (0, 0, 0)


def refusal(connection: sa.Connection, where: str, own: str = __version__) -> SchemaTooNew | None:
    """The error for a release that may not write under the schema; None if it may.

    Args:
        connection: in a transaction on a database with an installed schema.
        where: the database, for the message.
        own: the release to check.
    """
    row = connection.exec_driver_sql(_READ).one_or_none()
    if row is None or numbers_of(own) >= numbers_of(row.release):
        return None
    if any(step.version == row.version for step in read_migrations(row.part if row.part == PANDA else OWN)):
        return None
    return SchemaTooNew(
        f"a newer broker has upgraded the database: its schema (step {row.part}/{row.version:04d}) is written by "
        f"{row.release} and newer, and this is {own}, which only reads it",
        where,
        f"install gridbroker {row.release} or newer; to go back, restore the backup from before the upgrade",
    )


def knows_writers(connection: sa.Connection) -> bool:
    """Whether the schema names the oldest release that may write; schemas before 1.0 do not."""
    return connection.scalar(_EXISTS) is not None


class WriterGuard:
    """Makes transactions read-only if this release may not write."""

    def __init__(self, where: str, own: str = __version__) -> None:
        """Guard the database ``where`` (for messages) against writes of the release ``own``."""
        self._where, self._own = where, own

    def limit(self, connection: sa.Connection) -> SchemaTooNew | None:
        """Make the transaction read-only and return the error if this release may not write. Call it first."""
        denial = refusal(connection, self._where, self._own)
        if denial is not None:
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        return denial

    def refuse(self, connection: sa.Connection) -> None:
        """Raise an error unless this release may write.

        Raises:
            SchemaTooNew: this release may not write.
        """
        denial = refusal(connection, self._where, self._own)
        if denial is not None:
            raise denial
