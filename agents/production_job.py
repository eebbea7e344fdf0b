"""The agent of the production job brokerage: read the grid and the work, decide, cut, write.

The decision itself is pure and lies in :mod:`broker.brokerages`; here it is given its inputs and its outcome is
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

import sqlalchemy as sa
from pydantic import Field

from agents import fault_points
from agents.base import Agent, AgentOptions, CycleContext, CycleReport
from agents.canary import canary_of
from agents.configuration import config_file
from agents.cycle_inputs import refuse_without, tuning_of
from agents.grid_reading import GridReader, GridReading
from agents.placement_writing import Batch, BatchWriter, batches, reactivate, records_of
from agents.process import ProcessSettings
from broker import __version__
from broker.brokerages.alternatives import with_chosen_ways
from broker.brokerages.placing import PlacedChunk, StageTimes, place
from broker.brokerages.profile import BrokerageProfile, build_chain, read_profile
from broker.domain.alternatives import WayToRun
from broker.domain.decisions import Decision
from broker.domain.work import Work
from broker.engine.chain import Chain
from broker.engine.job_cycle import JobCycle
from broker.gdpconfig import Tuning
from broker.store import migrate, task_alternatives
from broker.store.decision_object import decision_object
from broker.store.decisions import DecisionRecord, Origin
from broker.store.tables import TableCatalogue
from broker.store.task_states import TaskState, distinct_vos, states_of
from broker.store.work_loading import load_work
from broker.store.work_reads import FILES_OF_A_CYCLE, WorkSelection
from broker.work.assemble import CycleWork
from broker.work.chunks import FILES_OF_A_DATASET

NAME = "production_job"

WaysOfTasks = Mapping[int, Sequence[WayToRun]]
"""The ways in which tasks may be run, of those that have a choice."""

COUNTS = ("tasks", "chunks", "candidates", "brokered", "jobs")
"""Counts that every cycle reports, also when they are 0."""


class ProductionJobOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        files_of_a_cycle: ready files read in one cycle.
        files_of_a_dataset: ready files read of one master dataset in one cycle.
        chunks_of_a_batch: input chunks written in one transaction.
    """

    files_of_a_cycle: int = Field(default=FILES_OF_A_CYCLE, ge=1)
    files_of_a_dataset: int = Field(default=FILES_OF_A_DATASET, ge=1)
    chunks_of_a_batch: int = Field(default=250, ge=1)


@dataclass
class _Tally:
    """What a cycle adds up while it runs."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    timings: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("load_s", "decide_s", "cut_s", "write_s"), 0.0)
    )
    notes: list[str] = field(default_factory=list)

    def add(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + count


class ProductionJobAgent(Agent[ProductionJobOptions]):
    """Brokers the input chunks of production tasks and makes their jobs."""

    name = NAME
    title = "production job brokerage"
    options_type: type[ProductionJobOptions] = ProductionJobOptions
    #: Whether the tasks are those of users, which have no nucleus.
    for_users = False

    def __init__(self, options: ProductionJobOptions, process: ProcessSettings) -> None:
        """Read the profile and build the chain of rules.

        Raises:
            ProfileError: the profile or one of its rules cannot be used.
        """
        super().__init__(options, process)
        text = config_file(f"profiles/{process.profile}.yaml", process.folder).read_text(encoding="utf-8")
        self._entry: BrokerageProfile = read_profile(text).of(self.name)
        self._chain: Chain = build_chain(self._entry)
        limits = config_file("sources.yaml", process.folder)
        self._grid = GridReader(process.job_statistics, limits, analysis=self.for_users)

    def cycle(self, context: CycleContext) -> CycleReport:
        """Broker once all tasks that have ready input."""
        tally = _Tally()
        makes_jobs = self.process.makes_jobs(migrate.check(context.database))
        published = tuning_of(context)
        if makes_jobs and context.lease is not None and context.request.writes:
            woken = reactivate(context.database, context.lease, context.now, for_users=self.for_users)
            tally.add({"tasks_reactivated": woken})
        started = perf_counter()
        fault_points.reach("before_snapshot")
        grid, works, ways = self._load(context)
        fault_points.reach("after_snapshot")
        tally.timings["load_s"] = perf_counter() - started
        tally.notes += [*grid.notes, *(f"gdpconfig: {row}" for row in published.bad_rows)]
        refuse_without(grid)
        origin = Origin(context.run_id, context.now, grid.snapshot.id, published.version, context.seed, __version__)
        canary, remarks = canary_of(context, published)
        tally.notes += remarks
        for vo, read in works.items():
            cycle, work = self._job_cycle(grid, read, ways, published.tuning(vo), context)
            own = origin
            if canary is not None:
                tried = partial(self._tried_cycle, grid, work, context)
                cycle, own = canary.split_jobs(cycle, vo, origin, tried)
            self._place(cycle, work, _Sink(context, grid, own, makes_jobs, tally))
            tally.notes += [f"rule {fault.rule} left out: {fault.error}" for fault in cycle.faults]
        return CycleReport(tally.counts, tally.timings, tuple(tally.notes), grid.snapshot.id, published.version)

    def _tried_cycle(self, grid: GridReading, work: CycleWork, context: CycleContext, tuning: Tuning) -> JobCycle:
        """A cycle with other values over work of which the ways to run it are chosen."""
        return self._job_cycle(grid, work, {}, tuning, context)[0]

    def _job_cycle(
        self, grid: GridReading, read: CycleWork, ways: WaysOfTasks, tuning: Tuning, context: CycleContext
    ) -> tuple[JobCycle, CycleWork]:
        """The cycle over the work that was read, and the work as it is brokered."""

        def cycle_over(work: Work, independent: bool = True) -> JobCycle:
            return JobCycle(grid.snapshot, work, tuning, self._chain, independent=independent)

        work = with_chosen_ways(read, ways, cycle_over)
        return cycle_over(work.work, context.request.independent), work

    def _load(self, context: CycleContext) -> tuple[GridReading, dict[str, CycleWork], WaysOfTasks]:
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            grid = self._grid.read(connection, catalogue, context.now, context.check)
            works = {vo: self._work(connection, catalogue, context, vo) for vo in self._vos(connection, catalogue)}
            _tell_of_others(connection, catalogue, context, works, self)
            tasks = {task for work in works.values() for task in work.work.chunks.jeditaskid.tolist()}
            ways = task_alternatives.read(connection, sorted(tasks))
        return grid, works, ways

    def _vos(self, connection: sa.Connection, catalogue: TableCatalogue) -> list[str]:
        """VOs whose tasks are brokered, one after the other, as each has its own tuning."""
        found = distinct_vos(connection, catalogue, WorkSelection().statuses)
        return [vo for vo in found if "*" in self._entry.vo or vo in self._entry.vo]

    def _work(self, connection: sa.Connection, catalogue: TableCatalogue, context: CycleContext, vo: str) -> CycleWork:
        excluded = not self._entry.labels
        selection = WorkSelection(
            vo=vo,
            labels=self._entry.exclude_labels if excluded else self._entry.labels,
            labels_excluded=excluded,
            task_ids=context.request.task_ids,
            with_nucleus=not self.for_users,
            files_of_a_dataset=self.options.files_of_a_dataset,
            files_of_a_cycle=self.options.files_of_a_cycle,
        )
        work = load_work(connection, catalogue, selection)
        context.check()
        return work

    def _place(self, cycle: JobCycle, work: CycleWork, sink: _Sink) -> None:
        times = StageTimes()
        placed = place(cycle, work, sink.origin.seed, times)
        # one batch is written while the next is decided: the server and this process work at the same time
        with ThreadPoolExecutor(1, thread_name_prefix="writer") as writer:
            under_way: Future[None] | None = None
            for together in batches(placed, work, self.options.chunks_of_a_batch):
                batch = sink.prepare(together, work)
                if under_way is not None:
                    under_way.result()
                sink.context.check()
                under_way = writer.submit(sink.take, batch)
            if under_way is not None:
                under_way.result()
        sink.tally.timings["decide_s"] += times.decide_s
        sink.tally.timings["cut_s"] += times.cut_s
        tasks, chunks = len(set(work.work.chunks.jeditaskid.tolist())), len(work.work.chunks)
        sink.tally.add({"tasks": tasks, "chunks": chunks})


class _Sink:
    """Where the batches of a cycle go: into the database, and to whoever listens."""

    def __init__(
        self, context: CycleContext, grid: GridReading, origin: Origin, makes_jobs: bool, tally: _Tally
    ) -> None:
        self.context, self.grid, self.origin, self.tally = context, grid, origin, tally
        self._writer: BatchWriter | None = None
        if context.lease is not None and context.request.writes:
            self._writer = BatchWriter(context.database, context.lease, makes_jobs, origin, grid)

    def prepare(self, chunks: Sequence[PlacedChunk], work: CycleWork) -> Batch:
        """The chunks as a batch."""
        if self._writer is None:
            return Batch(chunks, work, None, ())
        return self._writer.prepare(chunks, work)

    def take(self, batch: Batch) -> None:
        """Write a batch, or show what would have been written."""
        started = perf_counter()
        if self._writer is None:
            records = records_of(batch.placed, batch.work, self.grid, None, self.origin.decided_at)
            self.tally.add({"jobs": sum(len(chunk.candidate) for chunk in batch.placed)})
        else:
            before = dict(self._writer.counts)
            records = self._writer.write(batch)
            self.tally.add({name: count - before.get(name, 0) for name, count in self._writer.counts.items()})
        self.tally.timings["write_s"] += perf_counter() - started
        self.tally.add(
            {
                "candidates": sum(len(record.decision.candidates) for record in records),
                "brokered": sum(record.decision.outcome == "brokered" for record in records),
            }
        )
        if self.context.request.tell is not None:
            for record in records:
                self.context.request.tell(decision_object(self.origin, record))


def _tell_of_others(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    context: CycleContext,
    works: Mapping[str, CycleWork],
    agent: ProductionJobAgent,
) -> None:
    """Tell about tasks that were asked for by name and have nothing to broker."""
    request = context.request
    if request.tell is None or request.task_ids is None:
        return
    with_chunks = {task for work in works.values() for task in work.work.chunks.jeditaskid.tolist()}
    others = [task for task in request.task_ids if task not in with_chunks]
    states = states_of(connection, catalogue, others)
    for task in others:
        reason = _why_nothing(states.get(task), agent.for_users)
        decision = Decision(task, None, None, agent.name, "skipped", reason, (), {}, ())
        request.tell(
            decision_object(Origin(None, context.now, None, 0, context.seed, __version__), DecisionRecord(decision))
        )


def _why_nothing(state: TaskState | None, for_users: bool) -> str:
    if state is None:
        return "no_such_task"
    if state.status not in WorkSelection().statuses:
        return f"task_status_{state.status}"
    if state.nucleus is None and not for_users:
        return "no_nucleus"
    return "no_ready_input"
