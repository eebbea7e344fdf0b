"""Columns of PanDA's tables that are read together: which of them are needed, and what a database has otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.errors import Refused

NEWER = "upgrade gridbroker to a release that knows this schema of PanDA's; `broker doctor` lists what changed"
#: Documents are text in some of PanDA's databases and JSON in others; they are read as text from both.
_KINDS: Mapping[str, tuple[str, ...]] = {
    "text": ("varchar", "character varying", "char", "character", "bpchar", "text", "json", "jsonb"),
    "number": ("smallint", "integer", "bigint", "numeric", "decimal", "double", "double precision", "real"),
    "time": ("timestamp", "timestamptz", "date"),
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}


@dataclass(frozen=True)
class PandaColumns:
    """Columns of one table that one reading takes.

    Attributes:
        table: of PanDA's.
        columns: in the order of the rows.
        optional: columns that PanDA's schemas of the last years do not all have: NULL where they are missing. All
            others are needed: without them rows would say something else, and nobody would know.
        table_optional: whether a PanDA without the table has none of its rows.
    """

    table: str
    columns: tuple[str, ...]
    optional: tuple[str, ...] = ()
    table_optional: bool = False


@dataclass(frozen=True)
class ColumnFault:
    """A needed column, or a table, that a database lacks or has with another type.

    Attributes:
        table: of PanDA's.
        column: empty where the table is gone.
        expected: type that it should have; empty where the column or table is gone.
        found: type that it has; likewise.
    """

    table: str
    column: str = ""
    expected: str = ""
    found: str = ""

    def __str__(self) -> str:
        if not self.column:
            return f"table {self.table} is gone"
        if not self.found:
            return f"column {self.table}.{self.column} is gone"
        return f"column {self.table}.{self.column} is {self.found}, not {self.expected}"


class ColumnsChanged(Refused):
    """A table of PanDA's cannot be read as what it was: a needed column is gone, or of another type."""

    def __init__(self, faults: Sequence[ColumnFault]) -> None:
        self.faults = tuple(faults)
        super().__init__(", ".join(map(str, faults)), "PanDA's schema has changed", NEWER)


def kind_of(sql_type: str) -> str:
    """What a type holds: text, numbers or times, whatever its width; the type itself where it is another.

    >>> [kind_of(one) for one in ("varchar(52)", "numeric(11,2)", "timestamp without time zone", "jsonb", "bytea")]
    ['text', 'number', 'time', 'text', 'bytea']
    """
    name = sql_type.lower().split("(")[0].strip()
    return _KIND_OF.get(name.removesuffix(" without time zone").removesuffix(" with time zone"), name)


def faults_of(wanted: PandaColumns, found: Mapping[str, str], declared: Mapping[str, str]) -> tuple[ColumnFault, ...]:
    """What of the needed columns cannot be read.

    Args:
        wanted: by a reading.
        found: columns of the table in the database with their types; none where there is no such table.
        declared: the columns with the types that they should have; one that is not declared may have any.
    """
    if not found:
        return () if wanted.table_optional else (ColumnFault(wanted.table),)
    faults = []
    for column in wanted.columns:
        if column not in found:
            faults += [] if column in wanted.optional else [ColumnFault(wanted.table, column)]
        elif column in declared and kind_of(found[column]) != kind_of(declared[column]):
            faults.append(ColumnFault(wanted.table, column, declared[column], found[column]))
    return tuple(faults)
