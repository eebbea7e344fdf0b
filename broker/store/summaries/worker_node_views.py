"""Summaries of worker nodes that are materialised views: what may be done with them, and their refresh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from broker.store.connection.names import Names

RelationKind = Literal["table", "materialised view", "other", "missing"]

_KINDS: dict[str, RelationKind] = {"r": "table", "p": "table", "m": "materialised view"}

# A refresh beside readers needs a plain unique index. The right MAINTAIN came with PostgreSQL 17; before, it takes the
# owner.
_READ_ABOUT_VIEW = """
SELECT c.relkind::text AS kind, c.relispopulated AS populated,
    pg_has_role(c.relowner, 'USAGE') AS owned,
    EXISTS (
        SELECT FROM pg_catalog.pg_index AS i
        WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
          AND i.indpred IS NULL AND i.indexprs IS NULL
    ) AS indexed
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = :table
"""
_ASK_WHETHER_MAINTAINED = "SELECT has_table_privilege(CAST(:qualified AS text), 'MAINTAIN')"
_WITH_MAINTAIN = 170_000


@dataclass(frozen=True)
class Relation:
    """What the database has under the name of a summary.

    Attributes:
        kind: what it is.
        populated: False for a materialised view that was never filled and cannot be read.
        refreshable: the role of this connection may refresh it.
        indexed: it can be refreshed while others read it.
    """

    kind: RelationKind
    populated: bool = True
    refreshable: bool = False
    indexed: bool = False


def relation_of(connection: sa.Connection, names: Names, table: str) -> Relation:
    """What the database has under the name ``table`` of one of PanDA's tables."""
    found = connection.execute(
        sa.text(_READ_ABOUT_VIEW), {"schema": names.schema_of(table), "table": table}
    ).one_or_none()
    if found is None:
        return Relation("missing")
    kind = _KINDS.get(found.kind, "other")
    refreshable = kind == "materialised view" and (found.owned or _maintained(connection, names.table(table)))
    return Relation(kind, bool(found.populated), bool(refreshable), bool(found.indexed))


def _maintained(connection: sa.Connection, qualified: str) -> bool:
    if int(connection.scalar(sa.text("SHOW server_version_num")) or 0) < _WITH_MAINTAIN:
        return False
    return bool(connection.scalar(sa.text(_ASK_WHETHER_MAINTAINED), {"qualified": qualified}))


def refresh_view(connection: sa.Connection, names: Names, table: str, *, first: bool) -> int:
    """Refresh a materialised view and count its rows.

    Args:
        connection: in a transaction for writing.
        names: the schema names.
        table: the view.
        first: it was never filled; this cannot be done concurrently, and nobody can read it yet.
    """
    how = "" if first else "CONCURRENTLY "
    qualified = names.table(table)
    connection.exec_driver_sql(f"REFRESH MATERIALIZED VIEW {how}{qualified}")
    return int(connection.exec_driver_sql(f"SELECT count(*) FROM {qualified}").scalar() or 0)  # noqa: S608 - quoted
