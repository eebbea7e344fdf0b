"""A grid for the task brokerage, small enough to calculate by hand, and cycles of agents on it.

=======  =========  =================================================================
site     role       queue and storage
=======  =========  =================================================================
ALPHA    nucleus    ALPHA_Q, 8 cores; ALPHA_DATADISK: 400 TB free of 1,600 TB
BETA     nucleus    BETA_Q, 8 cores; BETA_DATADISK: 200 TB free of 1,600 TB; BETA_TAPE
GAMMA    satellite  GAMMA_Q, 8 cores, bareNucleus=allow; GAMMA_DATADISK: 800 of 1,600 TB
DELTA    satellite  DELTA_Q, 8 cores; DELTA_DATADISK: 800 of 1,600 TB
=======  =========  =================================================================

Without any remaining work the weights are min(1000, free TB) x free / total / 50: ALPHA 400 x 0.25 / 50 = 2, BETA
200 x 0.125 / 50 = 0.5, GAMMA 800 x 0.5 / 50 = 8.
"""

from __future__ import annotations

from datetime import datetime, timedelta
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
from tests.brokerages import small_grid
from tests.brokerages.small_grid import FRESH, NOW, TASK, Row, dataset, input_files, queue

SITES = {"ALPHA": 400, "BETA": 200, "GAMMA": 800, "DELTA": 800}
TB = 1024
LONG_AGO = "2026-08-01T10:00:00"
OUTPUT, LOG = 8100, 8101
WEIGHTS = {"ALPHA": 2.0, "BETA": 0.5}


def waiting(**columns: Any) -> Row:
    """Make a task in status assigning that is due for an attempt."""
    return small_grid.task(status="assigning", nucleus=None, modificationtime=LONG_AGO, **columns)


def outputs(task: int = TASK, first: int = OUTPUT, **columns: Any) -> list[Row]:
    """Make the output and log datasets of a task."""
    common = {"jeditaskid": task, "status": "defined", "storagetoken": "ATLASDATADISK", "nfiles": 0, **columns}
    return [
        {**common, "datasetid": first, "datasetname": f"mc.{task}.out", "type": "output"},
        {**common, "datasetid": first + 1, "datasetname": f"mc.{task}.log", "type": "log"},
    ]


def pseudo_input(files: int = 5, **columns: Any) -> Row:
    """Make a pseudo input without any location, with 100 events per file."""
    defaults = {"type": "pseudo_input", "datasetname": "pseudo_dataset", "nevents": 100 * files, "neventsused": 0}
    return dataset(files, **{**defaults, **columns})


def busy(task: int, nucleus: str, events: int, **columns: Any) -> tuple[Row, Row]:
    """Make a running task at a nucleus, and its input with the given number of remaining events, 100 HS06 s each."""
    row = small_grid.task(jeditaskid=task, nucleus=nucleus, status="running", **columns)
    return row, dataset(10, jeditaskid=task, datasetid=task, nevents=events, neventsused=0, nfilesused=10)


def endpoint(name: str, site: str, free_tb: float | None, **columns: Any) -> Row:
    """Make a storage endpoint of 1,600 TB."""
    return {
        "ddm_endpoint_name": name,
        "site_name": site,
        "type": "DATADISK",
        "is_tape": "N",
        "space_total": 1600 * TB,
        "space_free": None if free_tb is None else int(free_tb * TB),
        "space_expired": 0,
        "space_timestamp": FRESH,
        "detailed_status": {},
        **columns,
    }


def relation(site: str, name: str, **columns: Any) -> Row:
    """Make the relation of a site's queue to an endpoint."""
    default = "Y" if name.endswith("DATADISK") else "N"
    return {
        "panda_site_name": f"{site}_Q",
        "ddm_endpoint_name": name,
        "is_local": "Y",
        "roles": "read_lan,write_lan",
        "order_read": 1,
        "order_write": 1,
        "default_read": default,
        "default_write": default,
        "scope": "default",
        **columns,
    }


def grid_tables() -> dict[str, list[Row]]:
    """Make the tables of the grid."""
    return {
        "site": [
            {"site_name": site, "role": "nucleus" if site in ("ALPHA", "BETA") else "satellite"} for site in SITES
        ],
        "panda_site": [{"panda_site_name": f"{site}_Q", "site_name": site} for site in SITES],
        "schedconfig_json": [
            queue(f"{site}_Q", params={"bareNucleus": "allow"} if site == "GAMMA" else {}) for site in SITES
        ],
        "resource_types": [{"resource_name": "MCORE", "mincore": 2, "maxrampercore": 2000}],
        "ddm_endpoint": [
            *(endpoint(f"{site}_DATADISK", site, free) for site, free in SITES.items()),
            endpoint("BETA_TAPE", "BETA", 900, type="DATATAPE", is_tape="Y"),
        ],
        "panda_ddm_relation": [
            *(relation(site, f"{site}_DATADISK") for site in SITES),
            relation("BETA", "BETA_TAPE"),
        ],
        "sitedata": [
            {"site": f"{site}_Q", "flag": "production", "hours": 3, "getjob": 9, "laststart": FRESH, "lastmod": FRESH}
            for site in SITES
        ],
    }


def task_scenario(**tables: list[Row]) -> Scenario:
    """Make the grid with one task with pseudo input; the given tables are added or replace its own."""
    defaults = grid_tables() | {
        "jedi_tasks": [waiting()],
        "jedi_datasets": [pseudo_input(), *outputs()],
        "jedi_dataset_contents": input_files(5, 0, type="pseudo_input", fsize=None),
    }
    return Scenario(NOW, {**defaults, **tables})


def changed(table: str, key: str, value: str, **columns: Any) -> list[Row]:
    """Return the rows of a table of the grid with some columns of the matching rows changed."""
    return [{**row, **columns} if row[key] == value else row for row in grid_tables()[table]]


def broker_tasks(database: Database, grid: Scenario, **options: Any) -> list[Row]:
    """Load the scenario, run one cycle of the task brokerage and return its decisions."""
    load(database, grid)
    record, decisions = cycle_at(database, **options)
    assert record.outcome == "done", record.error
    return decisions


def cycle_at(
    database: Database,
    later: timedelta = timedelta(),
    seed: int = 1,
    agent: str = "production_task",
    profile: str = "seed",
    **request: Any,
) -> tuple[RunRecord, list[Row]]:
    """Run one cycle of an agent at a time after that of the scenario, and return its record and decisions."""
    now: datetime = NOW + later
    decisions: list[Row] = []
    with database.begin() as connection:
        lease = leases.acquire(connection, agent, "test", LeaseTerms()).lease
    assert lease is not None
    cycle_agent, cycle_request = (
        registry.make(agent, {}, ProcessSettings(profile=profile)),
        CycleRequest(emit=decisions.append, **request),
    )
    run_id = open_run(database, agent, lease)
    context = CycleContext(database, now, seed, 600.0, request=cycle_request, lease=lease, run_id=run_id)
    record = run_cycle(cycle_agent, context)
    with database.begin() as connection:
        leases.release(connection, lease)
    return record, decisions


def weights(decision: Row) -> dict[str, float]:
    """Return the final weights by nucleus."""
    return {candidate["name"]: candidate["weight"] for candidate in decision["candidates"]}


def rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with database.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]
