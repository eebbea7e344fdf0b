"""The agent of the production task brokerage: read the grid and the tasks, decide, write.

The decision itself is pure and lies in :mod:`broker.brokerages`; here it is given its inputs and its outcome is
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
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
from agents.process import ProcessSettings
from agents.task_writing import TaskBatchWriter, batches, records_of
from broker import __version__
from broker.brokerages import production_job
from broker.brokerages.production_task import NAME, task_cycle
from broker.brokerages.profile import BrokerageProfile, build_chain, read_profile
from broker.brokerages.task_placing import PlacedTask, place_tasks
from broker.domain.decisions import Decision
from broker.domain.task_work import TaskWork
from broker.engine.chain import Chain, NucleusChain
from broker.engine.task_cycle import TaskCycle
from broker.gdpconfig import Tuning
from broker.store import migrate
from broker.store.decision_object import decision_object
from broker.store.decisions import DecisionRecord, Origin
from broker.store.tables import TableCatalogue
from broker.store.task_loading import load_task_work
from broker.store.task_reads import ASSIGNING, TaskSelection
from broker.store.task_skips import why_skipped
from broker.store.task_states import distinct_vos

COUNTS = ("tasks", "candidates", "brokered")
"""Counts that every cycle reports, also when they are 0."""
STAGES = ("load_s", "decide_s", "cut_s", "write_s")


class ProductionTaskOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        tasks_of_a_cycle: tasks of a VO read in one cycle; the others wait for the next one.
        tasks_of_a_batch: tasks written in one transaction.
    """

    tasks_of_a_cycle: int = Field(default=10_000, ge=1)
    tasks_of_a_batch: int = Field(default=500, ge=1)


@dataclass
class _Tally:
    """What a cycle adds up while it runs."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    timings: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    notes: list[str] = field(default_factory=list)

    def add(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + count


class ProductionTaskAgent(Agent[ProductionTaskOptions]):
    """Gives production tasks in ``assigning`` their nucleus."""

    name = NAME
    title = "production task brokerage"
    options_type = ProductionTaskOptions

    def __init__(self, options: ProductionTaskOptions, process: ProcessSettings) -> None:
        """Read the profile and build the rules, those of the job brokerage too: it is asked what nuclei can run.

        Raises:
            ProfileError: the profile or one of its rules cannot be used.
        """
        super().__init__(options, process)
        text = config_file(f"profiles/{process.profile}.yaml", process.folder).read_text(encoding="utf-8")
        profile = read_profile(text)
        self._entry: BrokerageProfile = profile.of(NAME)
        self._nuclei: NucleusChain = build_chain(self._entry, NucleusChain)
        self._jobs: Chain = build_chain(profile.of(production_job.NAME))
        self._grid = GridReader(process.job_statistics, config_file("sources.yaml", process.folder))

    def cycle(self, context: CycleContext) -> CycleReport:
        """Broker once all tasks that wait for a nucleus and are due."""
        tally = _Tally()
        migrate.check(context.database)
        published = tuning_of(context)
        started = perf_counter()
        fault_points.reach("before_snapshot")
        grid, works = self._load(context)
        fault_points.reach("after_snapshot")
        tally.timings["load_s"] = perf_counter() - started
        tally.notes += [*grid.notes, *(f"gdpconfig: {row}" for row in published.bad_rows)]
        refuse_without(grid)
        origin = Origin(context.run_id, context.now, grid.snapshot.id, published.version, context.seed, __version__)
        canary, remarks = canary_of(context, published)
        tally.notes += remarks
        for vo, work in works.items():
            decided = partial(self._decided, grid, work, context, tally)
            cycle, own = decided(published.tuning(vo)), origin
            if canary is not None:
                cycle, own = canary.split_tasks(cycle, vo, origin, decided)
            self._place(cycle, _Sink(context, grid, own, tally))
            tally.notes += [f"rule {fault.rule} left out: {fault.error}" for fault in cycle.faults]
            tally.notes += _left_out(work)
        return CycleReport(tally.counts, tally.timings, tuple(tally.notes), grid.snapshot.id, published.version)

    def _load(self, context: CycleContext) -> tuple[GridReading, dict[str, TaskWork]]:
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            grid = self._grid.read(connection, catalogue, context.now, context.check)
            found = distinct_vos(connection, catalogue, (ASSIGNING,))
            vos = [vo for vo in found if "*" in self._entry.vo or vo in self._entry.vo]
            works = {vo: self._work(connection, catalogue, context, vo) for vo in vos}
            _tell_of_others(connection, catalogue, context, works)
        return grid, works

    def _work(self, connection: sa.Connection, catalogue: TableCatalogue, context: CycleContext, vo: str) -> TaskWork:
        excluded = not self._entry.labels
        selection = TaskSelection(
            vo=vo,
            now=context.now,
            labels=self._entry.exclude_labels if excluded else self._entry.labels,
            labels_excluded=excluded,
            task_ids=context.request.task_ids,
            most=self.options.tasks_of_a_cycle,
        )
        work = load_task_work(connection, catalogue, selection)
        context.check()
        return work

    def _decided(
        self, grid: GridReading, work: TaskWork, context: CycleContext, tally: _Tally, tuning: Tuning
    ) -> TaskCycle:
        """The cycle with all that is worked out for all tasks at once."""
        started = perf_counter()
        independent = context.request.independent
        cycle = task_cycle(grid.snapshot, work, tuning, self._nuclei, self._jobs, independent=independent)
        tally.timings["decide_s"] += perf_counter() - started
        return cycle

    def _place(self, cycle: TaskCycle, sink: _Sink) -> None:
        placed = batches(place_tasks(cycle, sink.origin.seed), self.options.tasks_of_a_batch)
        while True:
            started = perf_counter()
            batch = next(placed, None)
            sink.tally.timings["decide_s"] += perf_counter() - started
            if batch is None:
                break
            sink.context.check()
            sink.take(batch, cycle)
        sink.tally.add({"tasks": len(cycle.work.tasks)})


class _Sink:
    """Where the batches of a cycle go: into the database, and to whoever listens."""

    def __init__(self, context: CycleContext, grid: GridReading, origin: Origin, tally: _Tally) -> None:
        self.context, self.origin, self.tally = context, origin, tally
        self._writer: TaskBatchWriter | None = None
        if context.lease is not None and context.request.writes:
            self._writer = TaskBatchWriter(context.database, context.lease, origin, grid)

    def take(self, batch: Sequence[PlacedTask], cycle: TaskCycle) -> None:
        """Write a batch, or show what would have been written."""
        started = perf_counter()
        if self._writer is None:
            records = records_of(batch, None, self.origin.decided_at)
        else:
            before = dict(self._writer.counts)
            records = self._writer.write(batch, cycle)
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


def _left_out(work: TaskWork) -> list[str]:
    counted: dict[str, int] = {}
    for row in work.left_out:
        counted[f"{row.source}: {row.code}"] = counted.get(f"{row.source}: {row.code}", 0) + 1
    return [f"{count} x {code}" for code, count in sorted(counted.items())]


def _tell_of_others(
    connection: sa.Connection, catalogue: TableCatalogue, context: CycleContext, works: Mapping[str, TaskWork]
) -> None:
    """Say of each task that was asked for, but is not brokered, why."""
    request = context.request
    if request.tell is None or request.task_ids is None:
        return
    taken = {task for work in works.values() for task in work.tasks.jeditaskid.tolist()}
    others = [task for task in request.task_ids if task not in taken]
    for one in why_skipped(connection, catalogue, others, context.now):
        decision = Decision(one.jeditaskid, None, None, NAME, "skipped", one.reason, (), {}, ())
        until = None if one.until is None else one.until.replace(tzinfo=UTC)
        origin = Origin(None, context.now, None, 0, context.seed, __version__)
        request.tell(decision_object(origin, DecisionRecord(decision, {}, until)))
