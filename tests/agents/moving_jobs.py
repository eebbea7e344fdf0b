"""A grid, cycles and rows for the tests of agents that take jobs back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def queue(name: str, **data: Any) -> dict[str, Any]:
    return {"panda_queue": name, "data": {"nickname": name, "status": "online"} | data}


def config(key: str, value: object, component: str = "rebroker") -> dict[str, Any]:
    row = {"app": "pandaserver", "component": component, "key": key, "vo": "atlas", "descr": "-"}
    return row | {"value": str(value), "type": "float"}


def job(pandaid: int, status: str = "activated", **columns: Any) -> dict[str, Any]:
    """A job of task 1 at queue Q; jobs with a higher PandaID are younger."""
    minutes = f"2026-07-31T{pandaid // 60 % 24:02d}:{pandaid % 60:02d}:00"
    plain = {"pandaid": pandaid, "jobstatus": status, "computingsite": "Q", "gshare": "MC", "jeditaskid": 1}
    return plain | {"lockedby": "jedi", "creationtime": minutes, "modificationtime": minutes} | columns


def fill(database: Database, jobs: list[dict[str, Any]], **tables: list[dict[str, Any]]) -> None:
    """Replace the scenario: jobs go to the tables of their states."""
    rows: dict[str, list[dict[str, Any]]] = {"schedconfig_json": [queue("Q"), queue("R")]}
    for row in jobs:
        waiting = row["jobstatus"] in ("pending", "defined", "assigned")
        rows.setdefault("jobsdefined4" if waiting else "jobsactive4", []).append(row)
    load(database, Scenario(NOW, rows | tables), replace=True)


def run(
    database: Database,
    name: str,
    dry: bool = False,
    now: datetime = NOW,
    options: dict[str, Any] | None = None,
    tasks: tuple[int, ...] | None = None,
    **settings: Any,
) -> tuple[RunRecord, list[dict[str, Any]]]:
    """One cycle: its record and the objects that it emitted."""
    agent = registry.make(name, options or {}, ProcessSettings(**settings))
    objects: list[dict[str, Any]] = []
    request = CycleRequest(tasks, dry_run=dry, emit=objects.append)
    if dry:
        record = run_cycle(agent, CycleContext(database, now, 1, 60.0, request))
    else:
        with database.begin() as connection:
            connection.execute(sa.text("DELETE FROM broker.leases WHERE name = :name"), {"name": name})
            lease = leases.acquire(connection, name, "test", LeaseTerms(length_s=60.0)).lease
        assert lease is not None
        run_id = open_run(database, name, lease)
        record = run_cycle(agent, CycleContext(database, now, 1, 60.0, request, lease=lease, run_id=run_id))
    return record, objects


def column(database: Database, statement: str) -> list[Any]:
    with database.read_snapshot() as connection:
        return list(connection.execute(sa.text(statement)).scalars())


def closed_jobs(database: Database) -> list[int]:
    return column(database, "SELECT pandaid FROM doma_panda.jobsarchived4 WHERE jobstatus = 'closed' ORDER BY 1")
