"""The columns that the sources of a snapshot have in this version, to complete those that an older one stored."""

from __future__ import annotations

from collections.abc import Mapping

from broker.snapshot import build_features, build_pins, build_pools
from broker.snapshot.raw import RawSource, Rows
from broker.store.features import feature_rows
from broker.store.snapshots import analysis_source_reads as analysis_reads
from broker.store.snapshots import source_reads as snapshot_reads

_QUOTA = ("bytes", "bytes_limit")

#: By table of a source.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    **{read.table: read.columns for reads in snapshot_reads.READS.values() for read in reads},
    "job_counts": snapshot_reads.COUNT_COLUMNS,
    "user_job_counts": analysis_reads.COUNT_COLUMNS,
    "job_starts": ("computingsite", "njobs"),
    "metrics": analysis_reads.METRIC_COLUMNS,
    "rucio_account_usage": ("account", "rse_expression", *_QUOTA),
    "rucio_local_usage": ("account", "rse", *_QUOTA),
    build_features.TABLE: feature_rows.SOURCE_COLUMNS,
    build_pools.PLACES: build_pools.PLACE_COLUMNS,
    build_pools.MEMBERS: build_pools.MEMBER_COLUMNS,
    "queue_pins": build_pins.PIN_COLUMNS,
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
