"""Our brokerages on the same grid and the same work: their CPU time between reading and writing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from agents.brokerage.grid_reading import GridReader
from benchmarks.bench_task_decide import one_task_cycle
from benchmarks.panda.figures import Cycle
from benchmarks.stages import MakeCycle, one_cycle
from broker import resources
from broker.brokerages.analysis_job import brokerage as analysis_job
from broker.brokerages.production_job import brokerage as production_job
from broker.engine.analysis.cycle import AnalysisCycle
from broker.engine.compiled import loading
from broker.engine.job.cycle import JobCycle
from broker.gdpconfig import Tuning
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.analysis_requests import load_analysis_work
from broker.store.reads.chunk_loading import load_work
from broker.store.reads.chunk_reads import WorkSelection
from broker.store.reads.task_loading import load_task_work
from broker.store.reads.task_reads import TaskSelection
from broker.work.assemble import CycleWork

#: How many hours back done jobs of a user are counted, as in the agent.
DONE_JOB_HOURS = 6.0


#: Runs one cycle, by the compiled loop if its argument is true.
RunCycle = Callable[[bool], Cycle]


def production_jobs(database: Database, now: datetime) -> RunCycle:
    """Return a cycle over the input chunks of production, with jobs cut."""
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        snapshot = _reader().read(connection, catalogue, now, lambda: None).snapshot
        work = load_work(connection, catalogue, WorkSelection(vo="atlas", with_nucleus=True))
    tuning, rules = Tuning.defaults(), production_job.chain()
    return _run_timed(lambda alone: JobCycle(snapshot, work.work, tuning, rules, independent=alone), work)


def analysis_jobs(database: Database, now: datetime) -> RunCycle:
    """Return a cycle over the input chunks of users, with jobs cut."""
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        snapshot = _reader(analysis=True).read(connection, catalogue, now, lambda: None).snapshot
        selection = WorkSelection(vo="atlas", labels_excluded=False, whole_constituents=True)
        work = load_work(connection, catalogue, selection)
        request, _ = load_analysis_work(connection, catalogue, work.work.chunks, now, DONE_JOB_HOURS)
    work = replace(work, work=replace(work.work, analysis_request=request))
    tuning, rules = Tuning.defaults(), analysis_job.chain()
    return _run_timed(lambda alone: AnalysisCycle(snapshot, work.work, tuning, rules, independent=alone), work)


def production_tasks(database: Database, now: datetime) -> RunCycle:
    """Return a cycle over the tasks that wait for a nucleus."""
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        snapshot = _reader().read(connection, catalogue, now, lambda: None).snapshot
        work = load_task_work(connection, catalogue, TaskSelection("atlas", now, due_only=False))

    def run(compiled: bool) -> Cycle:
        loading.mode = "always" if compiled else "never"
        constructor_s, decide_s, pack_s, assigned = one_task_cycle(snapshot, work)
        brokered = sum(task.nucleus is not None for task in assigned)
        return Cycle(len(work.tasks), brokered, 0, constructor_s + decide_s + pack_s)

    return run


def _run_timed(make: MakeCycle, work: CycleWork) -> RunCycle:
    def run(compiled: bool) -> Cycle:
        stages = one_cycle(make, work, compiled=compiled)
        return Cycle(len(work.work.chunks), stages.brokered, stages.jobs, stages.total_s)

    return run


def _reader(*, analysis: bool = False) -> GridReader:
    return GridReader("live", resources.path("config/sources.yaml"), analysis=analysis)
