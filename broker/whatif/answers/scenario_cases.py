"""Scenario files for comparisons: loaded into a database of their own, brokered once, and gone again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agents.brokerage.grid_reading import GridReader
from agents.service.configuration import config_file
from agents.service.process import load_process
from broker import __version__
from broker.decisions.answers.agent_cycle import broker_once
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.connection.tables import TableCatalogue
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario, read_scenario
from broker.store.schema.migrate import upgrade
from broker.store.snapshots.snapshot_loading import KeptSnapshot
from broker.whatif.answers.stored_cases import NothingStored, Selection, stored_cases
from broker.whatif.model.cases import Case

#: It is thrown away: nothing has to survive a crash.
_CARELESS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


@contextmanager
def scratch_database(purpose: str) -> Iterator[Database]:
    """An empty database with the current schema; ``purpose`` is in the name of its folder.

    Raises:
        EmbeddedServerError: the extra is not installed, or the server does not start.
    """
    with tempfile.TemporaryDirectory(prefix=f"gridbroker-{purpose}-") as folder:
        server = EmbeddedServer(Path(folder), _CARELESS)
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            yield database


def scenario_cases(file: Path, brokerages: Sequence[str], seed: int, config: Path | None) -> list[Case]:
    """One case for each brokerage that has work in the scenario; each of them meets the scenario as it is.

    Args:
        file: the scenario.
        brokerages: that are asked.
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
                found = stored_cases(database, Selection(brokerages=(brokerage,)))
            except NothingStored:
                continue
            cases += found
    if not cases:
        raise NothingStored("no brokerage has work in the scenario", str(file), "see broker db load, and broker run")
    return cases


def snapshot_of_scenario(scenario: Scenario, folder: Path | None = None) -> KeptSnapshot:
    """The snapshot of a scenario at its instant, with the sources of all brokerages.

    Args:
        scenario: the grid.
        folder: with configuration files of the operator's own; the shipped ones without it.

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
    return KeptSnapshot(snapshot.id, snapshot.taken_at, __version__, grid.about, grid.parts)
