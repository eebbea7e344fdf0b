"""Writes planned tasks: task, parameters, a pseudo-input with one file for each job, alternatives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

import sqlalchemy as sa

from broker.domain.decisions import RETRY_AFTER
from broker.domain.instants import naive
from broker.formats.model.sss.submission import TaskPlan
from broker.formats.statements import sss_rows
from broker.formats.statements.sss_exchange import check_standalone, insert_row
from broker.formats.statements.sss_rows import Identity
from broker.formats.statements.task_numbers import next_task_id
from broker.pools.model.requirement import SubmitPool
from broker.pools.statements import pool_registration
from broker.pools.statements.pool_registration import TaskRequirements
from broker.store.connection.database import Database
from broker.store.connection.tables import Names, quoted
from broker.store.reads import task_alternatives
from broker.store.reads.task_reads import ASSIGNING
from broker.store.writes.default_share import default_share

ATTEMPTS = 3
_ADD_OUTPUT = sa.text("""
    INSERT INTO broker.task_outputs (jeditaskid, position, datasetid, type, lfn, scope)
    VALUES (:task, :position, :dataset, :type, :lfn, :scope)""")
_ADD_ARGUMENTS = sa.text("""
    INSERT INTO broker.file_arguments (jeditaskid, fileid, arguments) VALUES (:task, :file, :arguments)""")


class AnySubmission(Protocol):
    """A task to be made, in whatever format it was described."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """The columns of the task's row."""

    def make(self, database: Database, now: datetime) -> InsertedTask:
        """Make the task in one transaction."""


@dataclass(frozen=True)
class Submission:
    """A task to be made.

    Attributes:
        plan: the task.
        pool: what its jobs require; None: nothing.
        required: what they request beyond the columns of the task; None if the kind of document cannot express it.
    """

    plan: TaskPlan
    pool: SubmitPool | None = None
    required: TaskRequirements | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        """The columns of the task's row."""
        return self.plan.columns

    def make(self, database: Database, now: datetime) -> InsertedTask:
        """Make the task alone; see :func:`submit`."""
        (task,) = submit(database, [self], now)
        return task


@dataclass(frozen=True)
class InsertedTask:
    """A task that was made, with the names of its jobs, notes about them, and their pool.

    ``job_count``: the number of jobs without names; None: as many as there are names.
    """

    jeditaskid: int
    taskname: str
    status: str
    job_ids: tuple[str, ...]
    alternatives: int
    notes: tuple[str, ...]
    pool_id: str | None = None
    may_require: bool = False
    job_count: int | None = None

    @property
    def jobs(self) -> int:
        """How many jobs it has."""
        return len(self.job_ids) if self.job_count is None else self.job_count


def submit(database: Database, submissions: Sequence[Submission], now: datetime) -> tuple[InsertedTask, ...]:
    """Make all tasks of a document, and register their pools, in one transaction.

    Raises:
        NotOurTables: alongside PanDA.
        PoolCollision: other requirements have the identifier of a pool.
    """
    check_standalone(database)
    with database.begin() as connection:
        return tuple(_submit(connection, database.names, one, now) for one in submissions)


def known_queues(connection: sa.Connection, names: Names) -> frozenset[str]:
    """The names of all queues."""
    statement = sa.text(f"SELECT panda_queue FROM {names.table('schedconfig_json')}")  # noqa: S608 - quoted name
    return frozenset(str(name) for name in connection.scalars(statement))


def _submit(connection: sa.Connection, names: Names, submission: Submission, now: datetime) -> InsertedTask:
    submitted = _make(connection, names, submission.plan, naive(now))
    pool, required = submission.pool, submission.required
    if required is None:
        return submitted
    if pool is not None:
        pool_registration.register(connection, pool, now)
    pool_registration.attach(connection, submitted.jeditaskid, pool, required)
    return replace(submitted, pool_id=None if pool is None else pool.pool_id, may_require=True)


def _make(connection: sa.Connection, names: Names, plan: TaskPlan, stamp: datetime) -> InsertedTask:
    task_id = next_task_id(connection, names)
    times = dict.fromkeys(("creationdate", "modificationtime", "statechangetime"), stamp)
    if plan.columns["status"] == ASSIGNING:
        # The time of the last try; a task that was never tried is due at once.
        times["modificationtime"] = stamp - 2 * RETRY_AFTER
    columns = {"gshare": default_share(connection, names), **plan.columns}
    insert_row(connection, names, "jedi_tasks", {**times, **columns, "jeditaskid": task_id})
    parameters = {"jeditaskid": task_id, "taskparams": json.dumps(dict(plan.parameters))}
    insert_row(connection, names, "jedi_taskparams", parameters)
    _add_input(connection, names, plan, task_id, stamp)
    _add_outputs(connection, names, plan, task_id, stamp)
    task_alternatives.add(connection, task_id, plan.alternatives)
    job_ids = tuple(file.job_id for file in plan.files)
    status, name = str(plan.columns["status"]), str(plan.columns["taskname"])
    return InsertedTask(task_id, name, status, job_ids, len(plan.alternatives), plan.notes)


def _next_dataset_id(connection: sa.Connection, names: Names) -> int:
    sequence = f"{quoted(names.panda)}.{quoted('jedi_datasets_id_seq')}"
    return int(connection.scalar(sa.text("SELECT nextval(:name)"), {"name": sequence}) or 0)


def _add_outputs(connection: sa.Connection, names: Names, plan: TaskPlan, task_id: int, stamp: datetime) -> None:
    """Add a dataset for the output and one for the log, and what each job writes into them."""
    datasets: dict[str, int] = {}
    for position, output in enumerate(plan.outputs):
        if output.type not in datasets:
            datasets[output.type] = _next_dataset_id(connection, names)
            dataset = {
                "jeditaskid": task_id, "datasetid": datasets[output.type],
                "datasetname": f"{output.scope}.{task_id}.{output.type}", "type": output.type, "status": "defined",
                "state": "open", "vo": plan.columns.get("vo"), "streamname": output.type.upper(), "nfiles": 0,
                "nfilesused": 0, "nfilesfinished": 0, "nfilesfailed": 0, "creationtime": stamp,
                "modificationtime": stamp,
            }  # fmt: skip
            insert_row(connection, names, "jedi_datasets", dataset)
        values = {"task": task_id, "position": position, "dataset": datasets[output.type]}
        connection.execute(_ADD_OUTPUT, {**values, "type": output.type, "lfn": output.lfn, "scope": output.scope})


def _add_input(connection: sa.Connection, names: Names, plan: TaskPlan, task_id: int, stamp: datetime) -> None:
    dataset_id = _next_dataset_id(connection, names)
    count = len(plan.files)
    dataset = {
        "jeditaskid": task_id, "datasetid": dataset_id, "datasetname": "pseudo_dataset", "type": "pseudo_input",
        "status": "ready", "state": "closed", "vo": plan.columns.get("vo"), "streamname": "IN",
        "nfiles": count, "nfilestobeused": count, "nfilesused": 0, "nfilesfinished": 0, "nfilesfailed": 0,
        "nevents": count, "neventstobeused": count, "neventsused": 0, "creationtime": stamp, "modificationtime": stamp,
    }  # fmt: skip
    insert_row(connection, names, "jedi_datasets", dataset)
    for number, planned_file in enumerate(plan.files):
        file_id = int(connection.scalar(sa.text("SELECT nextval('broker.pseudo_file_seq')")) or 0)
        file = {
            "jeditaskid": task_id, "datasetid": dataset_id, "fileid": file_id, "lfn": f"pseudo_lfn.{number}",
            "type": "pseudo_input", "status": "ready", "proc_status": "ready", "fsize": 0, "nevents": 1,
            "attemptnr": 0, "maxattempt": ATTEMPTS, "failedattempt": 0, "keeptrack": 1, "creationdate": stamp,
        }  # fmt: skip
        insert_row(connection, names, "jedi_dataset_contents", file)
        if planned_file.arguments is not None:
            connection.execute(_ADD_ARGUMENTS, {"task": task_id, "file": file_id, "arguments": planned_file.arguments})
        identity = Identity(planned_file.job_id, plan.group_id, planned_file.global_id, file_id)
        sss_rows.add_identity(connection, "task", task_id, identity)
        sss_rows.add_properties(connection, "task", task_id, planned_file.unmapped_rows, planned_file.job_id)
