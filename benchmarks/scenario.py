"""Synthetic grids for the benchmarks, with any number of tasks, pseudo-queues and jobs.

The mix exercises every rule: about six of ten candidates are rejected, for many different reasons, and every task keeps
some candidates. Of N pseudo-queues, 60 % belong to unified queues of four resource types each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.columns import Columns, ColumnScenario, from_rows
from benchmarks.scenario_work import work_tables

NOW = "2026-08-01T12:00:00"
HOUR_AGO = "2026-08-01T11:00:00"
MINUTES_AGO = "2026-08-01T11:50:00"
HOURS_AGO = "2026-08-01T05:00:00"
TOMORROW = "2026-08-02T12:00:00"
TYPES_A_UNIFIED_QUEUE = 4
UNIFIED_FRACTION = 0.15
NUCLEI = 12
SHARES = ("MC 23", "MC 20", "MC 16", "Evgen", "Derivations", "Reprocessing", "Group Production", "Express")
STATUSES = ("running", "activated", "starting", "transferring")
SHARE_LIMIT_JOBS = 100_000
GENEROUS_EVERY = 7
JAMMED_EVERY = 19
# one nucleus is for full chains, and one cannot be written to remotely, so its tasks stay at its own queues
FULL_CHAIN_NUCLEUS = NUCLEI - 2
CLOSED_NUCLEUS = NUCLEI - 1

Row = dict[str, Any]


@dataclass(frozen=True)
class Grid:
    """Names of a synthetic grid; queue ``i`` is at site ``site_of[i]``, the first ``unified`` queues are unified."""

    sites: list[str]
    queues: list[str]
    site_of: list[int]
    unified: int

    def generous(self, queue: int) -> bool:
        """Return whether the queue accepts nearly everything, so that every task finds a place."""
        return queue % GENEROUS_EVERY == 0 or self.site_of[queue] < NUCLEI

    def jammed(self, queue: int) -> bool:
        """Return whether most jobs of the queue wait for the transfer of their output."""
        return queue % JAMMED_EVERY == 5 and not self.generous(queue)

    @property
    def nuclei(self) -> list[str]:
        """The sites that are nuclei."""
        return self.sites[:NUCLEI]


def make_scenario(tasks: int, pseudo_queues: int, jobs: int, seed: int) -> ColumnScenario:
    """Make a scenario.

    Args:
        tasks: number of tasks, each with one input chunk.
        pseudo_queues: number of candidates before any rule.
        jobs: number of jobs that the ready input of all tasks makes together, at least one per task.
        seed: determines all random choices.

    Returns:
        The scenario; equal arguments give equal scenarios.

    Raises:
        ValueError: a number is too small for a grid.
    """
    if tasks < 1 or pseudo_queues < 2 * TYPES_A_UNIFIED_QUEUE or jobs < tasks:
        raise ValueError(f"no scenario of {tasks} tasks, {pseudo_queues} pseudo-queues, {jobs} jobs: too small")
    grid = _grid(pseudo_queues)
    rng = np.random.default_rng(seed)
    tables = _queue_tables(grid, rng) | _site_tables(grid, rng) | _activity_tables(grid, rng) | _policy_tables()
    columns: dict[str, Columns] = {name: from_rows(rows) for name, rows in tables.items()}
    return ColumnScenario(NOW, columns | work_tables(grid.nuclei, grid.sites, grid.queues, SHARES, tasks, jobs, rng))


def _grid(pseudo_queues: int) -> Grid:
    unified = int(pseudo_queues * UNIFIED_FRACTION)
    count = unified + pseudo_queues - TYPES_A_UNIFIED_QUEUE * unified
    sites = [f"SITE-{number:04d}" for number in range(max(NUCLEI + 4, count // 2))]
    queues = [f"QUEUE_{number:05d}" for number in range(count)]
    return Grid(sites, queues, [number % len(sites) for number in range(count)], unified)


def _pick(rng: np.random.Generator, values: list[Any], weights: list[float]) -> Any:
    return values[int(rng.choice(len(values), p=weights))]


def _queue_tables(grid: Grid, rng: np.random.Generator) -> dict[str, list[Row]]:
    descriptions = [_description(grid, number, rng) for number in range(len(grid.queues))]
    return {
        "panda_site": [
            {"panda_site_name": name, "site_name": grid.sites[site]}
            for name, site in zip(grid.queues, grid.site_of, strict=True)
        ],
        "schedconfig_json": [
            {"panda_queue": name, "data": data, "last_update": MINUTES_AGO}
            for name, data in zip(grid.queues, descriptions, strict=True)
        ],
        "sw_tags": [
            {
                "panda_queue": name,
                "last_update": HOUR_AGO,
                "data": {
                    "containers": ["any"],
                    "cvmfs": ["atlas", "nightlies"],
                    "cmtconfigs": ["x86_64-el9-gcc13-opt"],
                    "tags": [],
                    "architectures": [{"type": "cpu", "arch": ["x86_64"], "instr": ["avx2"], "vendor": ["intel"]}],
                },
            }
            for name in grid.queues
        ],
    }


def _description(grid: Grid, number: int, rng: np.random.Generator) -> Row:
    unified = number < grid.unified
    cores = 8 if unified else (8, 8, 1, 8, 16)[number % 5]
    data: Row = {
        "nickname": grid.queues[number],
        "panda_resource": grid.queues[number],
        "atlas_site": grid.sites[grid.site_of[number]],
        "type": "unified",
        "cloud": "WORLD",
        "status": "online",
        "capability": "ucore" if unified else "mcore" if cores > 1 else "score",
        "workflow": "pull_ups",
        "corecount": cores,
        "corepower": float(np.round(rng.uniform(8, 14), 3)),
        "maxrss": int(cores * rng.choice([3000, 4000])),
        "minrss": 0,
        "maxtime": 345_600,
        "mintime": 0,
        "maxwdir": 20_000 * cores,
        "maxinputsize": 250_000,
        "pledgedcpu": 1000,
        "releases": ["AUTO"],
        "wnconnectivity": "full#IPv6",
        "direct_access_lan": True,
        "direct_access_wan": False,
        "jobseed": "all",
        "fairsharepolicy": None,
        "catchall": "bareNucleus=allow" if grid.site_of[number] == FULL_CHAIN_NUCLEUS else None,
        "params": {},
        "transferringlimit": 3 if grid.jammed(number) else None,
    }
    return data if grid.generous(number) else data | _restrictions(rng)


def _restrictions(rng: np.random.Generator) -> Row:
    """Draw settings that make a queue refuse some tasks; each rule is triggered now and then."""
    policies = [
        None,
        "type=simul:100%,type=evgen:100%,type=any:0%",
        "priority<300:0%",
        "gshare=MC*:100%,gshare=any:0%",
        "group=(AP_SUSY|AP_HIGG):0%",
    ]
    return {
        "status": _pick(rng, ["online", "brokeroff", "test"], [0.94, 0.04, 0.02]),
        "maxtime": int(_pick(rng, [345_600, 72_000, 0], [0.8, 0.12, 0.08])),
        "mintime": int(_pick(rng, [0, 3600], [0.95, 0.05])),
        "maxwdir": int(_pick(rng, [160_000, 12_000, 0], [0.85, 0.1, 0.05])),
        "pledgedcpu": int(_pick(rng, [1000, 0, -1], [0.7, 0.2, 0.1])),
        "wnconnectivity": _pick(rng, ["full#IPv6", "full#IPv4", "http", None], [0.8, 0.1, 0.05, 0.05]),
        "direct_access_lan": bool(rng.random() < 0.8),
        "jobseed": _pick(rng, ["all", "std", "es"], [0.3, 0.66, 0.04]),
        "fairsharepolicy": _pick(rng, policies, [0.9, 0.03, 0.03, 0.02, 0.02]),
        "catchall": _pick(rng, [None, "bareNucleus=only", "per_core_attr"], [0.97, 0.02, 0.01]),
        "params": _pick(rng, [{}, {"max_io_intensity": 100}, {"use_only_local_data": True}], [0.94, 0.03, 0.03]),
        "maxdiskio": _pick(rng, [None, 10], [0.92, 0.08]),
    }


def _site_tables(grid: Grid, rng: np.random.Generator) -> dict[str, list[Row]]:
    generous_sites = {grid.sites[site] for queue, site in enumerate(grid.site_of) if grid.generous(queue)}
    return {
        "site": [
            {"site_name": name, "role": "nucleus" if number < NUCLEI else "satellite"}
            for number, name in enumerate(grid.sites)
        ],
        "ddm_endpoint": [
            _endpoint(name, name in generous_sites, number == CLOSED_NUCLEUS, rng)
            for number, name in enumerate(grid.sites)
        ],
        "panda_ddm_relation": [
            {
                "panda_site_name": name,
                "ddm_endpoint_name": f"{grid.sites[site]}_DATADISK",
                "is_local": "Y",
                "roles": "read_lan,write_lan",
                "order_read": 1,
                "order_write": 1,
                "default_read": "Y",
                "default_write": "Y",
                "scope": "default",
            }
            for name, site in zip(grid.queues, grid.site_of, strict=True)
        ],
        "network_matrix_kv": [
            row
            for source in grid.sites
            for nucleus in grid.nuclei
            for row in _link(source, nucleus, source in generous_sites, rng)
        ],
    }


def _endpoint(site: str, sound: bool, closed: bool, rng: np.random.Generator) -> Row:
    status = dict.fromkeys(("read_lan", "write_lan", "read_wan", "write_wan"), "ON")
    if closed:
        status["write_wan"] = "OFF"
    free_gb = int(rng.integers(1_000, 900_000))
    if not sound:
        free_gb = int(_pick(rng, [free_gb, 100], [0.95, 0.05]))
        status[_pick(rng, list(status), [0.25] * 4)] = _pick(rng, ["ON", "OFF", "TEST"], [0.84, 0.1, 0.06])
    return {
        "ddm_endpoint_name": f"{site}_DATADISK",
        "site_name": site,
        "type": "DATADISK",
        "is_tape": "N",
        "space_total": free_gb + 2_000_000,
        "space_free": free_gb,
        "space_used": 2_000_000,
        "space_expired": 0,
        "space_min_free": 0,
        "space_unavailable": 0,
        "space_timestamp": MINUTES_AGO,
        "blacklisted_read": "N",
        "detailed_status": status,
    }


def _link(source: str, nucleus: str, sound: bool, rng: np.random.Generator) -> list[Row]:
    if source == nucleus:
        return []
    values = {
        "AGIS_closeness": int(rng.integers(0, 12)) if sound or rng.random() > 0.03 else -1,
        "Production Output_queued": int(rng.integers(0, 60)) if sound or rng.random() > 0.05 else 400,
        "Express_queued": int(rng.integers(0, 5)),
        "dashb_mbps_1h": int(rng.integers(1, 250)) if rng.random() > 0.3 else None,
        "dashb_mbps_1d": int(rng.integers(1, 250)) if rng.random() > 0.2 else None,
        "dashb_mbps_1w": int(rng.integers(1, 250)) if rng.random() > 0.1 else None,
    }
    return [
        {"src": source, "dst": nucleus, "key": key, "value": value, "ts": MINUTES_AGO}
        for key, value in values.items()
        if value is not None
    ]


def _activity_tables(grid: Grid, rng: np.random.Generator) -> dict[str, list[Row]]:
    """Make pilots, slots, workers and existing jobs; some queues are silent, stalled or full."""
    tables: dict[str, list[Row]] = {
        "sitedata": [],
        "harvester_slots": [],
        "harvester_worker_stats": [],
        "jobsactive4": [],
    }
    for number, name in enumerate(grid.queues):
        sound = grid.generous(number)
        silent, stalled = not sound and rng.random() < 0.04, not sound and rng.random() < 0.06
        tables["sitedata"].append(
            {
                "site": name,
                "flag": "production",
                "hours": 3,
                "getjob": 0 if silent else 50,
                "updatejob": 0 if silent else 200,
                "lastmod": MINUTES_AGO,
                "laststart": HOURS_AGO if stalled else MINUTES_AGO,
            }
        )
        if number % 10 == 3:
            slots = int(_pick(rng, [0, 80, 400], [0.2, 0.5, 0.3]))
            tables["harvester_slots"].append(
                {"pandaqueuename": name, "numslots": slots, "modificationtime": HOUR_AGO, "expirationtime": TOMORROW}
            )
        tables["harvester_worker_stats"].append(
            {
                "harvester_id": "H1",
                "computingsite": name,
                "resourcetype": "MCORE",
                "status": "running",
                "n_workers": int(rng.integers(0, 60)),
                "lastupdate": MINUTES_AGO,
                "jobtype": "ANY",
            }
        )
        tables["jobsactive4"] += _jobs(name, number, grid.jammed(number), rng)
    return tables


def _jobs(queue: str, number: int, jammed: bool, rng: np.random.Generator) -> list[Row]:
    count = int(rng.integers(4, 24))
    status = rng.choice(len(STATUSES), size=count, p=[0.1, 0.2, 0.1, 0.6] if jammed else [0.7, 0.2, 0.05, 0.05])
    share = rng.integers(len(SHARES), size=count)
    return [
        {
            "pandaid": 6_000_000_000 + number * 100 + order,
            "jeditaskid": 30_000_000 + order,
            "vo": "atlas",
            "computingsite": queue,
            "jobstatus": STATUSES[status[order]],
            "prodsourcelabel": "managed",
            "processingtype": "simul",
            "gshare": SHARES[share[order]],
            "workqueue_id": 1 + int(share[order]),
            "resource_type": "MCORE",
            "nucleus": f"SITE-{order % NUCLEI:04d}",
            "currentpriority": 300,
            "corecount": 8,
            "actualcorecount": 8,
            "diskio": int(rng.integers(0, 320)),
            "creationtime": HOURS_AGO,
            "modificationtime": HOUR_AGO,
            "starttime": HOURS_AGO,
        }
        for order in range(count)
    ]


def _policy_tables() -> dict[str, list[Row]]:
    bounds: dict[str, tuple[int | None, ...]] = {"SCORE": (1, 1, None, 2000), "SCORE_HIMEM": (1, 1, 2001, None)}
    bounds |= {"MCORE": (2, None, None, 2000), "MCORE_HIMEM": (2, None, 2001, None)}
    keys = [("NW_ACTIVE", "boolean", "true"), ("NQUEUED_SAT_CAP", "integer", "150")]
    keys += [("MAX_DISKIO_DEFAULT", "integer", "30"), ("NQUEUED_NUC_CAP_FOR_JOBS", "integer", "1000000")]
    keys += [(f"NQUEUELIMITSITE_{share}", "integer", str(SHARE_LIMIT_JOBS)) for share in SHARES]
    return {
        "resource_types": [
            dict(
                zip(
                    ("resource_name", "mincore", "maxcore", "minrampercore", "maxrampercore"), (name, *row), strict=True
                )
            )
            for name, row in bounds.items()
        ],
        "config": [
            {"app": "jedi", "component": "jobbroker", "key": key, "vo": "atlas", "type": kind, "value": value}
            for key, kind, value in keys
        ],
        "global_shares": [
            {"name": "Production", "value": 100, "vo": "atlas"},
            *(
                {"name": name, "value": 12, "parent": "Production", "vo": "atlas", "queue_id": 9001 + order}
                for order, name in enumerate(SHARES)
            ),
        ],
        "jedi_work_queue": [],
    }
