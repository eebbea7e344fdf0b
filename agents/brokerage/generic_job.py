"""The tables of the generic job brokerage: as those of production, for tasks that have no nucleus."""

from __future__ import annotations

from agents.brokerage.production_job import ProductionJobTables
from agents.brokerage.tables import Reading
from broker.store.reads.requested_places import with_requested_places
from broker.work.assemble import CycleWork


class GenericJobTables(ProductionJobTables):
    """Reads the input chunks of tasks with the places that their parameters name, and writes their jobs."""

    needs_nucleus = False
    divided_by = "VO"

    def takes_vo(self, reading: Reading, vo: str) -> bool:
        """A VO belongs to one part: its jobs of all shares are counted."""
        return reading.context.part.takes(vo)

    def shares_taken(self, reading: Reading, vo: str) -> None:
        """Return None: the work of all shares is read."""
        return

    def read(self, reading: Reading, vo: str) -> CycleWork:
        """The input chunks of one VO."""
        return with_requested_places(reading.connection, reading.catalogue, super().read(reading, vo))
