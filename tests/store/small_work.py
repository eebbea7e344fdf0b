"""A few tasks with files, and hand-built placements for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from broker.domain.placements import JobFileTable, JobTable, Placement, TaskSeen
from broker.store.connection.database import Database

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
NAIVE_NOW = NOW.replace(tzinfo=None)

TASK = """
    INSERT INTO doma_panda.jedi_tasks (jeditaskid, taskname, status, username, vo, prodsourcelabel, nucleus, cloud,
        gshare, workqueue_id, currentpriority, taskpriority, processingtype, workinggroup, transpath, transhome,
        transuses, architecture, reqid, frozentime, modificationtime, corecount)
    VALUES (:jeditaskid, 'task', :status, 'prodsys', 'atlas', 'managed', :nucleus, 'WORLD', 'Simulation', 1, 500, 400,
        'simul', 'AP_SIM', 'Sim_tf.py', 'AtlasOffline-25.0.1', 'Atlas-25.0.1', 'x86_64-el9', 77,
        TIMESTAMP '2026-07-30', TIMESTAMP '2026-08-01 10:00', 8)"""
DATASET = """
    INSERT INTO doma_panda.jedi_datasets (jeditaskid, datasetid, datasetname, type, status, nfiles, nfilestobeused,
        nfilesused, nevents, neventstobeused, neventsused)
    VALUES (:jeditaskid, :datasetid, 'mc23:input', 'input', 'ready', :files, :files, 0, :events, :events, 0)"""
FILE = """
    INSERT INTO doma_panda.jedi_dataset_contents (jeditaskid, datasetid, fileid, lfn, guid, type, status, scope, fsize,
        nevents, attemptnr, maxattempt)
    VALUES (:jeditaskid, :datasetid, :fileid, :lfn, 'guid', 'input', 'ready', 'mc23', 1000, 50, 0, 3)"""


def seed(database: Database, tasks: Sequence[int] = (1, 2), files: int = 6, status: str = "ready") -> None:
    """Add tasks with one dataset each (10 x the task id) of this many ready files (from 100 x the task id)."""
    with database.begin() as connection:
        for task in tasks:
            values = {"jeditaskid": task, "datasetid": 10 * task, "status": status, "nucleus": "CERN"}
            connection.execute(sa.text(TASK), values)
            connection.execute(sa.text(DATASET), {**values, "files": files, "events": 50 * files})
            rows = [
                {"jeditaskid": task, "datasetid": 10 * task, "fileid": 100 * task + number, "lfn": f"file.{number}"}
                for number in range(files)
            ]
            connection.execute(sa.text(FILE), rows)


def placement(
    jobs: Sequence[tuple[int, str, Sequence[int]]],
    *,
    tasks: Sequence[TaskSeen] | None = None,
    waiting: dict[int, str] | None = None,
    shared: Sequence[int] = (),
    **columns: Any,
) -> Placement:
    """Build a placement from jobs given as (task, queue, file ids); files in ``shared`` are not claimed."""
    queues = tuple(dict.fromkeys(queue for _, queue, _ in jobs))
    ids = np.array([task for task, _, _ in jobs], dtype=np.int64)

    def column(name: str, default: int) -> Any:
        return np.full(len(jobs), columns.get(name, default), dtype=np.int64)

    table = JobTable(
        chunk=np.arange(len(jobs), dtype=np.int64),
        jeditaskid=ids,
        queue=np.array([queues.index(queue) for _, queue, _ in jobs], dtype=np.int64),
        resource_type=column("resource_type", 0),
        platform=column("platform", 0),
        corecount=column("corecount", 8),
        minramcount_mb=column("minramcount_mb", 16000),
        maxdiskcount_mb=column("maxdiskcount_mb", 20000),
        maxwalltime_s=column("maxwalltime_s", 86400),
        maxcpucount_s=column("maxcpucount_s", 600000),
        nevents=column("nevents", 100),
        inputfilebytes=column("inputfilebytes", 2000),
        ninputdatafiles=column("ninputdatafiles", 2),
        priority=column("priority", 500),
        merging=np.full(len(jobs), columns.get("merging", False)),
    )
    pairs = [(job, task, fileid) for job, (task, _, files) in enumerate(jobs) for fileid in files]
    files = JobFileTable(
        job=np.array([job for job, _, _ in pairs], dtype=np.int64),
        jeditaskid=np.array([task for _, task, _ in pairs], dtype=np.int64),
        datasetid=np.array([10 * task for _, task, _ in pairs], dtype=np.int64),
        fileid=np.array([fileid for _, _, fileid in pairs], dtype=np.int64),
        attemptnr=np.zeros(len(pairs), dtype=np.int64),
        claimed=np.array([fileid not in shared for _, _, fileid in pairs], dtype=np.bool_),
    )
    tasks_seen = (
        tasks if tasks is not None else [TaskSeen(int(t), "ready", "CERN") for t in {*ids.tolist(), *(waiting or {})}]
    )
    return Placement(queues, ("MCORE",), ("x86_64-el9", "aarch64-el9"), table, files, tuple(tasks_seen), waiting or {})


def all_rows(database: Database, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries."""
    with database.begin() as connection:
        return [dict(row._mapping) for row in connection.execute(sa.text(query))]
