"""Privileges that a role needs in a PanDA database, by agent, and the GRANT for each privilege that it lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from broker.store.connection.denials import NEEDED
from broker.store.connection.tables import PANDA, Names, TableCatalogue, declared_tables, quoted

READING = "reading"
DEFT_SCHEMA, DEFT_TABLE = "doma_deft", "t_task"


@dataclass(frozen=True)
class Right:
    """One privilege on one table.

    Attributes:
        who: the agent that needs it, or ``reading`` or ``tuning``.
        privilege: SELECT, INSERT, UPDATE or DELETE; USAGE on a schema.
        schema: schema of the table.
        table: PanDA's table; empty for a privilege on the schema.
        held: whether the role has it.
    """

    who: str
    privilege: str
    schema: str
    table: str
    held: bool

    def grant(self, role: str) -> str:
        """The statement that grants the privilege."""
        if not self.table:
            return f"GRANT {self.privilege} ON SCHEMA {quoted(self.schema)} TO {quoted(role)};"
        return f"GRANT {self.privilege} ON {quoted(self.schema)}.{quoted(self.table)} TO {quoted(role)};"


def current_role(connection: sa.Connection) -> str:
    """The role of the connection."""
    return str(connection.scalar(sa.text("SELECT current_user")))


def read_rights(connection: sa.Connection, names: Names, who: Iterable[str] = (READING, *NEEDED)) -> list[Right]:
    """The privileges that ``who`` needs on the existing tables, each with whether the role has it."""
    wanted = list(_wanted(connection, names, set(who)))
    schemas = sorted({(needed_by, schema) for needed_by, _, schema, _ in wanted}, key=lambda pair: pair[1])
    rights = [
        Right(needed_by, "USAGE", schema, "", bool(_scalar(connection, _ON_SCHEMA, schema=schema)))
        for needed_by, schema in schemas
    ]
    for needed_by, privilege, schema, table in wanted:
        held = _scalar(connection, _ON_TABLE, schema=schema, table=table, privilege=privilege)
        rights.append(Right(needed_by, privilege, schema, table, bool(held)))
    return rights


def _wanted(connection: sa.Connection, names: Names, who: set[str]) -> Iterable[tuple[str, str, str, str]]:
    catalogue = TableCatalogue.read(connection, names)
    for table in declared_tables(PANDA):
        if READING in who and catalogue.columns_present(table):
            yield READING, "SELECT", names.schema_of(table), table
    for agent, tables in NEEDED.items():
        if agent not in who:
            continue
        for table, privileges in tables.items():
            for privilege in privileges if catalogue.columns_present(table) else ():
                yield agent, privilege, names.schema_of(table), table
    if "production_task" in who and _scalar(connection, _EXISTS, schema=DEFT_SCHEMA, table=DEFT_TABLE):
        for privilege in ("SELECT", "UPDATE"):
            yield "production_task", privilege, DEFT_SCHEMA, DEFT_TABLE


_EXISTS = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = :table)"""
_ON_SCHEMA = "SELECT bool_or(has_schema_privilege(oid, 'USAGE')) FROM pg_catalog.pg_namespace WHERE nspname = :schema"
_ON_TABLE = """
SELECT bool_or(has_table_privilege(c.oid, :privilege)) FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :table"""


def _scalar(connection: sa.Connection, query: str, **values: str) -> object:
    return connection.execute(sa.text(query), values).scalar()
