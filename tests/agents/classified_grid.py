"""Sample jobs, rows of classes and of progress, and readers of what agents wrote: shared by the tests of classes."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import run_cycle
from broker.store.connection.database import Database
from broker.store.service.agent_runs import RunRecord
from tests.brokerages.small_grid import FRESH, NOW, TASK, Row
from tests.brokerages.test_analysis_scenarios import SHARE, user_jobs

START = datetime(2026, 8, 1, 11, 30)  # noqa: DTZ001 - as PanDA stores it


def at(minutes: float) -> str:
    """The instant ``minutes`` before the cycle, as the tables store it."""
    return (NOW - timedelta(minutes=minutes)).replace(tzinfo=None).isoformat()


def sample(pandaid: int, queue: str, wait_s: float, **columns: Any) -> tuple[Row, list[Row]]:
    """A test job that started half an hour ago after a wait, and its rows of the status log."""
    job = {
        "pandaid": pandaid,
        "jobstatus": "finished",
        "computingsite": queue,
        "prodsourcelabel": "user",
        "gshare": SHARE,
        "produsername": "gangarbt",
        "modificationtime": FRESH,
        "starttime": at(30),
    }
    log = [
        {"pandaid": pandaid, "jobstatus": "running", "modificationtime": START.isoformat()},
        {"pandaid": pandaid, "jobstatus": "running", "modificationtime": FRESH},
        {
            "pandaid": pandaid,
            "jobstatus": "activated",
            "modificationtime": (START - timedelta(seconds=wait_s)).isoformat(),
        },
        {"pandaid": pandaid, "jobstatus": "activated", "modificationtime": FRESH},
    ]
    return job | columns, log


def tables_of(*samples: tuple[Row, list[Row]]) -> dict[str, list[Row]]:
    return {"jobsarchived4": [job for job, _ in samples], "jobs_statuslog": [row for _, log in samples for row in log]}


#: Two samples a queue: 10 minutes at ALPHA_MCORE, 2 hours at BETA, 14 hours at GAMMA_MCORE.
WAITS = {"ALPHA_MCORE": 600, "BETA": 7200, "GAMMA_MCORE": 50400}
SAMPLES = tables_of(
    *(sample(10 * place + twin, queue, wait) for place, (queue, wait) in enumerate(WAITS.items(), 1) for twin in (0, 1))
)


def metrics(database: Database, metric: str) -> dict[str, dict[str, Any]]:
    """The documents of a metric by queue or share."""
    with database.begin() as connection:
        rows = connection.execute(
            sa.text("SELECT computingsite, gshare, value_json, timestamp FROM doma_panda.metrics WHERE metric = :m"),
            {"m": metric},
        ).all()
    assert {row.timestamp for row in rows} <= {NOW.replace(tzinfo=None)}
    return {row.gshare if row.computingsite == "NULL" else row.computingsite: row.value_json for row in rows}


def evaluations(database: Database) -> dict[int, dict[str, Any]]:
    with database.begin() as connection:
        rows = connection.execute(sa.text("SELECT jeditaskid, value_json, timestamp FROM doma_panda.task_evaluation"))
        return {row.jeditaskid: json.loads(row.value_json) for row in rows}


def dry_cycle(database: Database, name: str, **options: Any) -> tuple[RunRecord, list[dict[str, Any]]]:
    objects: list[dict[str, Any]] = []
    request = CycleRequest(dry_run=True, emit=objects.append)
    agent = registry.make(name, options, ProcessSettings())
    return run_cycle(agent, CycleContext(database, NOW, 1, 60.0, request)), objects


def site(queue: str, site_class: Any, minutes: float = 10, **document: Any) -> Row:
    """A row with the class of a queue, written ``minutes`` ago."""
    value = {"class": site_class, **document}
    return {"metric": "analy_site_eval", "computingsite": queue, "gshare": "NULL", "value_json": value} | {
        "timestamp": at(minutes)
    }


def progress(files: int, finished: int, **columns: Any) -> Row:
    return {"jeditaskid": TASK, "datasetid": 1, "type": "input", "nfiles": files, "nfilesfinished": finished, **columns}


HUGE = [row | {"corecount": 8000} for row in user_jobs("ALPHA_MCORE", 900, running=1)]

SHARES = [
    {"name": "Production", "value": 60, "parent": None},
    {"name": "L1 User Analysis", "value": 40, "parent": None},
    {"name": SHARE, "value": 80, "parent": "L1 User Analysis"},
    {"name": "Express Analysis", "value": 20, "parent": "L1 User Analysis"},
]
