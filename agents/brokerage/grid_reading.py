"""Reading the grid: raw sources in one transaction, judged, and built into the snapshot of a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from agents.service.base import CycleContext
from agents.service.configuration import ProcessSettings, config_file
from broker import __version__
from broker.alongside.statements.copy_records import copied_at
from broker.brokerages.base import Rules
from broker.errors import Refused
from broker.gdpconfig.publish import Published
from broker.snapshot import raw
from broker.snapshot.build import build_snapshot
from broker.snapshot.draft import BuildCache
from broker.snapshot.raw import RawSource, SourceState
from broker.snapshot.snapshot import Snapshot, snapshot_id
from broker.snapshot.source import JobStatistics, Source, SourceLimit, assess
from broker.snapshot.source_list import grid_sources, limits_of, outside_sources
from broker.store.connection.tables import TableCatalogue
from broker.store.gdpconfig_rows import TuningStore
from broker.store.snapshots import stored_snapshots as snapshots
from broker.store.snapshots.source_reads import CachedPart, ReadingCache, SourceReader, read_sources
from broker.store.snapshots.stored_snapshots import EncodedSnapshot
from broker.yaml_text import read_yaml

OLDEST_COPY_S = 3600.0
"""Maximum age of a copied source without a limit of its own; the same as for the counts of jobs."""
REMEMBERED_FOR = timedelta(days=1)
"""A stored snapshot older than this says nothing about how large a source should be."""

#: Readings and builds of the agents of this process, for any database: they are looked up by content. Agents that run
#: one after another reuse what did not change.
_READINGS, _BUILDS = ReadingCache(), BuildCache()


@dataclass(frozen=True)
class GridReading:
    """A snapshot and the stored form of its sources.

    Attributes:
        snapshot: the grid.
        parts: digest and encoded form of its sources, by name.
    """

    snapshot: Snapshot
    parts: Mapping[str, tuple[str, bytes]]

    @property
    def about(self) -> dict[str, Any]:
        """Metadata stored with the snapshot: the state of each source, and the number of rows that were left out."""
        states = self.snapshot.states
        return {
            "states": [state.as_json() for state in states],
            "left_out": len(self.snapshot.dropped_rows),
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on sources that are not ``ok``, and on rows that were left out."""
        notes = [_note(state) for state in self.snapshot.states if state.state != "ok"]
        codes: dict[str, int] = {}
        for row in self.snapshot.dropped_rows:
            codes[f"{row.source}: {row.code}"] = codes.get(f"{row.source}: {row.code}", 0) + 1
        return (*notes, *(f"left out {count} x {code}" for code, count in sorted(codes.items())))


def _note(state: SourceState) -> str:
    age = "" if state.age_s is None else f", {state.age_s:.0f} s old"
    limit = "" if state.limit_s is None else f" (limit {state.limit_s:.0f} s)"
    detail = f": {state.detail}" if state.detail else ""
    return f"source {state.name} is {state.state}{age}{limit}{detail}"


def grid_reader(rules: Rules, process: ProcessSettings, *, for_analysis: bool) -> GridReader:
    """The grid reader of a brokerage, with all sources that its rules and steps need.

    The agent in a service and the plug-in in JEDI both make their reader here: with another set of sources the same
    rules would decide differently.

    Args:
        rules: rules of the brokerage, with those of the brokerages that it asks.
        process: how jobs are counted, and the folder with ``sources.yaml``.
        for_analysis: whether it is an analysis brokerage.

    Raises:
        SourceError: a named source cannot be used.
    """
    named: set[str] = set()
    for chain in (rules.chain, *rules.needed.values()):
        named |= {name for rule in chain for name in rule.sources}
        named |= {name for step in chain.named_steps.values() for name in step.needed_sources()}
    limits = config_file("sources.yaml", process.folder)
    outside = outside_sources(named)
    return GridReader(process.job_statistics, limits, analysis=for_analysis, outside=outside)


class GridReader:
    """Reads the grid cycle after cycle and remembers the last good reading of each source."""

    def __init__(
        self, job_statistics: JobStatistics, limits: Path, *, analysis: bool = False, outside: Sequence[Source] = ()
    ) -> None:
        """Create a reader.

        Args:
            job_statistics: how jobs are counted.
            limits: the file ``sources.yaml``.
            analysis: whether to read also the sources that only the analysis brokerage needs.
            outside: the sources of other distributions that rules name.
        """
        self._sources = (*grid_sources(analysis=analysis), *outside)
        self._limits: dict[str, SourceLimit] = limits_of(read_yaml(limits.read_text(encoding="utf-8")), outside)
        self._job_statistics = job_statistics
        self._last_good: dict[str, RawSource] = {}

    def read(
        self, connection: sa.Connection, catalogue: TableCatalogue, now: datetime, tick: Callable[[], None]
    ) -> GridReading:
        """The grid at ``now``, in the caller's read-only transaction."""
        if not self._last_good:
            self._recall(connection, now)
        copied = copied_at(connection)
        # a mirror keeps no jobs, only PanDA's statistics of them
        statistics = self._job_statistics if copied is None else "panda"
        reader = SourceReader(connection, catalogue, now, statistics, _READINGS, copied)
        sources, failures = read_sources(reader, self._sources, tick)
        used: dict[str, RawSource] = {}
        states: list[SourceState] = []
        for name, source in sources.items():
            if name in failures:
                fault = failures[name]
                used[name], state = source, SourceState(name, fault.state, 0, None, None, detail=fault.detail)
            else:
                used[name], state = assess(source, now, self._limit(name, copied), self._last_good.get(name))
            states.append(state)
            if state.usable:
                self._last_good[name] = used[name]
        parts = {name: self._part(source) for name, source in used.items()}
        digests = {name: digest for name, (digest, _) in parts.items()}
        identifier = snapshot_id(now, list(digests.items()))
        tick()
        return GridReading(build_snapshot(identifier, now, used, tuple(states), digests, _BUILDS), parts)

    def take_over(self, stored: EncodedSnapshot) -> GridReading | None:
        """A stored snapshot as a reading; None if another version stored it, or it lacks sources of this reader.

        Raises:
            SnapshotCorruptError: it is not as it was stored.
        """
        if stored.engine != __version__ or not {source.name for source in self._sources} <= set(stored.parts):
            return None
        digests = {name: digest for name, (digest, _) in stored.parts.items()}
        snapshot = build_snapshot(stored.id, stored.taken_at, stored.sources(), stored.states(), digests, _BUILDS)
        return GridReading(snapshot, stored.parts)

    def _limit(self, name: str, copied: Mapping[str, datetime | None] | None) -> SourceLimit:
        """The limits of a source; a copy has a maximum age even where its rows carry no times."""
        limit = self._limits[name]
        aged = copied is None or limit.max_age_s is not None
        return limit if aged else replace(limit, max_age_s=OLDEST_COPY_S)

    def _part(self, source: RawSource) -> tuple[str, bytes]:
        """The stored form of a source, encoded only if the source has changed."""
        entry = _READINGS.parts.get(source.name)
        if entry is None or not entry.is_of(source):
            entry = _READINGS.parts[source.name] = CachedPart(source, raw.encode(source))
        return entry.part

    def _recall(self, connection: sa.Connection, now: datetime) -> None:
        """After a start, recall the sources with a limit on how much they may shrink from the last stored snapshot."""
        identifier = snapshots.latest_id(connection, now - REMEMBERED_FOR, now)
        if identifier is None:
            return
        for name, (digest, data) in snapshots.read(connection, identifier).items():
            if name in self._limits and self._limits[name].max_shrink < 1.0:
                self._last_good[name] = raw.decode(digest, data)


NEEDED_SOURCES = ("queues",)
"""Required sources: a cycle without one of them would put every task on hold, so it decides nothing."""


def tuning_of(context: CycleContext) -> Published:
    """The gdpconfig values of this cycle; changes made outside the broker become a version of their own."""
    store = TuningStore(context.database.names)
    if context.writes:
        with context.writing() as connection:
            return store.sync_outside_changes(connection)
    with context.database.read_snapshot() as connection:
        return store.read_current(connection, live=True)


def refuse_without(grid: GridReading) -> None:
    """Check that all required sources are usable.

    Raises:
        Refused: a required source cannot be used.
    """
    for state in grid.snapshot.unusable(NEEDED_SOURCES):
        raise Refused(
            f"the source {state.name} is {state.state}",
            f"snapshot {grid.snapshot.id}",
            "nothing was decided; see what fills its tables, and config/sources.yaml for the limits",
        )
