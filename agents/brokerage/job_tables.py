"""The tables of the job brokerages: input chunks, jobs, files and waiting tasks.

The generic job brokerage uses the tables of production for tasks that have no nucleus. The analysis job brokerage
uses them with data about users.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal

import psycopg
from pydantic import Field

from agents.brokerage.tables import BrokerageOptions, BrokerageTables, Reading, Skipped
from broker.domain.arrays import floats, texts
from broker.domain.placements import Placement
from broker.engine.job.count_facts import share_tags
from broker.store.connection.tables import Names
from broker.store.reads import task_alternatives
from broker.store.reads.analysis_requests import load_analysis_work, with_requested_places
from broker.store.reads.chunk_loading import load_work
from broker.store.reads.chunk_reads import FILES_OF_A_CYCLE, TASK_STATUSES, WAITING, WorkSelection
from broker.store.reads.task_states import ShareOfTasks, TaskState, distinct_shares, distinct_vos, states_of
from broker.store.writes.job_rows import AssignmentWriter, WriteBack
from broker.work.assemble import CycleWork
from broker.work.chunks import FILES_OF_A_DATASET


class ProductionJobOptions(BrokerageOptions):
    """Options of the agent.

    Attributes:
        files_of_a_cycle: ready files read in one cycle.
        files_of_a_dataset: ready files read of one master dataset in one cycle.
        chunks_of_a_batch: input chunks written in one transaction.
    """

    files_of_a_cycle: int = Field(default=FILES_OF_A_CYCLE, ge=1)
    files_of_a_dataset: int = Field(default=FILES_OF_A_DATASET, ge=1)
    chunks_of_a_batch: int = Field(default=250, ge=1)

    @property
    def pieces_of_a_batch(self) -> int:
        """Input chunks written in one transaction."""
        return self.chunks_of_a_batch


class ProductionJobTables(BrokerageTables[CycleWork, ProductionJobOptions]):
    """Reads the input chunks of tasks that have a nucleus, and writes their jobs."""

    options_type = ProductionJobOptions
    counts = ("tasks", "chunks", "candidates", "brokered", "jobs")
    #: Whether the tasks are analysis tasks, which have no nucleus.
    for_analysis: ClassVar[bool] = False
    #: Whether only tasks that have a nucleus are brokered.
    needs_nucleus: ClassVar[bool] = True
    divided_by = "accounting key"

    def load(self, reading: Reading) -> dict[str, CycleWork]:
        """The input chunks of each VO, with the alternative ways to run their tasks."""
        vos = reading.brokered(distinct_vos(reading.connection, reading.catalogue, self._statuses))
        works = {vo: self.read(reading, vo) for vo in vos if self.takes_vo(reading, vo)}
        tasks = {task for work in works.values() for task in self.tasks_of(work)}
        ways = task_alternatives.read(reading.connection, sorted(tasks))
        return {vo: dataclasses.replace(work, ways=ways) for vo, work in works.items()}

    @property
    def _statuses(self) -> tuple[str, ...]:
        """Statuses that tasks with work may have."""
        return (*TASK_STATUSES, WAITING) if self.each_cycle else TASK_STATUSES

    def takes_vo(self, reading: Reading, vo: str) -> bool:
        """Whether this cycle's part of the work may have tasks of a VO."""
        return True

    def shares_taken(self, reading: Reading, vo: str) -> tuple[ShareOfTasks, ...] | None:
        """The shares in this cycle's part of the work; None: all. Placements count only within their accounting key."""
        part = reading.context.part
        if part.is_whole:
            return None
        task_shares = distinct_shares(reading.connection, reading.catalogue, vo, self._statuses)
        shares, queues = (
            texts(share.gshare for share in task_shares),
            floats([share.workqueue_id for share in task_shares]),
        )
        keys = share_tags(shares, queues, reading.resource_work_queues)
        return tuple(share for share, key in zip(task_shares, keys, strict=True) if part.takes(key))

    def read(self, reading: Reading, vo: str) -> CycleWork:
        """The input chunks of one VO."""
        labels, excluded = reading.labels
        selection = WorkSelection(
            vo=vo,
            labels=labels,
            labels_excluded=excluded,
            task_ids=reading.context.request.task_ids,
            shares=self.shares_taken(reading, vo),
            with_nucleus=self.needs_nucleus,
            whole_constituents=self.for_analysis,
            waiting=self.each_cycle,
            files_of_a_dataset=self.options.files_of_a_dataset,
            files_of_a_cycle=self.options.files_of_a_cycle,
        )
        work = load_work(reading.connection, reading.catalogue, selection)
        reading.context.check()
        return work

    def tasks_of(self, work: CycleWork) -> Sequence[int]:
        """The task of each chunk."""
        tasks: list[int] = work.work.chunks.jeditaskid.tolist()
        return tasks

    def skipped(self, reading: Reading, task_ids: Sequence[int]) -> list[Skipped]:
        """Why these tasks have nothing to broker."""
        states = states_of(reading.connection, reading.catalogue, task_ids)
        return [Skipped(task, self._skip_reason(states.get(task))) for task in task_ids]

    def _skip_reason(self, state: TaskState | None) -> str:
        if state is None:
            return "no_such_task"
        if state.status not in self._statuses:
            return f"task_status_{state.status}"
        if state.nucleus is None and self.needs_nucleus:
            return "no_nucleus"
        return "no_ready_input"

    def writes_rows(self, makes_jobs: bool) -> bool:
        """Whether to write rows; alongside JEDI only decisions are recorded."""
        return makes_jobs

    def wake(self, connection: psycopg.Connection[Any], names: Names, now: datetime) -> Mapping[str, int]:
        """Reactivate pending tasks that have waited long enough."""
        writer = AssignmentWriter(connection, names, now)
        return {"tasks_reactivated": writer.reactivate(for_users=self.for_analysis)}

    def write(self, connection: psycopg.Connection[Any], names: Names, now: datetime, rows: Placement) -> WriteBack:
        """Write jobs, files, counters and waiting tasks."""
        return AssignmentWriter(connection, names, now, each_cycle=self.each_cycle).write(rows)


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


DONE_JOB_HOURS = "TW_DONE_JOB_STAT"


class AnalysisJobOptions(ProductionJobOptions):
    """Options of the agent, in addition to those of production.

    Attributes:
        quota_unknown: what to do while quotas cannot be read: ``closed`` gives users no jobs, ``open`` requires none.
    """

    quota_unknown: Literal["closed", "open"] = Field(default="closed")


class AnalysisJobTables(ProductionJobTables):
    """Reads the input chunks of analysis tasks with the requests of their users, and writes their jobs."""

    options_type = AnalysisJobOptions
    for_analysis, needs_nucleus = True, False
    divided_by = "VO"

    def takes_vo(self, reading: Reading, vo: str) -> bool:
        """A VO belongs to one part: users are counted in all its shares."""
        return reading.context.part.takes(vo)

    def shares_taken(self, reading: Reading, vo: str) -> None:
        """Return None: the work of all shares is read."""
        return

    def read(self, reading: Reading, vo: str) -> CycleWork:
        """The input chunks of one VO, each with what its task requests and what its earlier jobs did."""
        work = super().read(reading, vo)
        hours = reading.tuning(vo).only((DONE_JOB_HOURS,)).number(DONE_JOB_HOURS)
        connection, catalogue, now = reading.connection, reading.catalogue, reading.context.now
        analysis_request, dropped_rows = load_analysis_work(connection, catalogue, work.work.chunks, now, hours)
        analysis_work = dataclasses.replace(
            work.work, dropped_rows=(*work.work.dropped_rows, *dropped_rows), analysis_request=analysis_request
        )
        return dataclasses.replace(work, work=analysis_work)
