"""The interface of a reader of PanDA's database, whatever that database is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from broker.errors import BrokerError

Backend = Literal["oracle", "postgres"]


class ReadFailed(BrokerError):
    """A statement gave no answer; nothing may be concluded, least of all that a table is empty."""


@dataclass(frozen=True)
class PandaSchemas:
    """The schemas of PanDA's tables in its own database.

    Attributes:
        panda: of the tables of JEDI and of jobs.
        meta: of table ``sitedata``.
    """

    panda: str
    meta: str


class PandaReader(Protocol):
    """Reads rows of PanDA's tables.

    Attributes:
        backend: kind of database, for the query of its columns.
        schemas: of the tables.
    """

    backend: Backend
    schemas: PandaSchemas

    def rows(self, statement: str, binds: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """The rows of a SELECT without ``;``, its binds written ``:name`` and named ``":name"`` in ``binds``.

        Raises:
            ReadFailed: there is no answer.
        """


#: The names of a table's columns. PostgreSQL's information schema lacks materialised views.
_COLUMNS: Mapping[Backend, str] = {
    "oracle": "SELECT c.column_name FROM all_tab_columns c WHERE c.owner = :owner AND c.table_name = :name",
    "postgres": (
        "SELECT a.attname FROM pg_catalog.pg_attribute a, pg_catalog.pg_class c, pg_catalog.pg_namespace n"
        " WHERE a.attrelid = c.oid AND c.relnamespace = n.oid AND n.nspname = :owner AND c.relname = :name"
        " AND a.attnum > 0"
    ),
}


def columns_statement(backend: Backend, schema: str, table: str) -> tuple[str, dict[str, str]]:
    """Return the query for the columns of a table, and its binds; Oracle keeps names in upper case."""
    owner, name = (schema.upper(), table.upper()) if backend == "oracle" else (schema.lower(), table.lower())
    return _COLUMNS[backend], {":owner": owner, ":name": name}
