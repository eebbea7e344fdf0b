"""The version of PanDA's schema, now and when our schema was last installed or upgraded."""

from __future__ import annotations

import sqlalchemy as sa

from broker.store.connection.tables import Names, TableCatalogue

TABLE, _COLUMNS = "pandadb_version", ("component", "major", "minor", "patch")
_MAY_READ = "SELECT has_table_privilege(to_regclass(:t), 'SELECT')"
_RECORD = sa.text("""
    INSERT INTO broker.panda_version (version) VALUES (:version)
    ON CONFLICT (only_row) DO UPDATE SET version = excluded.version, recorded_at = now()""")


def current(connection: sa.Connection, names: Names) -> str | None:
    """The current version, such as ``PanDA 0.1.6``; None if there is none, or this role may not read it."""
    if not connection.scalar(sa.text(_MAY_READ), {"t": names.table(TABLE)}):
        return None
    source = TableCatalogue.read(connection, names).source(TABLE, _COLUMNS)
    query = sa.text(f"SELECT component, major, minor, patch FROM {source} AS v ORDER BY component")  # noqa: S608
    rows = connection.execute(query).all()
    return ", ".join(f"{row.component} {row.major}.{row.minor}.{row.patch}" for row in rows) or None


def recorded(connection: sa.Connection) -> str | None:
    """The recorded version; None if none was recorded."""
    version: str | None = connection.scalar(sa.text("SELECT version FROM broker.panda_version"))
    return version


def record(connection: sa.Connection, version: str | None) -> None:
    """Record a version."""
    connection.execute(_RECORD, {"version": version})
