"""A grid small enough to calculate by hand, and one cycle of an agent on it.

Sites: ALPHA (the nucleus), BETA, GAMMA. Queues, all with pilots and a DATADISK of 1,000 GB free:

==============  ======  ==========================================================
ALPHA_MCORE     ALPHA   production, 8 cores, 16 GB, writes and reads ALPHA_DATADISK
BETA            BETA    unified, 8 cores, 16 GB: pseudo-queues BETA/SCORE, BETA/MCORE
GAMMA_MCORE     GAMMA   production, 8 cores, 16 GB
GAMMA_OFF       GAMMA   as GAMMA_MCORE, but offline
GAMMA_TEST      GAMMA   as GAMMA_MCORE; no task names it, so it is no candidate
==============  ======  ==========================================================
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

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

Row = dict[str, Any]

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
FRESH = "2026-08-01T11:50:00"
SHARE = "MC Simulation"
TASK, DATASET = 7000, 8000
GB = 1024**3

QUEUES = {"ALPHA_MCORE": "ALPHA", "BETA": "BETA", "GAMMA_MCORE": "GAMMA", "GAMMA_OFF": "GAMMA", "GAMMA_TEST": "GAMMA"}


def queue(name: str, **fields: Any) -> Row:
    """Make a CRIC row of a queue that takes any eight-core job."""
    data = {
        "nickname": name,
        "type": "production",
        "cloud": "XX",
        "status": "online",
        "capability": "mcore",
        "corecount": 8,
        "corepower": 10,
        "maxrss": 16000,
        "minrss": 0,
        "maxtime": 345600,
        "mintime": 0,
        "maxwdir": 0,
        "releases": ["ANY"],
        "catchall": "",
        "params": {},
        **fields,
    }
    return {"panda_queue": name, "data": data, "last_update": FRESH}


def jobs(queue_name: str, first: int, share: str = SHARE, **counts: int) -> list[Row]:
    """Make the given numbers of jobs at a queue, by status."""
    rows = []
    for status, count in counts.items():
        for number in range(count):
            rows.append(
                {
                    "pandaid": first + len(rows),
                    "jobdefinitionid": 1,
                    "jobstatus": status,
                    "computingsite": queue_name,
                    "gshare": share,
                    "vo": "atlas",
                    "prodsourcelabel": "managed",
                    "corecount": 8,
                    "workqueue_id": 1,
                    "currentpriority": 100 + number % 2,
                    "modificationtime": FRESH,
                    "creationtime": FRESH,
                }
            )
    return rows


def task(**columns: Any) -> Row:
    """Make an eight-core simulation task at nucleus ALPHA."""
    return {
        "jeditaskid": TASK,
        "taskname": "a task",
        "status": "running",
        "username": "prodsys",
        "creationdate": FRESH,
        "modificationtime": FRESH,
        "prodsourcelabel": "managed",
        "vo": "atlas",
        "cloud": "WORLD",
        "corecount": 8,
        "processingtype": "simul",
        "taskpriority": 500,
        "currentpriority": 500,
        "splitrule": "NF=1",
        "ramcount": 1500,
        "ramunit": "MBPerCore",
        "baseramcount": 0,
        "cputime": 100,
        "cputimeunit": "HS06sPerEvent",
        "cpuefficiency": 100,
        "basewalltime": 0,
        "nucleus": "ALPHA",
        "gshare": SHARE,
        "resource_type": "MCORE",
        "workqueue_id": 1,
        **columns,
    }


def dataset(files: int, **columns: Any) -> Row:
    """Make the master dataset of the task."""
    return {
        "jeditaskid": TASK,
        "datasetid": DATASET,
        "datasetname": "mc:mc.input",
        "type": "input",
        "vo": "atlas",
        "status": "ready",
        "state": "closed",
        "nfiles": files,
        "nfilestobeused": files,
        "nfilesused": 0,
        "creationtime": "2026-07-30T00:00:00",
        "modificationtime": "2026-07-30T00:00:00",
        **columns,
    }


def input_files(count: int, size_bytes: int, **columns: Any) -> list[Row]:
    """Make ready files of 100 events each."""
    return [
        {
            "jeditaskid": TASK,
            "datasetid": DATASET,
            "fileid": 9000 + number,
            "lfn": f"file.{number:04d}",
            "type": "input",
            "status": "ready",
            "fsize": size_bytes,
            "nevents": 100,
            "attemptnr": 0,
            "maxattempt": 3,
            "failedattempt": 0,
            "maxfailure": 3,
            "ramcount": 0,
            "scope": "mc",
            "creationdate": FRESH,
            **columns,
        }
        for number in range(count)
    ]


def replica(site: str, available: int, total: int) -> Row:
    """Make the replica of the master dataset at the DATADISK of a site."""
    return {
        "scope": "mc",
        "name": "mc.input",
        "rse": f"{site}_DATADISK",
        "is_tape": False,
        "available_files": available,
        "total_files": total,
        "available_bytes": available * 2 * GB,
        "total_bytes": total * 2 * GB,
        "state": "AVAILABLE",
    }


def scenario(**tables: list[Row]) -> Scenario:
    """Make the grid; the given tables are added or replace its own."""
    sites = sorted(set(QUEUES.values()))
    endpoints = [
        {
            "ddm_endpoint_name": f"{site}_DATADISK",
            "site_name": site,
            "type": "DATADISK",
            "is_tape": "N",
            "space_total": 10000,
            "space_free": 1000,
            "space_timestamp": FRESH,
            "detailed_status": {},
        }
        for site in sites
    ]
    relations = [
        {
            "panda_site_name": name,
            "ddm_endpoint_name": f"{site}_DATADISK",
            "is_local": "Y",
            "roles": "read_lan,write_lan",
            "order_read": 1,
            "order_write": 1,
            "default_read": "Y",
            "default_write": "Y",
            "scope": "default",
        }
        for name, site in QUEUES.items()
    ]
    defaults: dict[str, list[Row]] = {
        "site": [{"site_name": site, "role": "nucleus" if site == "ALPHA" else "satellite"} for site in sites],
        "panda_site": [{"panda_site_name": name, "site_name": site} for name, site in QUEUES.items()],
        "schedconfig_json": [
            queue("ALPHA_MCORE"),
            queue("BETA", type="unified", capability="ucore"),
            queue("GAMMA_MCORE"),
            queue("GAMMA_OFF", status="offline"),
            queue("GAMMA_TEST"),
        ],
        "resource_types": [
            {"resource_name": "SCORE", "mincore": 1, "maxcore": 1, "maxrampercore": 2000},
            {"resource_name": "MCORE", "mincore": 2, "maxrampercore": 2000},
        ],
        "ddm_endpoint": endpoints,
        "panda_ddm_relation": relations,
        "sitedata": [
            {"site": name, "flag": "production", "hours": 3, "getjob": 10, "updatejob": 10, "laststart": FRESH}
            | {"lastmod": FRESH}
            for name in QUEUES
        ],
    }
    return Scenario(NOW, {**defaults, **tables})


def one_cycle(
    database: Database,
    grid: Scenario,
    seed: int = 1,
    agent: str = "production_job",
    profile: str = "seed",
    **request: Any,
) -> tuple[RunRecord, list[dict[str, Any]]]:
    """Load a scenario, run one cycle of an agent on it, and return its record and decisions."""
    load(database, grid)
    return next_cycle(database, seed, agent, profile, **request)


def next_cycle(
    database: Database, seed: int = 1, agent: str = "production_job", profile: str = "seed", **request: Any
) -> tuple[RunRecord, list[dict[str, Any]]]:
    """Run one more cycle on the current database and return its record and decisions."""
    decisions: list[dict[str, Any]] = []
    with database.begin() as connection:
        lease = leases.acquire(connection, agent, "test", LeaseTerms(length_s=60.0)).lease
    assert lease is not None
    cycle_agent = registry.make(agent, {}, ProcessSettings(profile=profile))
    cycle_request = CycleRequest(emit=decisions.append, **request)
    context = CycleContext(
        database, NOW, seed, 600.0, request=cycle_request, lease=lease, run_id=open_run(database, agent, lease)
    )
    record = run_cycle(cycle_agent, context)
    with database.begin() as connection:
        leases.release(connection, lease)
    return record, decisions
