from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.upkeep import cleanup_jobs
from broker.store.upkeep.cleanup_jobs import ArchivedJobs

BEFORE = datetime(2026, 8, 1, 12, tzinfo=UTC)
AT, OLDER = "2026-08-01T12:00:00", "2026-08-01T11:59:59"


def job(pandaid: int, status: str, time: str | None = OLDER) -> dict[str, Any]:
    return {"pandaid": pandaid, "jobstatus": status, "modificationtime": time, "jobname": f"j{pandaid}"}


JOBS = [
    job(1, "finished"),
    job(2, "failed"),
    job(3, "closed"),
    job(4, "cancelled"),
    job(5, "finished", AT),
    job(6, "finished", None),
    job(7, "running"),
    {"pandaid": 8, "modificationtime": OLDER},
]
FILES = [{"row_id": 10 * n + k, "pandaid": n, "lfn": f"f{n}.{k}"} for n in (1, 2, 5) for k in (1, 2)]


def fill(database: Database) -> Database:
    log = [{"pandaid": n, "jobstatus": "running", "modificationtime": OLDER} for n in (1, 1, 5)]
    load(database, Scenario(BEFORE, {"jobsarchived4": JOBS, "filestable4": FILES, "jobs_statuslog": log}), replace=True)
    return database


def column(database: Database, statement: str) -> list[Any]:
    with database.read_snapshot() as connection:
        return list(connection.execute(sa.text(statement)).scalars())


def test_ended_jobs_move_with_their_files(database: Database) -> None:
    fill(database)
    with database.begin() as connection:
        names = database.names
        assert cleanup_jobs.count(connection, names, BEFORE) == 4
        assert cleanup_jobs.count_without_time(connection, names) == 1
        assert cleanup_jobs.archive(connection, names, BEFORE, 3).jobs == 3
        assert cleanup_jobs.archive(connection, names, BEFORE, 3).jobs == 1
        assert cleanup_jobs.archive(connection, names, BEFORE, 3) == ArchivedJobs()
    assert column(database, "SELECT pandaid FROM doma_panda.jobsarchived4 ORDER BY 1") == [5, 6, 7, 8]
    archive_query = "SELECT pandaid || jobname || jobstatus FROM doma_pandaarch.jobsarchived ORDER BY 1"
    assert column(database, archive_query) == ["1j1finished", "2j2failed", "3j3closed", "4j4cancelled"]
    assert column(database, "SELECT row_id FROM doma_panda.filestable4 ORDER BY 1") == [51, 52]
    assert column(database, "SELECT lfn FROM doma_pandaarch.filestable_arch ORDER BY 1") == [
        "f1.1", "f1.2", "f2.1", "f2.2",
    ]  # fmt: skip
    assert column(database, "SELECT pandaid FROM doma_panda.jobs_statuslog") == [5]


def test_a_job_archived_again_replaces_its_archived_row(database: Database) -> None:
    fill(database)
    with database.begin() as connection:
        assert cleanup_jobs.archive(connection, database.names, BEFORE, 9) == ArchivedJobs(4, 4, 2)
        insert = "INSERT INTO doma_panda.jobsarchived4 (pandaid, jobstatus, modificationtime, jobname)"
        connection.execute(sa.text(f"{insert} VALUES (1, 'failed', '{OLDER}', 'again')"))
        assert cleanup_jobs.archive(connection, database.names, BEFORE, 9) == ArchivedJobs(1, 0, 0)
    assert column(database, "SELECT jobname FROM doma_pandaarch.jobsarchived WHERE pandaid = 1") == ["again"]
    fill(database)
    assert column(database, "SELECT pandaid FROM doma_pandaarch.jobsarchived") == []


def test_pilot_reports_are_removed_with_their_jobs(database: Database) -> None:
    fill(database)
    reports = """
        INSERT INTO doma_panda.jobsdebug (pandaid) VALUES (1), (5);
        INSERT INTO doma_panda.harvester_rel_jobs_workers (harvesterid, workerid, pandaid)
        VALUES ('h', 1, 1), ('h', 1, 5);
        INSERT INTO broker.pilot_logs (pandaid, attemptnr, reported_at, text)
        VALUES (1, 0, now(), ''), (5, 0, now(), '')"""
    with database.begin() as connection:
        connection.exec_driver_sql(reports)
        cleanup_jobs.archive(connection, database.names, BEFORE, 9)
    for table in ("doma_panda.jobsdebug", "doma_panda.harvester_rel_jobs_workers", "broker.pilot_logs"):
        assert column(database, f"SELECT pandaid FROM {table}") == [5], table
