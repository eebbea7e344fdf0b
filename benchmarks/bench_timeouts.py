"""How long the timeouts take: judging all jobs by all rules, and ending the due jobs, with files and counters.

The jobs have all columns that brokers fill, in a mix of states over many queues. Some of them are due, each with its
own input files. The actions are those of one cycle of the agent, under its lease and in its batches.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from agents.lifecycle.timeout_inputs import TimeoutInputReader
from agents.service import registry
from agents.service.base import CycleContext
from agents.service.configuration import ProcessSettings, config_file
from agents.service.cycle import open_run, run_cycle
from benchmarks.columns import ColumnScenario
from benchmarks.measuring import NOW, asked_folder, best_of, loaded, report
from broker.gdpconfig import Tuning
from broker.lifecycle.statements.scan import find_due
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms

JOBS, DUE, QUEUES, TASKS, FILES = 1_000_000, 50_000, 500, 2_000, 4
ROUNDS = 5

_QUEUES = """
INSERT INTO doma_panda.schedconfig_json (panda_queue, data, last_update)
SELECT 'QUEUE_' || q, json_build_object('nickname', 'QUEUE_' || q, 'workflow', CASE WHEN q % 3 = 0 THEN 'push' END,
    'status', CASE WHEN q % 50 = 0 THEN 'offline' WHEN q % 50 = 1 THEN 'test' ELSE 'online' END), :now
FROM generate_series(0, :queues - 1) AS q"""
_PILOTS = """
INSERT INTO doma_pandameta.sitedata (site, flag, hours, laststart, lastmod)
SELECT 'QUEUE_' || q, 'production', 3, CAST(:now AS timestamp) - interval '10 min' * (q % 14), :now
FROM generate_series(0, :queues - 1) AS q"""
_TASKS = """
INSERT INTO doma_panda.jedi_tasks (jeditaskid, status) SELECT t, 'running' FROM generate_series(0, :tasks - 1) AS t"""
_DATASETS = """
INSERT INTO doma_panda.jedi_datasets (jeditaskid, datasetid, type, nfilesused, neventsused)
SELECT t, t, 'input', 1000000, 0 FROM generate_series(0, :tasks - 1) AS t"""
# The first :due jobs are due: activated for three days, or silent. All others have changed within the hour.
_JOBS = """
INSERT INTO doma_panda.jobsactive4 (
    pandaid, jeditaskid, jobdefinitionid, taskid, reqid, jobname, jobstatus, prodsourcelabel, job_label, computingsite,
    nucleus, cloud, vo, currentpriority, assignedpriority, attemptnr, corecount, minramcount, minramunit, maxdiskcount,
    maxdiskunit, maxcpucount, maxcpuunit, maxwalltime, resource_type, gshare, workqueue_id, processingtype,
    workinggroup, produsername, produserid, lockedby, relocationflag, creationtime, modificationtime, statechangetime,
    starttime, transformation, homepackage, atlasrelease, cmtconfig, ninputdatafiles, inputfilebytes, nevents)
SELECT n, n % :tasks, 0, n % :tasks, 77, 'mc23_13p6TeV.601229.PhPy8EG_A14_ttbar_hdamp.simul.' || n, state.jobstatus,
    CASE WHEN n % 5 = 0 AND n >= :due THEN 'user' ELSE 'managed' END, 'managed', 'QUEUE_' || (n / 7) % :queues,
    'NUCLEUS', 'WORLD', 'atlas', (n % 11) * 100, 400, 0, 8, 16000, 'MB', 20000, 'MB', 600000, 's', 86400, 'MCORE',
    'Simulation', 1, 'simul', 'AP_SIM', 'prodsys', 'prodsys', 'jedi', 0, at.created, at.changed, at.changed,
    CASE WHEN state.jobstatus = 'running' THEN at.changed END, 'Sim_tf.py', 'AtlasOffline/25.0.1', 'Atlas-25.0.1',
    'x86_64-el9-gcc13-opt', 4, 4000000000, 1000
FROM generate_series(0, :jobs - 1) AS n
CROSS JOIN LATERAL (SELECT CASE WHEN n < :due THEN CASE n % 2 WHEN 0 THEN 'activated' ELSE 'running' END
    WHEN n % 100 < 45 THEN 'activated' WHEN n % 100 < 80 THEN 'running' WHEN n % 100 < 83 THEN 'starting'
    WHEN n % 100 < 84 THEN 'sent' WHEN n % 100 < 86 THEN 'holding' WHEN n % 100 < 96 THEN 'transferring'
    ELSE 'throttled' END AS jobstatus) AS state
CROSS JOIN LATERAL (SELECT CAST(:now AS timestamp) - interval '2 days' AS created, CAST(:now AS timestamp)
    - CASE WHEN n < :due THEN interval '3 days' ELSE interval '1 s' * (n % 1700) END AS changed) AS at"""
_FILES = """
INSERT INTO doma_panda.jedi_dataset_contents (
    jeditaskid, datasetid, fileid, lfn, type, status, proc_status, pandaid, nevents, attemptnr, maxattempt,
    failedattempt, keeptrack)
SELECT n / :files % :tasks, n / :files % :tasks, n, 'file.' || n, 'input', 'running', 'queued', n / :files, 250, 0, 3,
    0, 1
FROM generate_series(0, CAST(:due AS bigint) * :files - 1) AS n"""
_RECORDS = """
INSERT INTO doma_panda.filestable4 (row_id, pandaid, lfn, type, status, jeditaskid, datasetid, fileid, attemptnr)
SELECT fileid, pandaid, lfn, type, 'ready', jeditaskid, datasetid, fileid, attemptnr
FROM doma_panda.jedi_dataset_contents"""


def fill(database: Database, jobs: int, due: int) -> None:
    """Insert queues, tasks, jobs, and files of the due jobs."""
    values = {"now": NOW.replace(tzinfo=None), "jobs": jobs, "due": due}
    values |= {"queues": QUEUES, "tasks": TASKS, "files": FILES}
    with database.begin() as connection:
        for statement in (_QUEUES, _PILOTS, _TASKS, _DATASETS, _JOBS, _FILES, _RECORDS):
            connection.execute(sa.text(statement), values)
    with database.autocommit() as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")


def scan(database: Database) -> int:
    """Judge all jobs; return how many are due."""
    reader = TimeoutInputReader(config_file("sources.yaml", None))
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        inputs = reader.read(connection, catalogue, Tuning.defaults(), NOW)
        return len(find_due(connection, catalogue, inputs.timeout_context))


def cycle(database: Database) -> dict[str, Any]:
    """Run one cycle of the agent, which ends the due jobs."""
    with database.begin() as connection:
        lease = leases.acquire(connection, "timeouts", "benchmark", LeaseTerms(length_s=3600, longest_s=7200)).lease
    if lease is None:
        raise RuntimeError("the lease of the agent is taken")
    agent = registry.make("timeouts", {"jobs_of_a_cycle": JOBS, "brake_share": 1}, ProcessSettings())
    run_id = open_run(database, "timeouts", lease)
    record = run_cycle(agent, CycleContext(database, NOW, 1, 600.0, lease=lease, run_id=run_id))
    if record.outcome != "done":
        raise RuntimeError(f"the cycle ended as {record.outcome}: {record.error}")
    return {**record.counts, **record.timings}


def measure(jobs: int, due: int) -> dict[str, Any]:
    """Fill a database, judge its jobs several times, and end the due ones."""
    with loaded(ColumnScenario(NOW.isoformat(), {})) as database:
        fill(database, jobs, due)
        scan_s, due_count = best_of(ROUNDS, lambda: scan(database))
        counts = cycle(database)
        after_s, left_count = best_of(1, lambda: scan(database))
    return {
        "jobs": jobs,
        "due": due_count,
        "scan_s": scan_s,
        "acted": counts["failed"] + counts["reassigned"] + counts["killed"],
        "files": counts["files"],
        "act_s": counts["write_s"],
        "left": left_count,
        "scan_after_s": after_s,
    }


def main() -> None:
    """Measure and report."""
    folder = asked_folder()
    report(
        folder, "timeouts", [measure(JOBS, DUE)], target="scan_s < 5 for 1,000,000 jobs, act_s < 10 for 50,000 actions"
    )


if __name__ == "__main__":
    main()
