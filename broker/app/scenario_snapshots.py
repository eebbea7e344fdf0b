"""The snapshot that a cycle would take of a scenario: it is loaded into a database of its own, gone at the end."""

from __future__ import annotations

from pathlib import Path

from agents.brokerage.grid_reading import GridReader
from agents.service.configuration import config_file
from agents.service.process import load_process
from broker import __version__
from broker.app.scratch_database import scratch_database
from broker.store.connection.tables import TableCatalogue
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.snapshots.snapshot_loading import KeptSnapshot


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
