"""Stored cycles as cases for a comparison, read from a database one after the other.

Scenario files become cases too: each is loaded into a temporary database of its own and brokered once.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from agents.brokerage.grid_reading import GridReader
from agents.service.configuration import config_file, load_process
from broker import __version__
from broker.decisions.answers.agent_cycle import broker_once
from broker.gdpconfig.publish import Published, UnknownVersionError
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.connection.tables import Names, TableCatalogue
from broker.store.decisions.stored_cycles import CycleKey, cycle_keys
from broker.store.gdpconfig_rows import TuningStore
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario, read_scenario
from broker.store.schema.migrate import upgrade
from broker.store.snapshots import stored_snapshots as snapshots
from broker.store.snapshots.stored_snapshots import EncodedSnapshot, SnapshotLostError
from broker.whatif.model.cases import Case
from broker.whatif.statements.case_rows import NothingStored as NothingStored, read_case


@dataclass(frozen=True)
class Selection:
    """A selection of cycles: those of a time span, or those on one snapshot.

    Attributes:
        since: first instant, None with a snapshot.
        until: last instant, None with a snapshot.
        snapshot: id of the snapshot.
        brokerages: only those; None for all.
        newest: only this many of the newest cycles of each brokerage; None for all.
        decisions: with ``newest``, also older cycles until there are this many decisions in all.
        newest_since: with ``newest``, also all cycles from this instant on.
    """

    since: datetime | None = None
    until: datetime | None = None
    snapshot: str | None = None
    brokerages: tuple[str, ...] | None = None
    newest: int | None = None
    decisions: int = 0
    newest_since: datetime | None = None


@dataclass
class StoredCases:
    """The cases of a selection and the cycles left out; another process reads them from the same database.

    Attributes:
        database: that holds them.
        keys: of the cycles, oldest first.
        dropped_rows: cycles that cannot be decided again, each with the reason; filled while the cases are read.
    """

    database: Database
    keys: Sequence[CycleKey]
    dropped_rows: list[str] = field(default_factory=list)
    _published: dict[int, Published] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, part: slice) -> StoredCases:
        """A slice of the cases, which lists the cycles left out of it on its own."""
        return StoredCases(self.database, self.keys[part], _published=self._published)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address of the database and the keys."""
        return _read_elsewhere, (self.database.url, self.database.names, self.keys)

    def __iter__(self) -> Iterator[Case]:
        for key in self.keys:
            try:
                with self.database.read_snapshot() as connection:
                    case = read_case(connection, key, partial(self._tuning, connection))
            except (SnapshotLostError, UnknownVersionError, NothingStored) as error:
                self.dropped_rows.append(f"{key.brokerage} at {key.origin.decided_at.isoformat()}: {error}")
                continue
            yield case

    def _tuning(self, connection: sa.Connection, version: int) -> Published:
        if version not in self._published:
            self._published[version] = TuningStore(self.database.names).version(connection, version)
        return self._published[version]


def _read_elsewhere(url: str, names: Names, keys: Sequence[CycleKey]) -> StoredCases:
    database, published = _opened(url, names)
    return StoredCases(database, keys, _published=published)


@lru_cache(maxsize=1)
def _opened(url: str, names: Names) -> tuple[Database, dict[int, Published]]:
    """The database of a worker process, and the versions of the tuning that it has read."""
    return Database(url, names, application_name="gridbroker what-if", pool_size=1), {}


def stored_cases(database: Database, selection: Selection) -> StoredCases:
    """The cases of a selection.

    Raises:
        NothingStored: there is none.
        SnapshotLostError: the requested snapshot does not exist.
    """
    with database.read_snapshot() as connection:
        if selection.snapshot is not None:
            snapshots.about(connection, selection.snapshot)
        keys = cycle_keys(
            connection,
            since=selection.since,
            until=selection.until,
            snapshot=selection.snapshot,
            brokerages=selection.brokerages,
        )
    if selection.newest is not None:
        keys = newest_keys(keys, selection.newest, selection.decisions, selection.newest_since)
    if not keys:
        where = f"on snapshot {selection.snapshot}"
        if selection.snapshot is None:
            where = f"from {selection.since or 'the beginning'} to {selection.until or 'now'}"
        remedy = "run a brokerage first, or take a longer time"
        raise NothingStored(f"there is no stored cycle {where}", "broker.decisions", remedy)
    return StoredCases(database, keys)


def newest_keys(keys: Sequence[CycleKey], count: int, decisions: int, since: datetime | None = None) -> list[CycleKey]:
    """The last ``count`` of each brokerage, all from ``since`` on, and older ones until there are ``decisions``.

    The order stays the same.
    """
    seen: Counter[str] = Counter()
    is_last: list[bool] = []
    for key in reversed(keys):
        seen[key.brokerage] += 1
        is_new = since is not None and key.origin.decided_at >= since
        is_last.append(is_new or seen[key.brokerage] <= count)
    in_all = sum(key.size for key, last in zip(reversed(keys), is_last, strict=True) if last)
    selected: list[CycleKey] = []
    for key, last in zip(reversed(keys), is_last, strict=True):
        if last or in_all < decisions:
            selected.append(key)
            in_all += 0 if last else key.size
    return selected[::-1]


#: The database is temporary: nothing has to survive a crash.
_CARELESS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


@contextmanager
def scratch_database(purpose: str) -> Iterator[Database]:
    """An empty database with the current schema; ``purpose`` becomes part of the name of its folder.

    Raises:
        EmbeddedServerError: the extra is not installed, or the server does not start.
    """
    with tempfile.TemporaryDirectory(prefix=f"gridbroker-{purpose}-") as folder:
        server = EmbeddedServer(Path(folder), _CARELESS)
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            yield database


def scenario_cases(file: Path, brokerages: Sequence[str], seed: int, config: Path | None) -> list[Case]:
    """One case for each brokerage that has work in the scenario; each starts from the unchanged scenario.

    Args:
        file: the scenario.
        brokerages: to run.
        seed: of the cycles.
        config: folder with configuration files of the operator's own.

    Raises:
        BadScenario: the file cannot be used.
        NothingStored: no brokerage has work.
    """
    scenario = read_scenario(file)
    cases: list[Case] = []
    with scratch_database("scenario") as database:
        for brokerage in brokerages:
            load(database, scenario, replace=True)
            broker_once(brokerage, database, scenario.now, seed, lambda output: None, config)
            try:
                own = stored_cases(database, Selection(brokerages=(brokerage,)))
            except NothingStored:
                continue
            cases += own
    if not cases:
        raise NothingStored("no brokerage has work in the scenario", str(file), "see broker db load, and broker run")
    return cases


def snapshot_of_scenario(scenario: Scenario, folder: Path | None = None) -> EncodedSnapshot:
    """The snapshot of a scenario at its instant, with the sources of all brokerages.

    Args:
        scenario: the grid.
        folder: with configuration files of the operator's own; None for the shipped ones.

    Raises:
        BadScenario: a table, column or value does not fit.
    """
    statistics = load_process(config_file("broker.yaml", folder), folder).job_statistics
    reader = GridReader(statistics, config_file("sources.yaml", folder), analysis=True)
    with scratch_database("scenario") as database:
        load(database, scenario)
        with database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, database.names)
            grid = reader.read(connection, catalogue, scenario.now, lambda: None)
    snapshot = grid.snapshot
    return EncodedSnapshot(snapshot.id, snapshot.taken_at, __version__, grid.about, grid.parts)
