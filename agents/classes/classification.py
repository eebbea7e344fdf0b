"""What the agents that keep classes have in common: read in one transaction, evaluate, write in one fenced transaction.

Alongside PanDA its own daemons write the same rows; there the agents only report what they would write, unless
``written_by`` in ``config/agents.yaml`` says otherwise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal

import sqlalchemy as sa

from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.domain.classification import MetricRow, QueueAbout, TaskRow
from broker.domain.work import DroppedRow
from broker.errors import Refused
from broker.snapshot.build_classes import queues_about
from broker.store.classes import class_rows
from broker.store.classes.class_inputs import read_queue_rows
from broker.store.connection.tables import TableCatalogue
from broker.store.schema import migrate


class ClassificationOptions(AgentOptions):
    """Options of the agents that keep classes.

    Attributes:
        written_by: who keeps the rows; ``auto`` is the broker in an installation of its own, and PanDA alongside it.
    """

    written_by: Literal["auto", "broker", "panda"] = "auto"


@dataclass
class Evaluation:
    """The result of a cycle: rows to write, objects for the caller, counts and notes.

    Attributes:
        metrics: rows of ``metrics``.
        tasks: rows of ``task_evaluation``.
        output: one object for each queue, user, task or share.
        counts: by name.
        notes: for operators.
        dropped_rows: rows that could not be used.
        tuning: version of the gdpconfig values it used.
    """

    metrics: tuple[MetricRow, ...] = ()
    tasks: tuple[TaskRow, ...] = ()
    output: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    dropped_rows: list[DroppedRow] = field(default_factory=list)
    tuning: int | None = None

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, with how many rows were left out by reason."""
        codes = Counter(f"{one.source}: {one.code}" for one in self.dropped_rows)
        return (*self.notes, *(f"left out {count} x {code}" for code, count in sorted(codes.items())))


class ClassificationAgent(Agent[ClassificationOptions]):
    """Keeps rows of ``metrics`` or ``task_evaluation`` current."""

    options_type = ClassificationOptions

    @abstractmethod
    def evaluate(self, connection: sa.Connection, catalogue: TableCatalogue, context: CycleContext) -> Evaluation:
        """Read in the caller's read-only transaction, and decide."""

    def cycle(self, context: CycleContext) -> CycleReport:
        """Evaluate once, and write the result."""
        installation = migrate.check(context.database)
        started = perf_counter()
        with context.database.read_snapshot() as connection:
            evaluation = self.evaluate(connection, TableCatalogue.read(connection, context.database.names), context)
        context.check()
        if context.request.emit is not None:
            for output in evaluation.output:
                context.request.emit(output)
        evaluated = perf_counter()
        if self._writes(installation):
            self._write(context, evaluation)
        else:
            evaluation.notes.append("PanDA's daemons write these rows here (written_by): nothing was written")
        timings = {"evaluate_s": evaluated - started, "write_s": perf_counter() - evaluated}
        return CycleReport(evaluation.counts, timings, evaluation.all_notes, tuning=evaluation.tuning)

    def _writes(self, installation: str) -> bool:
        if self.options.written_by == "auto":
            return installation == migrate.STANDALONE
        return self.options.written_by == "broker"

    def _write(self, context: CycleContext, evaluation: Evaluation) -> None:
        if not context.writes:
            return
        names = context.database.names
        with context.writing() as connection:
            class_rows.write_metrics(connection, names, evaluation.metrics, context.now)
            class_rows.write_tasks(connection, names, evaluation.tasks, context.now)
            self.tidy(connection, context, evaluation)
        evaluation.counts["written"] = len(evaluation.metrics) + len(evaluation.tasks)

    def tidy(self, connection: sa.Connection, context: CycleContext, evaluation: Evaluation) -> None:
        """Remove rows that are no longer needed, in the transaction that writes."""


def queues_on_record(
    connection: sa.Connection, catalogue: TableCatalogue, dropped_rows: list[DroppedRow]
) -> Mapping[str, QueueAbout]:
    """What CRIC says about the queues.

    Raises:
        Refused: no queue is on record, so that no job could be attributed to one.
    """
    queues = queues_about(read_queue_rows(connection, catalogue), dropped_rows)
    if not queues:
        raise no_queue()
    return queues


def no_queue() -> Refused:
    """The error that no queue is on record, so that no job could be attributed to one."""
    return Refused("no queue is on record", "schedconfig_json", "nothing was written; see what fills this table")
