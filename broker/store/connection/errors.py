"""What can go wrong with the database, by name."""

from __future__ import annotations

from broker.errors import NOT_FOUND, BrokerError, Refused


class DatabaseError(BrokerError):
    """Base of the errors of this package."""


class DatabaseUnavailable(DatabaseError):
    """No connection, or the connection was lost; nothing of the transaction was kept."""


class ConnectionCut(DatabaseUnavailable):
    """This process closed the connection, because the work on it had taken too long; nothing was kept."""


class CommitOutcomeUnknown(DatabaseUnavailable):
    """The connection was lost while COMMIT was under way: the transaction may have been kept."""


class BadDatabaseUrl(DatabaseError):
    """The address is not a PostgreSQL address."""

    exit_status = 2


class ServerTooOld(Refused):
    """The PostgreSQL server is older than the oldest that is supported."""


class OnlyReads(Refused):
    """A write was attempted on a standby, or over a read-only connection."""


class SchemaMissing(Refused):
    """The database holds no schema of ours."""


class SchemaOutdated(Refused):
    """The database was last upgraded by an older broker."""


class SchemaTooNew(Refused):
    """The database was upgraded by a newer broker than this one."""


class MigrationChanged(Refused):
    """A numbered migration differs from the text that was applied."""


class ForeignSchema(Refused):
    """The schema for PanDA's tables holds tables that are neither PanDA's nor ours."""


class NoDatabaseYet(DatabaseError):
    """No database has been created in the broker's home."""

    exit_status = NOT_FOUND


class EmbeddedServerError(DatabaseError):
    """The embedded PostgreSQL cannot be installed, started or stopped."""
