"""Whether this release may write under the schema that a database has now: asked anew in each transaction.

A newer release may have upgraded the schema while a process of this one runs. The schema names the oldest release
that may write (``broker.oldest_writer``). The question takes the weakest lock on that table until its transaction ends,
and an upgrade that changes the answer takes the strongest first: it waits for those who write, and whoever comes later
sees it.
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
    """The three numbers of a release such as ``1.2.0``; what follows them, as in ``1.2.0rc1``, is left out."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    return tuple(int(one or 0) for one in found.groups()) if found else (0, 0, 0)


def refusal(connection: sa.Connection, where: str, own: str = __version__) -> SchemaTooNew | None:
    """Why a release may not write under the schema; None where it may.

    Args:
        connection: in a transaction on a database of which the schema is installed.
        where: the database, for the message.
        own: the release that asks.
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
    """Whether the schema names the oldest release that may write; one of before 1.0 does not."""
    return connection.scalar(_EXISTS) is not None


class WriterGuard:
    """Makes transactions read-only where this release may not write."""

    def __init__(self, where: str, own: str = __version__) -> None:
        """``where``: the database, for messages; ``own``: the release that writes."""
        self._where, self._own = where, own

    def limit(self, connection: sa.Connection) -> SchemaTooNew | None:
        """Call first in a transaction: from then on it can only read where the answer is not None."""
        found = refusal(connection, self._where, self._own)
        if found is not None:
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        return found

    def refuse(self, connection: sa.Connection) -> None:
        """Go on only where this release may write.

        Raises:
            SchemaTooNew: it may not.
        """
        found = refusal(connection, self._where, self._own)
        if found is not None:
            raise found
