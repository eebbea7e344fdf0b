"""What every brokerage agent reads before it decides: the tuning in force, and a grid that may be decided on."""

from __future__ import annotations

from agents.brokerage.grid_reading import GridReading
from agents.service.base import CycleContext
from broker.errors import Refused
from broker.gdpconfig.publish import Published
from broker.tuning.statements.gdpconfig_rows import TuningStore

NEEDED_SOURCES = ("queues",)
"""Sources without which a cycle decides nothing at all: it would put every task on hold."""


def tuning_of(context: CycleContext) -> Published:
    """The gdpconfig values of this cycle; changes that were made outside become a version of their own."""
    store = TuningStore(context.database.names)
    if context.writes:
        with context.writing() as connection:
            return store.sync_outside_changes(connection)
    with context.database.read_snapshot() as connection:
        return store.read_current(connection, live=True)


def refuse_without(grid: GridReading) -> None:
    """Go on only with the sources that nobody can do without.

    Raises:
        Refused: one of them cannot be used.
    """
    for state in grid.snapshot.unusable(NEEDED_SOURCES):
        raise Refused(
            f"the source {state.name} is {state.state}",
            f"snapshot {grid.snapshot.id}",
            "nothing was decided; see what fills its tables, and config/sources.yaml for the limits",
        )
