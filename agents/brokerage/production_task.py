"""The tables of the production task brokerage: tasks in ``assigning``, nuclei, and the endpoints of their output."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
from pydantic import Field

from agents.brokerage.tables import BrokerageOptions, BrokerageTables, Reading, Skipped
from broker.domain.placements import TaskPlacement
from broker.domain.task_work import TaskWork
from broker.store.connection.tables import Names
from broker.store.reads.task_loading import load_task_work
from broker.store.reads.task_reads import ASSIGNING, TaskSelection
from broker.store.reads.task_states import distinct_vos, why_skipped
from broker.store.writes.task_rows import NucleiWritten, NucleusWriter


class ProductionTaskOptions(BrokerageOptions):
    """Options of the agent.

    Attributes:
        tasks_of_a_cycle: tasks of a VO read in one cycle; the others wait for the next one.
        tasks_of_a_batch: tasks written in one transaction.
        only_record: decide about every task that waits for a nucleus and write nothing but the decisions, for shadow
            mode alongside JEDI's task broker.
    """

    tasks_of_a_cycle: int = Field(default=10_000, ge=1)
    tasks_of_a_batch: int = Field(default=500, ge=1)
    only_record: bool = False

    @property
    def pieces_of_a_batch(self) -> int:
        """Tasks written in one transaction."""
        return self.tasks_of_a_batch


class ProductionTaskTables(BrokerageTables[TaskWork, ProductionTaskOptions]):
    """Reads the tasks that wait for a nucleus and are due, and writes their nuclei."""

    options_type = ProductionTaskOptions
    counts = ("tasks", "candidates", "brokered")

    def load(self, reading: Reading) -> dict[str, TaskWork]:
        """The tasks of each VO."""
        vos = reading.brokered(distinct_vos(reading.connection, reading.catalogue, (ASSIGNING,)))
        return {vo: self._read(reading, vo) for vo in vos}

    def _read(self, reading: Reading, vo: str) -> TaskWork:
        labels, excluded = reading.labels
        selection = TaskSelection(
            vo=vo,
            now=reading.context.now,
            labels=labels,
            labels_excluded=excluded,
            task_ids=reading.context.request.task_ids,
            most=self.options.tasks_of_a_cycle,
            # JEDI takes the due tasks itself: decisions that are only recorded must come before
            due_only=not self.each_cycle and not self.options.only_record,
        )
        work = load_task_work(reading.connection, reading.catalogue, selection)
        reading.context.check()
        return work

    def writes_rows(self, makes_jobs: bool) -> bool:
        """Whether to write nuclei, or only to record decisions; who makes the jobs does not matter."""
        return not self.options.only_record

    def tasks_of(self, work: TaskWork) -> Sequence[int]:
        """The tasks of the work whose nucleus is written."""
        tasks: list[int] = work.tasks.jeditaskid.tolist()
        return tasks

    def skipped(self, reading: Reading, task_ids: Sequence[int]) -> list[Skipped]:
        """Why these tasks are not brokered now."""
        tasks = why_skipped(
            reading.connection, reading.catalogue, task_ids, reading.context.now, due_only=not self.each_cycle
        )
        return [
            Skipped(task.jeditaskid, task.reason, None if task.until is None else task.until.replace(tzinfo=UTC))
            for task in tasks
        ]

    def write(
        self, connection: psycopg.Connection[Any], names: Names, now: datetime, rows: TaskPlacement
    ) -> NucleiWritten:
        """Write nuclei, output destinations and waiting tasks."""
        return NucleusWriter(connection, names, now, each_cycle=self.each_cycle).write(rows)

    def warnings(self, work: TaskWork) -> list[str]:
        """Task rows that cannot be used, counted by reason."""
        counts: dict[str, int] = {}
        for row in work.dropped_rows:
            counts[f"{row.source}: {row.code}"] = counts.get(f"{row.source}: {row.code}", 0) + 1
        return [f"{count} x {code}" for code, count in sorted(counts.items())]
