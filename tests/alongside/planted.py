"""Placements of both kinds in PanDA's own tables: those of PanDA's brokers, and those of our plug-in and agents."""

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
#: The run of a cycle that only recorded, of one that wrote nuclei, and of one of which nothing is on record.
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
class Planted:
    """Jobs of one task with one dataset.

    Attributes:
        task: its number; that of the dataset is ten times as large.
        queue: where JEDI put the jobs.
        at: when.
        jobs: how many.
        label: prodsourcelabel.
    """

    task: int
    queue: str
    at: datetime = NOW - timedelta(hours=1)
    jobs: int = 1
    label: str = "managed"


def plant(panda: Database, some: Sequence[Planted]) -> None:
    """Put them into PanDA's tables."""
    tasks, jobs = [], []
    for one in some:
        about: dict[str, object] = {"task": one.task, "dataset": 10 * one.task, "label": one.label, "queue": one.queue}
        about["at"] = one.at.astimezone(UTC).replace(tzinfo=None)
        tasks.append(about)
        jobs += [{**about, "job": 1000 * one.task + number} for number in range(one.jobs)]
    with panda.begin() as connection:
        for statement, rows in ((_TASK, tasks), (_INPUT, tasks), (_FILE, jobs), (_JOB, jobs), (_JOB_FILE, jobs)):
            connection.execute(sa.text(statement), rows)


def plant_cycles(database: Database) -> None:
    """What is on record of the cycles of agents."""
    with database.begin() as connection:
        connection.execute(sa.text(_CYCLES))


def decided(task: int, *queues: str, brokerage: str = "production_job", code: str = "dest_blacklisted") -> Decision:
    """A decision for some queues; C is refused."""
    chosen = tuple(Candidate(name, 1.0, {}) for name in queues)
    dataset = None if brokerage == "production_task" else 10 * task
    return Decision(task, dataset, None, brokerage, "brokered", "", chosen, {"C": code}, ())


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
    """Jobs of so many tasks, of which the last stand at C, which ours refuses; half an hour before ours decided.

    ``first``: number of the first task.
    """
    numbers = range(first, first + tasks)
    plant(panda, [Planted(one, "A" if one < first + tasks - differing else "C", at, label=label) for one in numbers])
    decisions = [decided(one, "A", brokerage=brokerage) for one in numbers]
    record(database, RECORDED, at - timedelta(minutes=30), decisions)


def record(database: Database, run: int | None, at: datetime, decisions: list[Decision]) -> None:
    """Store decisions; those of the plug-in have no run. A nucleus counts as assigned where it is the only one."""
    records = [
        DecisionRecord(one, {one.candidates[0].name: 1} if one.brokerage == "production_task" else {})
        for one in decisions
    ]
    origin = Origin(run, at, None, 7, 0, "0.9", only_recorded=True)
    with database.begin() as connection:
        decision_writing.save(Database.raw(connection), origin, records)
        if run is None:
            for one in decisions:
                plugin_calls.add(connection, plugin_calls.Call(one.brokerage, "decided", one.outcome), at)
