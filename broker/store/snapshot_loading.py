"""A snapshot from the database: read, judged for freshness, built; and a stored one built again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import RawSource, SnapshotCorruptError, decode, encode
from broker.snapshot.snapshot import Snapshot, snapshot_id
from broker.snapshot.sources import SOURCES, SourceLimit, SourceState, assess
from broker.store import snapshots
from broker.store.snapshot_reads import JobStatistics, read_sources
from broker.store.snapshots import SnapshotLostError
from broker.store.tables import TableCatalogue


@dataclass(frozen=True)
class LoadedSnapshot:
    """A snapshot with what it was made from.

    Attributes:
        snapshot: the grid.
        sources: the readings that it holds, for the next cycle's shrink guard.
        parts: for each source its digest and the same as bytes, to be stored.
    """

    snapshot: Snapshot
    sources: Mapping[str, RawSource]
    parts: Mapping[str, tuple[str, bytes]]

    def save(self, connection: sa.Connection, engine: str) -> None:
        """Store the snapshot; parts that are stored already cost nothing."""
        about = {"states": [dataclasses.asdict(state) for state in self.snapshot.states]}
        snapshots.save(connection, self.snapshot.id, self.snapshot.taken_at, engine, self.parts, about)


def load_snapshot(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    now: datetime,
    limits: Mapping[str, SourceLimit],
    last_good: Mapping[str, RawSource] | None = None,
    job_statistics: JobStatistics = "live",
    tick: Callable[[], None] = lambda: None,
) -> LoadedSnapshot:
    """Read the grid as it is now.

    Args:
        connection: read-only REPEATABLE READ.
        catalogue: the tables that the database has.
        now: the instant (aware UTC).
        limits: what is asked of each source.
        last_good: the readings of the snapshot before; a source that has shrunk too much keeps its one.
        job_statistics: see :func:`broker.store.snapshot_reads.read_sources`.
        tick: called after each source, for time budgets.
    """
    read = read_sources(connection, catalogue, job_statistics, tick)
    used: dict[str, RawSource] = {}
    states: list[SourceState] = []
    for name in SOURCES:
        # replicas are read with the work, chunk by chunk: there is no reading here that could be stale
        source = read.get(name, RawSource(name, {}))
        used[name], state = assess(source, now, limits[name], (last_good or {}).get(name))
        states.append(state)
    parts = {name: encode(source) for name, source in used.items()}
    identifier = snapshot_id(now, [(name, digest) for name, (digest, _) in parts.items()])
    return LoadedSnapshot(build_snapshot(identifier, now, used, tuple(states)), used, parts)


def stored_snapshot(connection: sa.Connection, identifier: str) -> Snapshot:
    """A stored snapshot, built again from its sources.

    Raises:
        SnapshotLostError: it is not there any more, or not as it was stored.
    """
    taken_at, about = snapshots.about(connection, identifier)
    parts = snapshots.read(connection, identifier)
    try:
        sources = {name: decode(digest, data) for name, (digest, data) in parts.items()}
        states = tuple(SourceState(**_known(state)) for state in about.get("states", []))
    except (SnapshotCorruptError, TypeError) as error:
        raise SnapshotLostError(
            f"snapshot {identifier} cannot be read: {error}", "broker.snapshots", "ask about a newer decision"
        ) from error
    return build_snapshot(identifier, taken_at, sources, states)


def _known(state: Mapping[str, Any]) -> dict[str, Any]:
    fields = {field.name for field in dataclasses.fields(SourceState)}
    return {name: value for name, value in state.items() if name in fields}
