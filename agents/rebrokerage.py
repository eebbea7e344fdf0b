"""What the agents that end jobs have in common, and the cycle of those that take jobs back for another brokerage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import sqlalchemy as sa

from agents import job_moving
from agents.base import Agent, CycleContext, CycleReport, OptionsT
from agents.configuration import config_file
from agents.cycle_inputs import tuning_of
from agents.job_moving import Moved
from agents.process import ProcessSettings
from agents.timeout_inputs import TimeoutInputReader, TimeoutInputs, refuse_without_queues
from broker.gdpconfig.tuning import Tuning
from broker.store import migrate
from broker.store.lifecycle_actions import Acting, JobMove
from broker.store.tables import TableCatalogue


class JobEndingAgent(Agent[OptionsT]):
    """Ends jobs: it knows the exceptions of queues, and does nothing without."""

    def __init__(self, options: OptionsT, process: ProcessSettings) -> None:
        """Remember nothing of the queues yet."""
        super().__init__(options, process)
        self._inputs = TimeoutInputReader(config_file("sources.yaml", process.folder))

    def inputs_of(
        self, connection: sa.Connection, context: CycleContext, tuning: Tuning
    ) -> tuple[TableCatalogue, TimeoutInputs]:
        """The tables there are, and what jobs are judged by.

        Raises:
            Refused: the queues are missing or too old.
        """
        catalogue = TableCatalogue.read(connection, context.database.names)
        inputs = self._inputs.read(connection, catalogue, tuning, context.now)
        refuse_without_queues(inputs)
        return catalogue, inputs


@dataclass(frozen=True)
class Findings(ABC):
    """What a cycle read and decided.

    Attributes:
        notes: remarks for operators.
        catalogue: the tables there are.
    """

    notes: list[str]
    catalogue: TableCatalogue

    @abstractmethod
    def moves(self) -> list[JobMove]:
        """The jobs that are to be taken back, in order."""

    @abstractmethod
    def told(self, moved: Moved, *, writes: bool) -> Iterator[dict[str, Any]]:
        """One object for each thing that was looked at."""

    @abstractmethod
    def counts(self, moves: Sequence[JobMove], moved: Moved) -> Mapping[str, int]:
        """Numbers by name, for the report."""


class RebrokerageAgent(JobEndingAgent[OptionsT]):
    """Takes waiting jobs back from queues."""

    @abstractmethod
    def look(self, connection: sa.Connection, context: CycleContext, tuning: Tuning) -> Findings:
        """Read and decide, in a read-only transaction."""

    def cycle(self, context: CycleContext) -> CycleReport:
        """Look at all that waits, once, and take back what is to go."""
        standalone = self.process.makes_jobs(migrate.check(context.database))
        started = perf_counter()
        published = tuning_of(context)
        with context.database.read_snapshot() as connection:
            found = self.look(connection, context, published.tuning(None))
        context.check()
        loaded_s = perf_counter() - started
        moves = found.moves()
        by = Acting(found.catalogue, self.name, context.run_id, context.now, standalone)
        moved = job_moving.carry_out(context, moves, by)
        if context.request.tell is not None:
            for one in found.told(moved, writes=context.request.writes):
                context.request.tell(one)
        timings = {"load_s": loaded_s, "write_s": perf_counter() - started - loaded_s}
        return CycleReport(found.counts(moves, moved), timings, tuple(found.notes), tuning=published.version)
