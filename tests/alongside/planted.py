"""Inserts placements into PanDA's own tables: those of PanDA's brokers, and those of our plug-in and agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from broker.alongside.statements import plugin_calls
from broker.domain.decisions import Candidate, Decision, DecisionRecord, Origin
from broker.store.connection.database import Database
from broker.store.decisions import decision_writing

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
#: Run ids: a cycle that only recorded, a cycle that wrote nuclei, and a cycle that is not on record.
RECORDED, WROTE, UNKNOWN = 1_000_001, 1_000_002, 1_000_003
_CYCLES = """
    INSERT INTO broker.agent_runs (id, agent, started_at, profile, only_recorded) VALUES
        (1000001, 'production_job', '2026-08-01 10:00+00', 'panda', true),
        (1000002, 'production_task', '2026-08-01 10:00+00', 'panda', false)"""
_TASK = """
    INSERT INTO doma_panda.jedi_tasks (jeditaskid, vo, prodsourcelabel, gshare, status, nucleus, modificationtime)
    VALUES (:task, 'atlas', :label, 'MC', 'running', 'CERN', :at)"""
_INPUT = """
    INSERT INTO doma_panda.jedi_datasets (jeditaskid, datasetid, type, datasetname)
    VALUES (:task, :dataset, 'input', 'mc:set.' || :task)"""
_FILE = """
    INSERT INTO doma_panda.jedi_dataset_contents (jeditaskid, datasetid, fileid, lfn, ramcount)
    VALUES (:task, :dataset, :job, 'f', 0)"""
_JOB = """
    INSERT INTO doma_panda.jobsdefined4 (pandaid, jeditaskid, computingsite, gshare, prodsourcelabel, lockedby,
        creationtime) VALUES (:job, :task, :queue, 'MC', :label, 'jedi', :at)"""
_JOB_FILE = """
    INSERT INTO doma_panda.filestable4 (row_id, pandaid, jeditaskid, datasetid, fileid, type, fsize, modificationtime)
    VALUES (:job, :job, :task, :dataset, :job, 'input', 1000000000, :at)"""


@dataclass(frozen=True)
class PlantedJobs:
    """Jobs of one task with one input dataset.

    Attributes:
        task: task id; the dataset id is ten times as large.
        queue: the queue to which JEDI assigned the jobs.
        at: creation time.
        jobs: number of jobs.
        label: prodsourcelabel.
    """

    task: int
    queue: str
    at: datetime = NOW - timedelta(hours=1)
    jobs: int = 1
    label: str = "managed"


def plant(panda: Database, placements: Sequence[PlantedJobs]) -> None:
    """Insert placements into PanDA's tables."""
    tasks, jobs = [], []
    for placement in placements:
        values: dict[str, object] = {
            "task": placement.task,
            "dataset": 10 * placement.task,
            "label": placement.label,
            "queue": placement.queue,
        }
        values["at"] = placement.at.astimezone(UTC).replace(tzinfo=None)
        tasks.append(values)
        jobs += [{**values, "job": 1000 * placement.task + number} for number in range(placement.jobs)]
    with panda.begin() as connection:
        for statement, rows in ((_TASK, tasks), (_INPUT, tasks), (_FILE, jobs), (_JOB, jobs), (_JOB_FILE, jobs)):
            connection.execute(sa.text(statement), rows)


def plant_cycles(database: Database) -> None:
    """Insert the records of the agents' cycles."""
    with database.begin() as connection:
        connection.execute(sa.text(_CYCLES))


def decision_for(
    task: int, *queues: str, brokerage: str = "production_job", code: str = "dest_blacklisted"
) -> Decision:
    """A decision for some queues; queue C is rejected."""
    candidates = tuple(Candidate(name, 1.0, {}) for name in queues)
    dataset = None if brokerage == "production_task" else 10 * task
    return Decision(task, dataset, None, brokerage, "brokered", "", candidates, {"C": code}, ())


def plant_share(
    panda: Database,
    database: Database,
    tasks: int,
    differing: int,
    *,
    at: datetime,
    label: str = "managed",
    first: int = 1,
    brokerage: str = "production_job",
) -> None:
    """Insert jobs of ``tasks`` tasks, and decisions of ours made half an hour earlier that reject queue C.

    The last ``differing`` tasks have their jobs at C. ``first`` is the id of the first task.
    """
    numbers = range(first, first + tasks)
    plant(
        panda,
        [PlantedJobs(task, "A" if task < first + tasks - differing else "C", at, label=label) for task in numbers],
    )
    decisions = [decision_for(task, "A", brokerage=brokerage) for task in numbers]
    record(database, RECORDED, at - timedelta(minutes=30), decisions)


def record(database: Database, run: int | None, at: datetime, decisions: list[Decision]) -> None:
    """Store decisions; those of the plug-in have no run. The first nucleus of a task decision counts as assigned."""
    records = [
        DecisionRecord(decision, {decision.candidates[0].name: 1} if decision.brokerage == "production_task" else {})
        for decision in decisions
    ]
    origin = Origin(run, at, None, 7, 0, "0.9", only_recorded=True)
    with database.begin() as connection:
        decision_writing.save(Database.raw(connection), origin, records)
        if run is None:
            for decision in decisions:
                plugin_calls.add(connection, plugin_calls.Call(decision.brokerage, "decided", decision.outcome), at)
