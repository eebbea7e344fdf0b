"""The columns that the sources of a snapshot have in this version, to complete those that an older one stored."""

from __future__ import annotations

from collections.abc import Mapping

from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.source_list import GRID_SOURCES

#: By table of a source.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    read.name: read.columns_stored for source in GRID_SOURCES for read in source.reads
}


def missing_columns(sources: Mapping[str, RawSource]) -> tuple[str, ...]:
    """Columns of this version that the sources do not have, as ``table.column``."""
    tables = [(table, rows) for source in sources.values() for table, rows in source.tables.items()]
    return tuple(f"{table}.{name}" for table, rows in tables for name in _missing(table, rows))


def completed(sources: Mapping[str, RawSource]) -> dict[str, RawSource]:
    """The sources with a column of NULL for each that is missing, as reading a database that lacks one gives it."""
    return {
        name: RawSource(name, {table: _completed(table, rows) for table, rows in source.tables.items()}, source.newest)
        for name, source in sources.items()
    }


def _missing(table: str, rows: Rows) -> tuple[str, ...]:
    return tuple(name for name in COLUMNS.get(table, ()) if name not in rows.columns)


def _completed(table: str, rows: Rows) -> Rows:
    missing = _missing(table, rows)
    nulls = (None,) * len(missing)
    return Rows((*rows.columns, *missing), tuple((*row, *nulls) for row in rows.values)) if missing else rows
