"""A synthetic grid in the document formats of CRIC, Rucio, network metrics and Harvester.

Everything follows from the numbers of queues and endpoints: two grids of the same size are equal. No name belongs to a
real site. Source of the document formats: CRIC, Rucio and PanDA's configurator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Json = dict[str, Any]

_TB = 10**12
_CLOUDS = ("NORTH", "EAST", "SOUTH", "WEST")
_TYPES = ("DATADISK", "SCRATCHDISK", "LOCALGROUPDISK", "DATATAPE")
_ACTIVITIES = ("Production Input", "Production Output", "Express")
#: Intervals at which queues are in test or offline and sites are nuclei, so that each state occurs.
_TEST_EVERY, _OFFLINE_EVERY, _NUCLEUS_EVERY = 17, 23, 4


@dataclass(frozen=True)
class GridSize:
    """The size of a grid: queues, queues of each site, and endpoints of each site (1 to 4)."""

    queues: int = 200
    queues_of_a_site: int = 2
    endpoints_of_a_site: int = 3

    @property
    def sites(self) -> int:
        """Number of sites."""
        return -(-self.queues // self.queues_of_a_site)

    def site_of(self, queue: int) -> int:
        """The site of a queue."""
        return queue // self.queues_of_a_site


def site_name(number: int) -> str:
    """Name of a site."""
    return f"SITE-{number:04d}"


def queue_name(number: int) -> str:
    """Name of a queue."""
    return f"QUEUE_{number:04d}"


def endpoint_name(site: int, kind: int) -> str:
    """Name of an endpoint of a site."""
    return f"SITE-{site:04d}_{_TYPES[kind]}"


def cric_documents(size: GridSize, now: datetime) -> dict[str, Any]:
    """All documents of CRIC by name."""
    sites = range(size.sites)
    kinds = range(size.endpoints_of_a_site)
    return {
        "queues": {queue_name(number): _queue(size, number, now) for number in range(size.queues)},
        "tags": {queue_name(number): _tags() for number in range(size.queues)} | {"ALL": _tags()},
        "sites": {site_name(site): _site(size, site) for site in sites},
        "endpoints": {endpoint_name(site, kind): _endpoint(site, kind) for site in sites for kind in kinds},
        "closed_write": {endpoint_name(0, 0): {"write_wan": {"status": {"value": "OFF"}}}},
        "closed_read": [endpoint_name(1, 0)] if size.sites > 1 else [],
        "endpoint_states": {endpoint_name(0, 0): {"write_wan": {"status": {"value": "OFF", "reason": "full"}}}},
        "closeness": [
            {
                "src": site_name(one),
                "dst": site_name(other),
                "closeness": (abs(one - other)) % 12 if one != other else 0,
            }
            for one in range(min(size.sites, 60))
            for other in range(min(size.sites, 60))
        ],
    }


def rse_usage(size: GridSize, now: datetime) -> Json:
    """Rucio's dump of usage by endpoint."""
    stamp = (now - timedelta(minutes=10)).strftime("%Y-%m-%d %H:%M:%S")
    return {
        endpoint_name(site, kind): {
            "storage": {"used": (300 + site) * _TB, "free": (500 + site % 7 * 50) * _TB, "updated_at": stamp},
            "expired": {"used": 20 * _TB},
            "min_free_space": {"used": 10 * _TB},
            "unavailable": {"used": _TB},
        }
        for site in range(size.sites)
        for kind in range(size.endpoints_of_a_site)
    }


def network_metrics(size: GridSize, now: datetime) -> Json:
    """Network metrics of the links between the first sites."""
    stamp = (now - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%S")
    few = range(min(size.sites, 40))
    return {
        f"{site_name(one)}:{site_name(other)}": _link(one, other, stamp) for one in few for other in few if one != other
    }


def worker_reports(size: GridSize) -> list[Json]:
    """Harvester's reports on the workers of each queue."""
    return [
        {
            "harvester_id": f"harvester_{number % 3}",
            "panda_queue": queue_name(number),
            "statistics": {
                "managed": {
                    "SCORE": {"running": 20 + number % 30, "submitted": 5},
                    "MCORE": {"running": 40, "submitted": 10 + number % 5},
                    "Undefined": {"running": 1},
                }
            },
        }
        for number in range(size.queues)
    ]


def _link(one: int, other: int, stamp: str) -> Json:
    return {
        "files": {
            "done": {
                activity: {"1h": one + other, "6h": 6 * (one + other), "timestamp": stamp} for activity in _ACTIVITIES
            },
            "queued": {activity: {"latest": (one * other) % 50, "timestamp": stamp} for activity in _ACTIVITIES},
        },
        "mbps": {
            "dashb": {"1h": 10.4 + one, "1d": 9.6 + one, "1w": 8.0, "timestamp": stamp},
            "perfsonar": {"1d": 100, "timestamp": stamp},
        },
    }


def _site(size: GridSize, site: int) -> Json:
    nucleus = site % _NUCLEUS_EVERY == 0
    first = site * size.queues_of_a_site
    own = range(first, min(first + size.queues_of_a_site, size.queues))
    return {
        "state": "ACTIVE",
        "tier_level": 1 if nucleus else 2,
        "datapolicies": ["Nucleus"] if nucleus else ["T2D"],
        "ddmendpoints": {endpoint_name(site, kind): {"state": "ACTIVE"} for kind in range(size.endpoints_of_a_site)},
        "presources": {f"{site_name(site)}-CE": {queue_name(number): {"state": "ACTIVE"} for number in own}},
        "cloud": _CLOUDS[site % len(_CLOUDS)],
        "country": "Nowhere",
    }


def _endpoint(site: int, kind: int) -> Json:
    return {
        "state": "ACTIVE",
        "token": f"ATLAS{_TYPES[kind]}",
        "site": site_name(site),
        "type": _TYPES[kind],
        "is_tape": _TYPES[kind].endswith("TAPE"),
        "rc_site": site_name(site),
    }


def _storages(size: GridSize, site: int) -> Json:
    disk = [endpoint_name(site, kind) for kind in range(min(2, size.endpoints_of_a_site))]
    return {
        "read_lan": [endpoint_name(site, kind) for kind in range(size.endpoints_of_a_site)],
        "write_lan": disk[:1],
        "read_lan_analysis": disk,
        "write_lan_analysis": disk[-1:],
        "pr": disk,
        "pw": disk[:1],
    }


def _status(number: int) -> str:
    if number % _TEST_EVERY == _TEST_EVERY - 1:
        return "test"
    return "brokeroff" if number % _OFFLINE_EVERY == _OFFLINE_EVERY - 1 else "online"


def _queue(size: GridSize, number: int, now: datetime) -> Json:
    site = size.site_of(number)
    name, cloud = queue_name(number), _CLOUDS[site % len(_CLOUDS)]
    changed = now.strftime("%Y-%m-%dT%H:%M:%S")
    identity = {"panda_resource": name, "nickname": name, "siteid": name, "atlas_site": site_name(site)}
    place: Mapping[str, Any] = {
        "site": site_name(site),
        "cloud": cloud,
        "region": cloud,
        "rc_site": site_name(site),
        "rc_country": "Nowhere",
        "tier_level": 1 if site % _NUCLEUS_EVERY == 0 else 2,
        "tier": "T2D",
        "parent": "PARENT",
        "is_virtual": False,
    }
    return {
        **identity,
        **place,
        "status": _status(number),
        "state": "ACTIVE",
        "last_modified": changed,
        "state_update": changed,
        "astorages": _storages(size, site),
        **_limits(number),
        **_technical(name),
    }


def _limits(number: int) -> Json:
    return {
        "type": "unified",
        "capability": "ucore",
        "resource_type": "GRID",
        "corecount": 8,
        "corepower": 10.0 + number % 9,
        "coreenergy": 10.0,
        "maxtime": 345_600,
        "mintime": 0,
        "maxrss": 48_000,
        "minrss": 0,
        "meanrss": 2000,
        "maxwdir": 160_000,
        "maxinputsize": 60_000,
        "maxdiskio": 5000,
        "timefloor": 60,
        "transferringlimit": 4000,
        "nodes": 0,
        "pledgedcpu": None,
        "fairsharepolicy": None,
        "jobseed": "std",
    }


def _technical(name: str) -> Json:
    return {
        "wnconnectivity": "full#IPv4",
        "direct_access_lan": True,
        "direct_access_wan": False,
        "allow_lan": True,
        "allow_wan": False,
        "container_type": "apptainer:wrapper",
        "container_options": "",
        "catchall": "",
        "is_cvmfs": True,
        "releases": ["AUTO"],
        "validatedreleases": "",
        "params": {"unified_dispatch": True},
        "uconfig": {"resource_type_limits": {"SCORE_HIMEM": 500}},
        "uconfig_data": {"resource_type_limits": {"scope": "PARENT"}},
        "acopytools": {"pr": ["rucio"], "pw": ["rucio"]},
        "copytools": {"rucio": {"setup": ""}},
        "harvester": "harvester_0",
        "workflow": "pull_ups",
        "queues": [
            {"ce_endpoint": f"ce.{name.lower()}.example.org:9619", "ce_flavour": "HTCONDOR-CE", "ce_state": "ACTIVE"}
        ],
    }


def _tags() -> Json:
    architecture = {"arch": ["x86_64"], "instr": ["avx2"], "type": "cpu", "vendor": ["any"], "model": ["any"]}
    tag = {
        "cmtconfig": "x86_64-el9-gcc13-opt",
        "container_name": "",
        "project": "Athena",
        "release": "24.0.30",
        "sources": [],
        "tag": "VO-atlas-Athena-24.0.30-x86_64-el9-gcc13-opt",
    }
    return {
        "cmtconfigs": ["x86_64-el9-gcc13-opt"],
        "containers": ["any"],
        "cvmfs": ["atlas"],
        "architectures": [architecture],
        "tags": [tag],
    }
