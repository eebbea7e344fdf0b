"""The version of PanDA's schema, and which it was when ours was installed or upgraded last."""

from __future__ import annotations

import sqlalchemy as sa

from broker.store.connection.tables import Names, TableCatalogue

TABLE, _COLUMNS = "pandadb_version", ("component", "major", "minor", "patch")
_MAY_READ = "SELECT has_table_privilege(to_regclass(:t), 'SELECT')"
_RECORD = sa.text("""
    INSERT INTO broker.panda_version (version) VALUES (:version)
    ON CONFLICT (only_row) DO UPDATE SET version = excluded.version, recorded_at = now()""")


def current(connection: sa.Connection, names: Names) -> str | None:
    """What PanDA says now, such as ``PanDA 0.1.6``; None where it says nothing, or this role may not read it."""
    if not connection.scalar(sa.text(_MAY_READ), {"t": names.table(TABLE)}):
        return None
    source = TableCatalogue.read(connection, names).source(TABLE, _COLUMNS)
    query = sa.text(f"SELECT component, major, minor, patch FROM {source} AS v ORDER BY component")  # noqa: S608
    rows = connection.execute(query).all()
    return ", ".join(f"{row.component} {row.major}.{row.minor}.{row.patch}" for row in rows) or None


def recorded(connection: sa.Connection) -> str | None:
    """What it said when that was put on record; None where it never was."""
    found: str | None = connection.scalar(sa.text("SELECT version FROM broker.panda_version"))
    return found


def record(connection: sa.Connection, version: str | None) -> None:
    """Put it on record."""
    connection.execute(_RECORD, {"version": version})
