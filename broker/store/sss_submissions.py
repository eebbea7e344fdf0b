"""Planned tasks into the tables: task, parameters, a pseudo-input with one file for each job, alternatives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from broker.formats.sss.submission import TaskPlan
from broker.pools.requirement import SubmitPool
from broker.store import pool_registration, sss_rows, task_alternatives
from broker.store.database import Database
from broker.store.names import Names, quoted
from broker.store.pool_registration import Asked
from broker.store.sss_import import check_standalone, insert_row, next_task_id
from broker.store.sss_rows import Identity
from broker.store.task_reads import ASSIGNING, RETRY_AFTER

ATTEMPTS = 3


@dataclass(frozen=True)
class Submission:
    """A task to be made.

    Attributes:
        plan: the task.
        pool: what its jobs require; None: nothing.
        asked: what they ask for beside the columns of the task; None where the kind of document cannot say such things.
    """

    plan: TaskPlan
    pool: SubmitPool | None = None
    asked: Asked | None = None


@dataclass(frozen=True)
class Submitted:
    """A task that was made, with the names of its jobs, what was noted about them, and their pool."""

    jeditaskid: int
    taskname: str
    status: str
    job_ids: tuple[str, ...]
    alternatives: int
    notes: tuple[str, ...]
    pool_id: str | None = None
    may_require: bool = False


def submit(database: Database, submissions: Sequence[Submission], now: datetime) -> tuple[Submitted, ...]:
    """Make all tasks of a document, and register their pools, in one transaction.

    Raises:
        NotOurTables: beside PanDA.
        PoolCollision: other requirements have the identifier of a pool.
    """
    check_standalone(database)
    with database.begin() as connection:
        return tuple(_submit(connection, database.names, one, now) for one in submissions)


def known_queues(connection: sa.Connection, names: Names) -> frozenset[str]:
    """The names of all queues."""
    statement = sa.text(f"SELECT panda_queue FROM {names.table('schedconfig_json')}")  # noqa: S608 - quoted name
    return frozenset(str(name) for name in connection.scalars(statement))


def _submit(connection: sa.Connection, names: Names, submission: Submission, now: datetime) -> Submitted:
    made = _make(connection, names, submission.plan, now.replace(tzinfo=None))
    pool, asked = submission.pool, submission.asked
    if asked is None:
        return made
    if pool is not None:
        pool_registration.register(connection, pool, now)
    pool_registration.attach(connection, made.jeditaskid, pool, asked)
    return replace(made, pool_id=None if pool is None else pool.pool_id, may_require=True)


def _make(connection: sa.Connection, names: Names, plan: TaskPlan, stamp: datetime) -> Submitted:
    task_id = next_task_id(connection, names)
    times = dict.fromkeys(("creationdate", "modificationtime", "statechangetime"), stamp)
    if plan.columns["status"] == ASSIGNING:
        # The time of the last try: one that was never tried is due at once.
        times["modificationtime"] = stamp - 2 * RETRY_AFTER
    insert_row(connection, names, "jedi_tasks", {**times, **plan.columns, "jeditaskid": task_id})
    parameters = {"jeditaskid": task_id, "taskparams": json.dumps(dict(plan.parameters))}
    insert_row(connection, names, "jedi_taskparams", parameters)
    _add_input(connection, names, plan, task_id, stamp)
    task_alternatives.add(connection, task_id, plan.alternatives)
    job_ids = tuple(one.job_id for one in plan.files)
    status, name = str(plan.columns["status"]), str(plan.columns["taskname"])
    return Submitted(task_id, name, status, job_ids, len(plan.alternatives), plan.notes)


def _add_input(connection: sa.Connection, names: Names, plan: TaskPlan, task_id: int, stamp: datetime) -> None:
    sequence = f"{quoted(names.panda)}.{quoted('jedi_datasets_id_seq')}"
    dataset_id = int(connection.scalar(sa.text("SELECT nextval(:name)"), {"name": sequence}) or 0)
    count = len(plan.files)
    dataset = {
        "jeditaskid": task_id, "datasetid": dataset_id, "datasetname": "pseudo_dataset", "type": "pseudo_input",
        "status": "ready", "state": "closed", "vo": plan.columns.get("vo"), "streamname": "IN",
        "nfiles": count, "nfilestobeused": count, "nfilesused": 0, "nfilesfinished": 0, "nfilesfailed": 0,
        "nevents": count, "neventstobeused": count, "neventsused": 0, "creationtime": stamp, "modificationtime": stamp,
    }  # fmt: skip
    insert_row(connection, names, "jedi_datasets", dataset)
    for number, one in enumerate(plan.files):
        file_id = int(connection.scalar(sa.text("SELECT nextval('broker.pseudo_file_seq')")) or 0)
        file = {
            "jeditaskid": task_id, "datasetid": dataset_id, "fileid": file_id, "lfn": f"pseudo_lfn.{number}",
            "type": "pseudo_input", "status": "ready", "proc_status": "ready", "fsize": 0, "nevents": 1,
            "attemptnr": 0, "maxattempt": ATTEMPTS, "failedattempt": 0, "keeptrack": 1, "creationdate": stamp,
        }  # fmt: skip
        insert_row(connection, names, "jedi_dataset_contents", file)
        identity = Identity(one.job_id, plan.group_id, one.global_id, file_id)
        sss_rows.add_identity(connection, "task", task_id, identity)
        sss_rows.add_properties(connection, "task", task_id, one.kept, one.job_id)
