"""A stored snapshot: its sources as they were kept, checked against their digests, and the snapshot built from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker import __version__
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import RawSource, Rows, SnapshotCorruptError, decode
from broker.snapshot.snapshot import Snapshot, snapshot_id
from broker.snapshot.source_list import GRID_SOURCES
from broker.snapshot.source_states import SourceState
from broker.store.snapshots import stored_snapshots as snapshots
from broker.store.snapshots.stored_snapshots import SnapshotLostError

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


Parts = Mapping[str, tuple[str, bytes]]
"""The sources of a snapshot by name: digest and encoded form."""


@dataclass(frozen=True)
class KeptSnapshot:
    """A snapshot as it is kept.

    Attributes:
        id: its name.
        taken_at: its instant (aware).
        engine: version of the broker that took it.
        about: what is kept with it, such as the state of each source.
        parts: its sources.
    """

    id: str
    taken_at: datetime
    engine: str
    about: Mapping[str, Any]
    parts: Parts

    def sources(self) -> dict[str, RawSource]:
        """The sources, each checked against its digest, and all of them against the name of the snapshot.

        Raises:
            SnapshotCorruptError: a source is not what its digest promises, or they are not those of the snapshot.
        """
        found = {}
        for name, (digest, data) in self.parts.items():
            try:
                found[name] = decode(digest, data)
            except SnapshotCorruptError as error:
                raise SnapshotCorruptError(f"source {name}: {error}") from error
        named = snapshot_id(self.taken_at.astimezone(UTC), [(name, digest) for name, (digest, _) in self.parts.items()])
        if named != self.id:
            raise SnapshotCorruptError(f"its sources are those of {named}")
        return found

    def states(self) -> tuple[SourceState, ...]:
        """How each source was found.

        Raises:
            SnapshotCorruptError: that is not on record in a form that can be read.
        """
        try:
            return tuple(SourceState.from_json(state) for state in self.about.get("states", []))
        except (TypeError, AttributeError) as error:
            raise SnapshotCorruptError(f"the states of its sources cannot be read: {error}") from error

    def columns_not_stored(self) -> tuple[str, ...]:
        """Columns of sources that the version which took the snapshot did not store, as ``table.column``.

        Raises:
            SnapshotCorruptError: it is not as it was stored.
        """
        return missing_columns(self.sources())

    def build(self) -> Snapshot:
        """The snapshot as the cycle that stored it saw the grid; what another version did not store counts as NULL.

        Raises:
            SnapshotCorruptError: it is not as it was stored.
        """
        sources = self.sources()
        try:
            known = sources if self.engine == __version__ else completed(sources)
            return build_snapshot(self.id, self.taken_at, known, self.states())
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise SnapshotCorruptError(f"its sources are not those of this version: {error!r}") from error


def kept_snapshot(connection: sa.Connection, identifier: str) -> KeptSnapshot:
    """A stored snapshot, not looked into yet.

    Raises:
        SnapshotLostError: it, or a part of it, is not there any more.
    """
    found = snapshots.header(connection, identifier)
    parts = snapshots.read(connection, identifier)
    return KeptSnapshot(identifier, found.taken_at, found.engine, found.about, parts)


def stored_snapshot(connection: sa.Connection, identifier: str) -> Snapshot:
    """The snapshot as the cycle that stored it saw the grid.

    Raises:
        SnapshotLostError: it is not there any more, or not as it was stored; the message names the source.
    """
    kept = kept_snapshot(connection, identifier)
    try:
        return kept.build()
    except SnapshotCorruptError as error:
        raise SnapshotLostError(
            f"snapshot {identifier} cannot be read: {error}", "broker.snapshots", "ask about a newer decision"
        ) from error
