"""The static part of a scenario as the rows from which the broker builds its snapshot.

Changing parts (jobs, states of queues, space, transfers) are put into the snapshot afterwards, see
:mod:`broker.simulation.model.real.snapshots`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from broker.simulation.model.scenario import Scenario
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import RawSource, Rows
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.global_share_targets import targets_of

#: The instant at which every simulation begins, a Monday.
START = datetime(2026, 8, 3, tzinfo=UTC)
#: Id of the work queue of the first share.
FIRST_WORK_QUEUE = 9001
_GB = 2**30
#: Name, minimum and maximum cores, minimum and maximum MB a core.
RESOURCE_TYPES = (("SCORE", 1, 1, None, 2000), ("SCORE_HIMEM", 1, 1, 2001, None), ("MCORE", 2, None, None, 2000),
                  ("MCORE_HIMEM", 2, None, 2001, None))  # fmt: skip


def instant(time_s: float) -> datetime:
    """The instant of a virtual time."""
    return START + timedelta(seconds=time_s)


def endpoint(site: str) -> str:
    """The storage endpoint of a site."""
    return f"{site}_DATADISK"


def static_snapshot(scenario: Scenario) -> Snapshot:
    """The grid of a scenario without any jobs, as the broker builds it from rows."""
    sources = {source.name: source for source in sources_of(scenario)}
    return build_snapshot("simulation", START, sources, ())


def sources_of(scenario: Scenario) -> list[RawSource]:
    """The sources of a snapshot for a grid without any jobs; sources of a stored snapshot replace generated ones."""
    known = {source.name: source for source in scenario.known}
    generated = {source.name: source for source in _generated_sources(scenario)}
    return list((generated | known).values())


def _generated_sources(scenario: Scenario) -> list[RawSource]:
    return [
        _source("queues", panda_site=_panda_site(scenario), schedconfig_json=_queues(scenario), site=_sites(scenario)),
        _source("resource_types", resource_types=_resource_types()),
        _source("storages", ddm_endpoint=_endpoints(scenario), panda_ddm_relation=_relations(scenario)),
        _source("links", network_matrix_kv=_links(scenario)),
        _source("pilots", sitedata=_pilots(scenario)),
        _source("software", sw_tags=_software(scenario)),
        _source("user_jobs"),
        _source("metrics"),
        _source("quota"),
    ]


def share_values(scenario: Scenario) -> list[tuple[str, int]]:
    """The shares as stored in ``global_shares``: values in whole percent."""
    total = sum(weight for _, weight in scenario.shares)
    return [(name, round(100 * weight / total)) for name, weight in scenario.shares]


def share_targets(scenario: Scenario) -> dict[str, float]:
    """The targets that the source ``global_share_targets`` builds from the shares."""
    return targets_of((name, float(value), None) for name, value in share_values(scenario))


def _source(name: str, **tables: Sequence[Mapping[str, Any]]) -> RawSource:
    tables_of_source = {}
    for table, rows in tables.items():
        columns = tuple(rows[0]) if rows else ()
        tables_of_source[table] = Rows(columns, tuple(tuple(row[column] for column in columns) for row in rows))
    return RawSource(name, tables_of_source, START)


def _panda_site(scenario: Scenario) -> list[dict[str, Any]]:
    return [{"panda_site_name": q.name, "site_name": scenario.sites[q.site].name} for q in scenario.queues]


def _sites(scenario: Scenario) -> list[dict[str, Any]]:
    """The nuclei only: no task of a simulation names a satellite to collect its output."""
    return [
        {"site_name": site.name, "role": "nucleus", "state": "ACTIVE"} for site in scenario.sites if site.is_nucleus
    ]


def _resource_types() -> list[dict[str, Any]]:
    names = ("resource_name", "mincore", "maxcore", "minrampercore", "maxrampercore")
    return [dict(zip(names, row, strict=True)) for row in RESOURCE_TYPES]


def _queues(scenario: Scenario) -> list[dict[str, Any]]:
    return [
        {"panda_queue": q.name, "data": json.dumps(_description(scenario, number)), "last_update": START}
        for number, q in enumerate(scenario.queues)
    ]


def _description(scenario: Scenario, number: int) -> dict[str, Any]:
    queue = scenario.queues[number]
    site = scenario.sites[queue.site].name
    if queue.published:
        return {**queue.published, "nickname": queue.name, "atlas_site": site, "status": "online"}
    memory_mb = int(queue.node_memory_gb / max(1, queue.node_cores) * 1024)
    # jobs of one kind have the same cores everywhere: a node too small for 8 cores takes only single-core jobs
    cores = 8 if queue.node_cores >= 8 else 1
    return {
        "nickname": queue.name,
        "panda_resource": queue.name,
        "atlas_site": site,
        "type": "unified",
        "cloud": "WORLD",
        "status": "online",
        "capability": "ucore" if cores == 8 else "score",
        "workflow": "pull_ups" if queue.mode == "pull" else "push",
        "corecount": cores,
        "corepower": queue.corepower,
        "maxrss": memory_mb * cores,
        "minrss": 0,
        "maxtime": int(queue.maxtime_s),
        "mintime": 0,
        "maxwdir": 100_000 * cores,
        "maxinputsize": 1_000_000,
        "pledgedcpu": queue.cores,
        "releases": ["AUTO"],
        "wnconnectivity": "full#IPv6",
        "direct_access_lan": True,
        "direct_access_wan": False,
        "is_cvmfs": True,
        "jobseed": "all",
        "fairsharepolicy": None,
        "catchall": None,
        "params": {},
        "transferringlimit": max(2000, queue.cores),
    }


def _endpoints(scenario: Scenario) -> list[dict[str, Any]]:
    on = json.dumps(dict.fromkeys(("read_lan", "write_lan", "read_wan", "write_wan"), "ON"))
    return [
        {
            "ddm_endpoint_name": endpoint(site.name),
            "site_name": site.name,
            "type": "DATADISK",
            "is_tape": "N",
            "space_total": int(site.storage_total / _GB),
            "space_free": int((site.storage_total - site.storage_used) / _GB),
            "space_expired": 0,
            "space_min_free": 0,
            "space_unavailable": 0,
            "blacklisted_read": "N",
            "detailed_status": on,
            "space_timestamp": START,
        }
        for site in scenario.sites
    ]


def _relations(scenario: Scenario) -> list[dict[str, Any]]:
    return [
        {
            "panda_site_name": queue.name,
            "ddm_endpoint_name": endpoint(scenario.sites[queue.site].name),
            "is_local": "Y",
            "roles": "read_lan,write_lan",
            "order_read": 1,
            "order_write": 1,
            "default_read": "Y",
            "default_write": "Y",
            "scope": scope,
        }
        for queue in scenario.queues
        for scope in ("default", "analysis")
    ]


def _links(scenario: Scenario) -> list[dict[str, Any]]:
    """Rows of links: measured throughput is the bandwidth; closeness goes from 0 (widest) to 10."""
    rows: list[dict[str, Any]] = []
    nuclei = [number for number, site in enumerate(scenario.sites) if site.is_nucleus]
    for source, site in enumerate(scenario.sites):
        for target in nuclei:
            if source == target:
                continue
            rate = scenario.link_bytes_s.get((source, target), scenario.default_link_bytes_s)
            values = {
                "AGIS_closeness": max(0, min(10, round(10 - rate / 5e8))),
                "Production Output_queued": 0,
                "dashb_mbps_1h": round(rate / 1e6),
                "dashb_mbps_1d": round(rate / 1e6),
            }
            name, nucleus = site.name, scenario.sites[target].name
            rows += [{"src": name, "dst": nucleus, "key": k, "value": v, "ts": START} for k, v in values.items()]
    return rows


def _pilots(scenario: Scenario) -> list[dict[str, Any]]:
    return [
        {"site": q.name, "flag": "production", "hours": 3, "getjob": 50, "updatejob": 200, "laststart": START,
         "lastmod": START}
        for q in scenario.queues
    ]  # fmt: skip


def _software(scenario: Scenario) -> list[dict[str, Any]]:
    """The tags of each queue: its own document if it has one, else the same everywhere."""
    default = {
        "containers": ["any"],
        "cvmfs": ["atlas", "nightlies"],
        "cmtconfigs": ["x86_64-el9-gcc13-opt"],
        "tags": [],
        "architectures": [{"type": "cpu", "arch": ["x86_64"], "instr": ["avx2"], "vendor": ["any"]}],
    }
    tags = [(q.name, default if q.software is None else q.software) for q in scenario.queues]
    return [{"panda_queue": name, "data": json.dumps(data), "last_update": START} for name, data in tags if data]
