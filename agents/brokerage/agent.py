"""The agent of every brokerage: reads the grid and the work, decides, and writes.

The decision itself is pure and lives in :mod:`broker.brokerages`; this module supplies its inputs and writes its
outcome. The brokerage's tables define what is read and written.

:class:`CanaryInForce` takes values that are tried on a share of the tasks into a cycle.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any

from agents.brokerage.batch_writing import Batch, BatchWriter, batches, records_of, store_grid_when_idle, wake
from agents.brokerage.grid_reading import GridReading, grid_reader, refuse_without, tuning_of
from agents.brokerage.tables import BrokerageOptions, BrokerageTables, Reading
from agents.service import fault_points
from agents.service.base import Agent, CycleContext, CycleReport
from agents.service.configuration import ProcessSettings, load_profile
from broker import __version__
from broker.brokerages.base import Assigned, Cycle, Rules, StageTimes
from broker.brokerages.profile import BrokerageProfile, rules_of
from broker.brokerages.registry import AnyBrokerage, BrokerageError
from broker.brokerages.replayed_columns import decision_line, decision_object
from broker.domain.arrays import Bools, Ints
from broker.domain.decisions import Decision, DecisionRecord, Origin
from broker.gdpconfig import Tuning
from broker.gdpconfig.catalogue import ValueRefusedError
from broker.gdpconfig.proposals import Canary
from broker.gdpconfig.publish import Published
from broker.snapshot.source import SourceError
from broker.store.connection.tables import TableCatalogue
from broker.store.schema import migrate
from broker.tuning.statements import canaries


@dataclass(frozen=True)
class CanaryInForce:
    """A canary of this cycle.

    Attributes:
        canary: the canary in force at the instant for which the cycle decides.
        base: values for the tasks that it does not choose.
        tried: values for the tasks that it chooses.
    """

    canary: Canary
    base: Published
    tried: Published

    def split(
        self, cycle: Cycle[Any], vo: str, origin: Origin, make: Callable[[Tuning], Cycle[Any]]
    ) -> tuple[Cycle[Any], Origin]:
        """The cycle of a VO with the tried values for the chosen tasks, and the origin of its decisions.

        Args:
            cycle: the cycle with the values in force.
            vo: VO of the tasks.
            origin: origin of the decisions.
            make: makes a cycle over the same work with other values.
        """
        rows = self._chosen_tasks(vo, cycle.jeditaskid)
        if rows is None:
            return cycle, origin
        return cycle.split(make(self.tried.tuning(vo)), rows), self._canary_origin(origin)

    def _chosen_tasks(self, vo: str, tasks: Ints) -> Bools | None:
        """Mask (T,) of the chosen tasks; None if the values are for another VO, or no task is chosen."""
        if self.tried.tuning(vo).settings == self.base.tuning(vo).settings:
            return None
        rows: Bools = self.canary.chosen(tasks.tolist())
        return rows if rows.any() else None

    def _canary_origin(self, origin: Origin) -> Origin:
        return dataclasses.replace(origin, canary=self.canary, canary_tuning=self.tried.version)


def canary_of(context: CycleContext, published: Published) -> tuple[CanaryInForce | None, tuple[str, ...]]:
    """The canary in force, if any, and remarks on a canary that cannot be taken into the cycle."""
    with context.transaction() as connection:
        canary = canaries.running(connection, context.now)
        if canary is None:
            return None, ()
        try:
            tried = canaries.tuning_with(connection, context.database.names, canary, published, writes=context.writes)
        except ValueRefusedError as error:
            return None, (f"canary {canary.id} left out: {error}",)
    return CanaryInForce(canary, published, tried), ()


STAGES = ("load_s", "decide_s", "cut_s", "write_s")


def tables_class(brokerage: AnyBrokerage) -> type[BrokerageTables[Any, Any]]:
    """The class of tables that a brokerage names.

    Raises:
        BrokerageError: the class cannot be loaded, or is no subclass of ``BrokerageTables``.
    """
    module, _, name = brokerage.tables.partition(":")
    try:
        tables = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise BrokerageError(f"brokerage {brokerage.name}: no tables {brokerage.tables}: {error}") from error
    if not (isinstance(tables, type) and issubclass(tables, BrokerageTables)):
        raise BrokerageError(f"brokerage {brokerage.name}: {brokerage.tables} is no class of BrokerageTables")
    return tables


@dataclass
class Tally:
    """The running totals of a cycle."""

    counts: dict[str, int]
    timings: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    notes: list[str] = field(default_factory=list)

    def add(self, counts: Mapping[str, int]) -> None:
        """Add to the counts, by name."""
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + count


class BrokerageAgent(Agent[BrokerageOptions]):
    """Brokers the work of one brokerage and writes its decisions."""

    def __init__(self, brokerage: AnyBrokerage, options: BrokerageOptions, process: ProcessSettings) -> None:
        """Read the profile and build the rules.

        Raises:
            ProfileError: the profile or one of its rules cannot be used.
            BrokerageError: the tables of the brokerage cannot be loaded.
        """
        super().__init__(options, process)
        self.brokerage = brokerage
        self.name, self.title = brokerage.name, brokerage.title  # type: ignore[misc]  # of this one object
        profile = load_profile(process.profile, process.folder)
        self._redecide = profile.redecide
        self._entry: BrokerageProfile = profile.of(brokerage.name)
        self._rules: Rules = rules_of(profile, brokerage.name, options.model_dump())
        self._tables = tables_class(brokerage)(options)
        try:
            self._grid = grid_reader(self._rules, process, for_analysis=self._tables.for_analysis)
        except SourceError as error:
            raise BrokerageError(str(error)) from error

    def not_divisible(self) -> str:
        """Why the work is not divisible (no parts, or placements count for all chunks); empty if it is."""
        if not self._tables.divided_by:
            return "this brokerage takes all its work in one cycle"
        if self.brokerage.decides_together(self._rules):
            return "the profile places the chunks of a cycle together"
        return ""

    def cycle(self, context: CycleContext) -> CycleReport:
        """Broker all due work once."""
        tally = Tally(dict.fromkeys(self._tables.counts, 0))
        writes_rows = self._tables.writes_rows(self.process.makes_jobs(migrate.check(context.database)))
        # another program that makes the jobs reactivates waiting tasks by its own timers
        self._tables.each_cycle = self._redecide == "each_cycle" and writes_rows
        published = tuning_of(context)
        if writes_rows and context.writes and not self._tables.each_cycle:
            tally.add(wake(context, self._tables))
        started = perf_counter()
        fault_points.reach("before_snapshot")
        grid, works = self._load(context, published)
        fault_points.reach("after_snapshot")
        tally.timings["load_s"] = perf_counter() - started
        tally.notes += [*grid.notes, *(f"gdpconfig: {row}" for row in published.bad_rows)]
        refuse_without(grid)
        seed = context.seed if writes_rows or context.request.by_hand else seed_of_day(context.now)
        about = context.run_id, context.now, grid.snapshot.id, published.version, seed, __version__
        origin = Origin(*about, only_recorded=not writes_rows)
        canary, warnings = canary_of(context, published)
        tally.notes += warnings
        for vo, work in works.items():
            cycle_started = perf_counter()
            cycle, vo_origin = self._cycle_over(grid, work, context, published.tuning(vo)), origin
            if canary is not None:
                cycle, vo_origin = canary.split(cycle, vo, origin, partial(self._cycle_over, grid, cycle.work, context))
            tally.timings["decide_s"] += perf_counter() - cycle_started
            self._assign(cycle, Sink(self.brokerage, self._tables, context, grid, vo_origin, writes_rows, tally))
            tally.notes += [f"rule {fault.rule} left out: {fault.error}" for fault in cycle.faults]
            tally.notes += self._tables.warnings(work)
        if context.writes and not any(map(self._tables.tasks_of, works.values())):
            store_grid_when_idle(context, self.name, grid, __version__)
        return CycleReport(
            tally.counts,
            tally.timings,
            tuple(tally.notes),
            grid.snapshot.id,
            published.version,
            self.process.profile,
            not writes_rows,
        )

    def _cycle_over(self, grid: GridReading, work: Any, context: CycleContext, tuning: Tuning) -> Cycle[Any]:
        independent = context.request.independent
        return self.brokerage.cycle(grid.snapshot, work, tuning, self._rules, independent=independent)

    def _load(self, context: CycleContext, published: Published) -> tuple[GridReading, dict[str, Any]]:
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            grid = self._grid.read(connection, catalogue, context.now, context.check)
            special = grid.snapshot.jobs.resource_work_queues
            reading = Reading(connection, catalogue, context, self._entry, published, special)
            works = self._tables.load(reading)
            self._report_skipped(reading, works, published)
        return grid, works

    def _report_skipped(self, reading: Reading, works: Mapping[str, Any], published: Published) -> None:
        """Report why tasks that were requested by name are not brokered."""
        context = reading.context
        request = context.request
        if request.emit is None or request.task_ids is None:
            return
        brokered = {task for work in works.values() for task in self._tables.tasks_of(work)}
        others = [task for task in request.task_ids if task not in brokered]
        origin = Origin(None, context.now, None, 0, context.seed, __version__)
        for skipped in self._tables.skipped(reading, others):
            decision = Decision(skipped.jeditaskid, None, None, self.name, "skipped", skipped.reason, (), {}, ())
            request.emit(_as_document(origin, DecisionRecord(decision, {}, skipped.until), request.in_full))

    def _assign(self, cycle: Cycle[Any], sink: Sink) -> None:
        times = StageTimes()
        assigned = cycle.assign(sink.origin.seed, times)
        # one batch is written while the next is decided: the server and this process work at the same time
        with ThreadPoolExecutor(1, thread_name_prefix="writer") as writer:
            pending_write: Future[None] | None = None
            for pieces in batches(assigned, self.options.pieces_of_a_batch):
                batch = sink.prepare(cycle, pieces)
                if pending_write is not None:
                    pending_write.result()
                sink.context.check()
                pending_write = writer.submit(sink.take, batch)
            if pending_write is not None:
                pending_write.result()
        sink.tally.timings["decide_s"] += times.decide_s
        sink.tally.timings["cut_s"] += times.cut_s
        sink.tally.add(cycle.counts)


def seed_of_day(now: datetime) -> int:
    """The seed of decisions that are only recorded: the number of the day, so that equal input is drawn alike all day.

    With a new seed in each cycle, jobs would be placed elsewhere, and no chunk would be as it was in the cycle before.
    """
    return now.astimezone(UTC).toordinal()


def _as_document(origin: Origin, record: DecisionRecord, in_full: bool) -> dict[str, Any]:
    return decision_object(origin, record) if in_full else decision_line(record)


class Sink:
    """The destinations of a cycle's batches: the database and all listeners."""

    def __init__(
        self,
        brokerage: AnyBrokerage,
        tables: BrokerageTables[Any, Any],
        context: CycleContext,
        grid: GridReading,
        origin: Origin,
        writes_rows: bool,
        tally: Tally,
    ) -> None:
        self.brokerage, self.tables = brokerage, tables
        self.context, self.origin, self.tally = context, origin, tally
        self.grid = grid
        self._writer: BatchWriter | None = None
        if context.writes:
            self._writer = BatchWriter(brokerage, tables, context, writes_rows, origin, grid)

    def prepare(self, cycle: Cycle[Any], assigned: Sequence[Assigned]) -> Batch:
        """Prepare pieces of work as a batch."""
        if self._writer is None:
            return Batch(cycle, assigned, None, ())
        return self._writer.prepare(cycle, assigned)

    def take(self, batch: Batch) -> None:
        """Write a batch, or show what would have been written."""
        started = perf_counter()
        if self._writer is None:
            records = records_of(
                self.brokerage, batch.cycle, batch.assigned, None, self.origin.decided_at, self.tables.each_cycle
            )
            if "jobs" in self.tally.counts:
                self.tally.add({"jobs": sum(sum(record.assigned.values()) for record in records)})
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
        request = self.context.request
        if request.emit is not None:
            for record in records:
                request.emit(_as_document(self.origin, record, request.in_full))
