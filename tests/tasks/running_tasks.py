"""Helpers that take tasks from submission to the pilot's last report, and read their state."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from broker.pilots.answers.jobs import update
from broker.pilots.model.job_report import JobReport
from broker.store.connection.database import Database
from tests.brokerages import small_grid
from tests.cli.commands import Command
from tests.pilots.panda.pilot_grid import run_agent
from tests.tasks.parameters import parameters

LATER = small_grid.NOW + timedelta(minutes=1)
MUCH_LATER = small_grid.NOW + timedelta(minutes=2)


def submit_task(broker: Command, folder: Path, count: int = 4, **overrides: Any) -> int:
    defaults = {"vo": "atlas", "nucleus": "ALPHA", "coreCount": 8, "ramCount": 1000, "ramUnit": "MBPerCore"}
    task_parameters = parameters(**{**defaults, "gshare": small_grid.SHARE, "maxAttempt": 1, **overrides})
    (folder / "task.json").write_text(json.dumps(task_parameters), encoding="utf-8")
    result = broker("task", "submit", str(folder / "task.json"), "--count", str(count), "--json")
    assert result.status == 0, result.err
    return int(result.document["jeditaskid"])


def running(database: Database, broker: Command, folder: Path, count: int = 4, **overrides: Any) -> int:
    """Submit a task and generate its jobs: half of them run, the others wait for pilots."""
    task = submit_task(broker, folder, count, **overrides)
    for agent in ("production_job", "activation"):
        record, _ = run_agent(database, agent, LATER)
        assert record.outcome == "done", record.error
    jobs = column(database, f"SELECT pandaid FROM doma_panda.jobsactive4 WHERE jeditaskid = {task} ORDER BY 1")
    assert len(jobs) == count
    execute(
        database, f"UPDATE doma_panda.jobsactive4 SET jobstatus = 'running' WHERE pandaid = ANY('{{{_half(jobs)}}}')"
    )
    return task


def _half(jobs: list[Any]) -> str:
    return ",".join(str(job) for job in jobs[: len(jobs) // 2])


def end_jobs(database: Database, task: int, *, finished: int) -> None:
    """Send the final report of every job of a task: ``finished`` jobs finish, the others fail."""
    jobs = column(database, f"SELECT pandaid FROM doma_panda.jobsactive4 WHERE jeditaskid = {task} ORDER BY 1")
    execute(database, f"UPDATE doma_panda.jobsactive4 SET jobstatus = 'running' WHERE jeditaskid = {task}")
    for number, job in enumerate(jobs):
        reported(database, job, "finished" if number < finished else "failed")
    run_agent(database, "completion", MUCH_LATER)


FAILED = {"piloterrorcode": 1305, "piloterrordiag": "payload failed"}


def reported(database: Database, job: int, state: str, codes: dict[str, Any] | None = None) -> str | None:
    columns = (FAILED if codes is None else codes) if state == "failed" else {}
    report = JobReport(
        job, state, columns=columns, output_report=_output_report(database, job) if state == "finished" else ""
    )
    return update(database, report, lambda _: True).command


def _output_report(database: Database, job: int) -> str:
    query = f"SELECT lfn FROM doma_panda.filestable4 WHERE pandaid = {job} AND type IN ('output', 'log')"
    attributes = {"guid": "00000000-0000-0000-0000-000000000000", "fsize": 5, "adler32": "00000001"}
    return json.dumps({lfn: attributes for lfn in column(database, query)})


def execute(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(sa.text(statement))


def column(database: Database, query: str) -> list[Any]:
    with database.read_snapshot() as connection:
        return list(connection.execute(sa.text(query)).scalars())


def status_of(database: Database, task: int) -> str:
    (status,) = column(database, f"SELECT status FROM doma_panda.jedi_tasks WHERE jeditaskid = {task}")
    return str(status)


def counters(database: Database, task: int) -> tuple[int, ...]:
    query = sa.text(
        "SELECT nfiles, nfilesused, nfilesfinished, nfilesfailed, neventsused FROM doma_panda.jedi_datasets "
        "WHERE jeditaskid = :task AND masterid IS NULL AND type = 'pseudo_input'"
    )
    with database.read_snapshot() as connection:
        return tuple(connection.execute(query, {"task": task}).one())


def job_states(database: Database, task: int) -> dict[str, int]:
    query = """SELECT jobstatus, count(*) FROM (
        SELECT jobstatus FROM doma_panda.jobsdefined4 WHERE jeditaskid = :task UNION ALL
        SELECT jobstatus FROM doma_panda.jobsactive4 WHERE jeditaskid = :task UNION ALL
        SELECT jobstatus FROM doma_panda.jobsarchived4 WHERE jeditaskid = :task) AS job GROUP BY 1"""
    with database.read_snapshot() as connection:
        return {row[0]: row[1] for row in connection.execute(sa.text(query), {"task": task})}
