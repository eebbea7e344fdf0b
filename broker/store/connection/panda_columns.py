"""Columns of PanDA's tables that are read together: which of them are required, and how a database deviates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.errors import Refused

NEWER = "upgrade gridbroker to a release that knows this schema of PanDA's; `broker doctor` lists what changed"
#: Documents are stored as text in some PanDA databases and as JSON in others; they are read as text from both.
_KINDS: Mapping[str, tuple[str, ...]] = {
    "text": ("varchar", "character varying", "char", "character", "bpchar", "text", "json", "jsonb"),
    "number": ("smallint", "integer", "bigint", "numeric", "decimal", "double", "double precision", "real"),
    "time": ("timestamp", "timestamptz", "date"),
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}


@dataclass(frozen=True)
class PandaColumns:
    """The columns of one table that are read together.

    Attributes:
        table: name of a PanDA table.
        columns: names, in the order of the rows.
        optional: columns that not every PanDA schema of recent years has; NULL where they are missing. All others are
            required, because without them the meaning of the rows would change unnoticed.
        table_optional: whether a missing table counts as an empty one.
    """

    table: str
    columns: tuple[str, ...]
    optional: tuple[str, ...] = ()
    table_optional: bool = False


@dataclass(frozen=True)
class ColumnFault:
    """A required column or table that a database lacks, or a column of another type.

    Attributes:
        table: name of a PanDA table.
        column: name of the column; empty if the table is missing.
        expected: declared type; empty if the column or table is missing.
        actual: actual type; empty if the column or table is missing.
    """

    table: str
    column: str = ""
    expected: str = ""
    actual: str = ""

    def __str__(self) -> str:
        if not self.column:
            return f"table {self.table} is gone"
        if not self.actual:
            return f"column {self.table}.{self.column} is gone"
        return f"column {self.table}.{self.column} is {self.actual}, not {self.expected}"


class ColumnsChanged(Refused):
    """A table of PanDA's cannot be read as before: a needed column is missing, or has another type."""

    def __init__(self, faults: Sequence[ColumnFault]) -> None:
        self.faults = tuple(faults)
        super().__init__(", ".join(map(str, faults)), "PanDA's schema has changed", NEWER)


def kind_of(sql_type: str) -> str:
    """The kind of an SQL type whatever its width: text, number or time; any other type is returned itself.

    >>> [kind_of(one) for one in ("varchar(52)", "numeric(11,2)", "timestamp without time zone", "jsonb", "bytea")]
    ['text', 'number', 'time', 'text', 'bytea']
    """
    name = sql_type.lower().split("(")[0].strip()
    return _KIND_OF.get(name.removesuffix(" without time zone").removesuffix(" with time zone"), name)


def faults_of(wanted: PandaColumns, actual: Mapping[str, str], declared: Mapping[str, str]) -> tuple[ColumnFault, ...]:
    """The required columns that cannot be read.

    Args:
        wanted: the columns to read.
        actual: columns of the table in the database with their types; empty if there is no such table.
        declared: columns with their expected types; a column that is not declared may have any type.
    """
    if not actual:
        return () if wanted.table_optional else (ColumnFault(wanted.table),)
    faults = []
    for column in wanted.columns:
        if column not in actual:
            faults += [] if column in wanted.optional else [ColumnFault(wanted.table, column)]
        elif column in declared and kind_of(actual[column]) != kind_of(declared[column]):
            faults.append(ColumnFault(wanted.table, column, declared[column], actual[column]))
    return tuple(faults)
