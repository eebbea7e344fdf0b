"""What the agents that end jobs have in common, and the cycle of those that take jobs back for another brokerage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

import sqlalchemy as sa

from agents.alongside import panda_ending
from agents.brokerage.grid_reading import tuning_of
from agents.lifecycle import ending_options as job_moving
from agents.lifecycle.ending_options import EndingOptions, MoveOutcome
from agents.lifecycle.timeout_inputs import TimeoutInputReader, TimeoutInputs, refuse_without_queues
from agents.service.base import Agent, CycleContext, CycleReport
from agents.service.brake import Brake
from agents.service.configuration import ProcessSettings, config_file
from broker.gdpconfig.publish import Published
from broker.gdpconfig.tuning import Tuning
from broker.lifecycle.statements.actions import ActionContext, JobAction
from broker.lifecycle.statements.scan import count_live
from broker.store.connection.tables import TableCatalogue
from broker.store.schema import migrate

EndingT = TypeVar("EndingT", bound=EndingOptions)


class JobEndingAgent(Agent[EndingT]):
    """Base class of the agents that end jobs: it knows the exceptions of queues, and does nothing without them."""

    removes = True

    def __init__(self, options: EndingT, process: ProcessSettings) -> None:
        """Start without a reading of the queues."""
        super().__init__(options, process)
        self._inputs = TimeoutInputReader(config_file("sources.yaml", process.folder))

    def inputs_of(
        self, connection: sa.Connection, context: CycleContext, tuning: Tuning
    ) -> tuple[TableCatalogue, TimeoutInputs]:
        """The tables of the database, and what jobs are judged by.

        Raises:
            Refused: the queues are missing or too old.
        """
        catalogue = TableCatalogue.read(connection, context.database.names)
        inputs = self._inputs.read(connection, catalogue, tuning, context.now)
        refuse_without_queues(inputs)
        return catalogue, inputs

    def braked(
        self, context: CycleContext, due: Sequence[JobAction], live: int
    ) -> tuple[Sequence[JobAction], list[str]]:
        """The ``due`` jobs that one cycle may end while ``live`` jobs have not ended, and a remark on the others.

        A dry run ends nothing, so it gets all of them, with the remark.
        """
        brake = Brake.of(self.name, self.options, context)
        note = brake.report("jobs", len(due), live, writes=context.request.writes)
        moves = due[: brake.allows(live)] if context.request.writes else due
        return moves, [] if note is None else [note]

    def end(
        self,
        context: CycleContext,
        moves: Sequence[JobAction],
        by: ActionContext,
        jobs_of_a_batch: int = job_moving.JOBS_OF_A_BATCH,
    ) -> MoveOutcome:
        """End jobs in the way that the options name; a dry run ends none.

        Raises:
            Refused: PanDA is to end them, and its server is not configured or refuses.
        """
        if not context.request.writes:
            return MoveOutcome()
        if self.options.way(by.standalone) == "sql":
            return job_moving.carry_out(context, moves, by, jobs_of_a_batch)
        return panda_ending.carry_out(context, moves, by, self.options.server(self.name))


def held_back_of(due: Sequence[JobAction], moves: Sequence[JobAction]) -> dict[str, int]:
    """The number of jobs that the brake holds back, if any."""
    return {"held_back": len(due) - len(moves)} if len(due) > len(moves) else {}


@dataclass(frozen=True)
class Findings(ABC):
    """What a cycle read and decided.

    Attributes:
        notes: remarks for operators.
        catalogue: the tables of the database.
    """

    notes: list[str]
    catalogue: TableCatalogue

    @abstractmethod
    def moves(self) -> list[JobAction]:
        """The jobs to take back, in order."""

    @abstractmethod
    def output(self, moved: MoveOutcome, *, writes: bool) -> Iterator[dict[str, Any]]:
        """One object for each item that was checked."""

    @abstractmethod
    def counts(self, moves: Sequence[JobAction], moved: MoveOutcome) -> Mapping[str, int]:
        """Numbers by name, for the report."""


class RebrokerageAgent(JobEndingAgent[EndingT]):
    """Takes waiting jobs back from queues."""

    @abstractmethod
    def look(self, connection: sa.Connection, context: CycleContext, published: Published) -> Findings:
        """Read and decide, in a read-only transaction."""

    def cycle(self, context: CycleContext) -> CycleReport:
        """Check all waiting jobs once, and take back those that should be brokered again."""
        standalone = self.process.makes_jobs(migrate.check(context.database))
        started = perf_counter()
        published = tuning_of(context)
        with context.database.read_snapshot() as connection:
            findings = self.look(connection, context, published)
            live = count_live(connection, findings.catalogue)
        context.check()
        loaded_s = perf_counter() - started
        due = findings.moves()
        moves, held_back = self.braked(context, due, live)
        by = ActionContext(findings.catalogue, self.name, context.run_id, context.now, standalone)
        moved = self.end(context, moves, by)
        if context.request.emit is not None:
            for message in findings.output(moved, writes=context.request.writes):
                context.request.emit(message)
        timings = {"load_s": loaded_s, "write_s": perf_counter() - started - loaded_s}
        counts = {**findings.counts(due, moved), **held_back_of(due, moves)}
        return CycleReport(counts, timings, (*held_back, *moved.notes, *findings.notes), tuning=published.version)
