"""A small grid with jobs that wait for pilots, and a client that behaves like the pilot."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.domain.arrays import Floats
from broker.pilots.statements.task_queue_rows import follow_jobs, weigh
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms
from tests.pilots.panda.client import Client

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
AGENT = {"accept": "application/json", "user-agent": "pilot/3.7.0.36 (Python 3.11)"}
Rows = list[dict[str, Any]]

OWN_TABLES = (
    "broker.task_queues", "broker.waiting_jobs", "broker.task_queue_levels", "broker.pilot_requests",
    "broker.task_outputs", "broker.pilot_logs", "broker.job_actions", "broker.rebrokered_from", "broker.leases",
    "broker.task_requirements", "broker.file_arguments", "broker.pilot_demand", "broker.harvester_commands",
    "broker.submitted_pilots", "broker.failed_jobs", "broker.retry_actions", "broker.retry_rules",
    "broker.request_learned", "broker.request_changes", "broker.incidents", "broker.notifications",
    "broker.task_subscriptions", "broker.forecasts",
)  # fmt: skip


def queue(name: str, **data: Any) -> dict[str, Any]:
    return {"panda_queue": name, "data": {"nickname": name, "status": "online", "atlas_site": "SITE"} | data}


QUEUES = [queue("Q"), queue("R"), queue("TEST", status="test")]


def job(pandaid: int, jobstatus: str = "activated", **columns: Any) -> dict[str, Any]:
    """A job of task 1 at Q."""
    defaults = {
        "pandaid": pandaid, "jobstatus": jobstatus, "jeditaskid": 1, "computingsite": "Q", "lockedby": "jedi",
        "prodsourcelabel": "managed", "transformation": "run", "attemptnr": 0, "vo": "atlas", "currentpriority": 100,
        "creationtime": "2026-08-01T10:00:00", "modificationtime": "2026-08-01T10:00:00", "jobdefinitionid": 0,
    }  # fmt: skip
    return defaults | columns


def task(jeditaskid: int = 1, **columns: Any) -> dict[str, Any]:
    return {"jeditaskid": jeditaskid, "taskname": "t", "status": "running", "prodsourcelabel": "managed"} | columns


def dataset(datasetid: int = 10, type: str = "input", **columns: Any) -> dict[str, Any]:
    counts = {"nfiles": 2, "nfilestobeused": 2, "nfilesused": 1, "nfilesfinished": 0, "nfilesfailed": 0}
    defaults = {
        "jeditaskid": 1,
        "datasetid": datasetid,
        "datasetname": f"ds{datasetid}",
        "type": type,
        "status": "ready",
    }
    return defaults | counts | {"nfilesonhold": 0, "neventsused": 0} | columns


def content(fileid: int, pandaid: int | None = None, datasetid: int = 10, **columns: Any) -> dict[str, Any]:
    defaults = {
        "jeditaskid": 1, "datasetid": datasetid, "fileid": fileid, "lfn": f"file{fileid}", "type": "input",
        "status": "running" if pandaid else "ready", "attemptnr": 0, "maxattempt": 3, "failedattempt": 0,
        "keeptrack": 1, "pandaid": pandaid,
    }  # fmt: skip
    return defaults | columns


def record(pandaid: int, fileid: int, datasetid: int = 10, **columns: Any) -> dict[str, Any]:
    defaults = {
        "row_id": 1000 * pandaid + fileid, "pandaid": pandaid, "lfn": f"file{fileid}", "type": "input",
        "status": "ready", "jeditaskid": 1, "datasetid": datasetid, "fileid": fileid, "attemptnr": 0,
        "scope": "s", "dataset": f"ds{datasetid}", "fsize": 5,
    }  # fmt: skip
    return defaults | columns


def fill(database: Database, jobs: Rows, **tables: Rows) -> None:
    """Replace the scenario and put activated jobs into task queues."""
    names = ", ".join(OWN_TABLES)
    with database.begin() as connection:
        # ids of task queues are never reused: a matcher's cache of them is correct or unused
        connection.execute(sa.text(f"TRUNCATE {names} CASCADE"))
    archived_jobs = [values for values in jobs if values["jobstatus"] in ("finished", "failed", "closed")]
    defined_jobs = [values for values in jobs if values["jobstatus"] in ("defined", "assigned")]
    active_jobs = [values for values in jobs if values not in archived_jobs and values not in defined_jobs]
    rows: dict[str, Rows] = {"schedconfig_json": QUEUES, "jedi_tasks": [task()], "jobsactive4": active_jobs}
    rows |= {"jobsdefined4": defined_jobs, "jobsarchived4": archived_jobs}
    load(database, Scenario(NOW, rows | tables), replace=True)
    follow(database)


def follow(database: Database) -> None:
    def shares(names: Any) -> Floats:
        return np.full(len(names), 1000.0)

    with database.begin() as connection:
        follow_jobs(connection, database.names, NOW)
        weigh(connection, shares, background=False)


def rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    with database.read_snapshot() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


def row(database: Database, statement: str) -> dict[str, Any]:
    with database.read_snapshot() as connection:
        return dict(connection.execute(sa.text(statement)).mappings().one())


def post(client: Client, method: str, **fields: Any) -> Any:
    """The answer of the older interface."""
    answer = client.post(f"/server/panda/{method}", data=fields, headers=AGENT)
    assert answer.status_code == 200, answer.text
    return answer.json()


def call(client: Client, method: str, **values: Any) -> Any:
    """The answer of API v1."""
    answer = client.post(f"/api/v1/{method}", json=values)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"success", "message", "data"}
    return answer.json()


def run_agent(
    database: Database, name: str, now: datetime = NOW, dry: bool = False, options: dict[str, Any] | None = None
) -> tuple[RunRecord, Rows]:
    """Run one cycle of an agent; return its record and the emitted documents."""
    agent = registry.make(name, options or {}, ProcessSettings())
    documents: Rows = []
    request = CycleRequest(dry_run=dry, emit=documents.append)
    if dry:
        return run_cycle(agent, CycleContext(database, now, 1, 60.0, request)), documents
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
        lease = leases.acquire(connection, name, "test", LeaseTerms()).lease
    assert lease is not None
    run_id = open_run(database, name, lease)
    return run_cycle(agent, CycleContext(database, now, 1, 60.0, request, lease=lease, run_id=run_id)), documents
