"""Opening the database that a process works on: a named one, or the embedded one."""

from __future__ import annotations

from pathlib import Path

from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.connection.errors import SchemaMissing, SchemaOutdated
from broker.store.connection.tables import Names
from broker.store.connection.writer_guard import WriterGuard
from broker.store.schema import migrate


def connect(
    url: str | None,
    home: Path,
    *,
    panda_schema: str | None = None,
    meta_schema: str | None = None,
    application_name: str = "gridbroker",
) -> Database:
    """Connect to the database at ``url``, or to the embedded one in ``home``, whatever it contains.

    The schema names are the arguments, else those recorded at installation, else PanDA's defaults.

    Raises:
        DatabaseUnavailable: there is no server at ``url``.
        EmbeddedServerError: the embedded server is not installed or does not start.
        Refused: the database was installed with schema names other than the arguments.
    """
    if url is None:
        server = EmbeddedServer(home)
        database = Database(server.start(), application_name=application_name, on_close=server.stop)
    else:
        database = Database(url, application_name=application_name)
    try:
        database.names = _names(database, panda_schema, meta_schema)
    except BaseException:
        database.close()
        raise
    return database


def open_database(
    url: str | None,
    home: Path,
    *,
    panda_schema: str | None = None,
    meta_schema: str | None = None,
    application_name: str = "gridbroker",
) -> Database:
    """Open a database whose schema is that of this version or a newer one.

    An embedded database is installed or upgraded as necessary; any other is left to the operator. Once a newer broker
    has upgraded the schema past this version, before or after the opening, all transactions are read-only.

    Raises:
        SchemaMissing: nothing is installed at ``url``.
        SchemaOutdated: the schema needs an upgrade.
        SchemaTooNew: a newer broker upgraded the schema, which does not name the releases that may write.
    """
    database = connect(url, home, panda_schema=panda_schema, meta_schema=meta_schema, application_name=application_name)
    try:
        _make_current(database, embedded=url is None)
        guarded(database)
    except BaseException:
        database.close()
        raise
    return database


def guarded(database: Database) -> Database:
    """Make the transactions of ``database`` read-only once a newer broker has upgraded its schema past this version."""
    database.guard = WriterGuard(repr(database))
    return database


def _make_current(database: Database, *, embedded: bool) -> None:
    try:
        migrate.mode_of(database)
    except (SchemaMissing, SchemaOutdated):
        if not embedded:
            raise
        migrate.upgrade(database)


def _names(database: Database, panda_schema: str | None, meta_schema: str | None) -> Names:
    """The schema names; arguments must agree with the names recorded at installation."""
    recorded = migrate.recorded_names(database)
    default = recorded or Names()
    names = Names(panda_schema or default.panda, meta_schema or default.meta, default.vo)
    if recorded is not None and names != recorded:
        raise Refused(
            f"the database was installed with the schemas {recorded.panda} and {recorded.meta}",
            repr(database),
            "unset BROKER_PANDA_SCHEMA and BROKER_META_SCHEMA, or use another database",
        )
    return names
