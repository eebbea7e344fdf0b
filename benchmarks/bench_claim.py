"""How long claiming files takes: batches of jobs are written until all files of all datasets are claimed.

The number of files is the same in few large datasets and in many small ones. Table statistics are stale, as in service.
The time per file must not grow with the size of a dataset, nor from batch to batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
import sqlalchemy as sa

from benchmarks.columns import ColumnScenario
from benchmarks.measuring import NOW, asked_folder, loaded, report
from broker.domain.arrays import Ints
from broker.domain.placements import JobFileTable, JobTable, Placement, TaskSeen
from broker.store.connection.database import Database
from broker.store.writes.job_rows import AssignmentWriter, WriteBack

FILES = 1_000_000
FILES_OF_A_DATASET = (500, 10_000, 100_000)
FILES_OF_A_JOB = 2
BATCHES = 4
FIRST_ID = 1_000
LIMIT_S = 60.0
NUCLEUS = "NUCLEUS"

# One task per dataset, the usual case.
_TASKS = """
INSERT INTO doma_panda.jedi_tasks (jeditaskid, taskname, status, nucleus, vo, prodsourcelabel, username)
SELECT t, 'task.' || t, 'running', :nucleus, 'atlas', 'managed', 'prodsys'
FROM generate_series(:first, :first + :datasets - 1) AS t"""
_DATASETS = """
INSERT INTO doma_panda.jedi_datasets (jeditaskid, datasetid, datasetname, type, status, nfiles, nfilestobeused,
    nfilesused)
SELECT t, t, 'mc23_13p6TeV.601229.PhPy8EG_A14_ttbar_hdamp.EVNT.e8514_tid' || t, 'input', 'ready', :files, :files, 0
FROM generate_series(:first, :first + :datasets - 1) AS t"""
_FILES = """
INSERT INTO doma_panda.jedi_dataset_contents (
    jeditaskid, datasetid, fileid, lfn, guid, type, status, scope, fsize, nevents, attemptnr, maxattempt)
SELECT :first + n / :files, :first + n / :files, n, 'EVNT.' || n || '.pool.root.1', md5(n::text), 'input', 'defined',
    'mc23_13p6TeV', 1000000, 50, 0, 3
FROM generate_series(0, CAST(:datasets AS bigint) * :files - 1) AS n"""


_NO_ANALYZE = "ALTER TABLE doma_panda.jedi_dataset_contents SET (autovacuum_enabled = off)"
_READY = "UPDATE doma_panda.jedi_dataset_contents SET status = 'ready'"


def fill(database: Database, datasets: int, files: int) -> None:
    """Insert tasks with one dataset of ``files`` ready files each; according to the statistics no file is ready."""
    values = {"first": FIRST_ID, "datasets": datasets, "files": files, "nucleus": NUCLEUS}
    with database.begin() as connection:
        for statement in (_TASKS, _DATASETS, _FILES):
            connection.execute(sa.text(statement), values)
    with database.autocommit() as connection:
        connection.exec_driver_sql(_NO_ANALYZE)
        connection.exec_driver_sql("VACUUM ANALYZE")
        connection.exec_driver_sql(_READY)


def placements(datasets: int, files: int, batches: int) -> Iterator[Placement]:
    """Yield all work in batches; each batch takes the next part of every dataset."""
    part = files // batches
    for batch in range(batches):
        within = np.arange(part, dtype=np.int64) + batch * part
        fileid = (np.arange(datasets, dtype=np.int64)[:, None] * files + within[None, :]).ravel()
        yield _placement(np.repeat(np.arange(FIRST_ID, FIRST_ID + datasets, dtype=np.int64), part), fileid)


def _placement(task: Ints, fileid: Ints) -> Placement:
    job = np.arange(len(fileid), dtype=np.int64) // FILES_OF_A_JOB
    jobs = int(job[-1]) + 1
    constant = {name: np.full(jobs, value, dtype=np.int64) for name, value in _JOB.items()}
    table = JobTable(
        chunk=np.arange(jobs, dtype=np.int64),
        jeditaskid=task[::FILES_OF_A_JOB],
        merging=np.zeros(jobs, dtype=np.bool_),
        **constant,
    )
    claims = JobFileTable(job, task, task, fileid, np.zeros_like(fileid), np.ones(len(fileid), dtype=np.bool_))
    tasks_seen = tuple(TaskSeen(int(number), "running", NUCLEUS) for number in np.unique(task))
    return Placement(("QUEUE",), ("MCORE",), ("x86_64-el9",), table, claims, tasks_seen)


_JOB = {
    "queue": 0,
    "resource_type": 0,
    "platform": 0,
    "corecount": 8,
    "minramcount_mb": 16_000,
    "maxdiskcount_mb": 20_000,
    "maxwalltime_s": 86_400,
    "maxcpucount_s": 600_000,
    "nevents": 100,
    "inputfilebytes": 2_000_000,
    "ninputdatafiles": FILES_OF_A_JOB,
    "priority": 500,
}


def write(database: Database, placement: Placement) -> WriteBack:
    """Write one batch in its own transaction, which fails if it takes too long."""
    with database.begin() as connection:
        connection.execute(sa.text(f"SET LOCAL statement_timeout = '{LIMIT_S:g}s'"))
        return AssignmentWriter(Database.raw(connection), database.names, NOW).write(placement)


def measure(datasets: int, files: int, batches: int = BATCHES) -> dict[str, Any]:
    """Fill a database and claim all of it, batch by batch."""
    with loaded(ColumnScenario(NOW.isoformat(), {})) as database:
        fill(database, datasets, files)
        seconds, claimed_files = [], 0
        for placement in placements(datasets, files, batches):
            start_s = perf_counter()
            claimed_files += write(database, placement).files
            seconds.append(perf_counter() - start_s)
    return {
        "datasets": datasets,
        "files_of_a_dataset": files,
        "claimed": claimed_files,
        "first_batch_s": seconds[0],
        "slowest_batch_s": max(seconds),
        "us_a_file": 1e6 * sum(seconds) / claimed_files,
    }


def main() -> None:
    """Measure and report."""
    folder = asked_folder()
    rows = [measure(FILES // files, files) for files in FILES_OF_A_DATASET]
    report(folder, "claim", rows, target="us_a_file is the same for all sizes of datasets, and so are the batches")


if __name__ == "__main__":
    main()
