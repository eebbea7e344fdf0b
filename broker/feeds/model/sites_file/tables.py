"""The rows that a declared grid makes, in the shapes that CRIC's documents have in PanDA's tables.

Times of listing stay empty: what is declared has no age. Source: PanDA data model, sites, schedconfig_json, sw_tags,
ddm_endpoint and panda_ddm_relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from broker.feeds.model.cric.endpoints import COLUMNS as ENDPOINT_COLUMNS
from broker.feeds.model.cric.queues import ACTIVE, relation_table
from broker.feeds.model.rows import Key, MappedTable
from broker.feeds.model.rucio.space import COLUMNS as SPACE_COLUMNS, GB
from broker.feeds.model.sites_file.declared import DEFAULTS, Grid, Queue, Site, Slot, Storage
from broker.fetching.documents import Document

SITES = "sites"
"""Name of the file among the documents of feeds."""
OFFLINE = "offline"
INACTIVE = "INACTIVE"
_TB = 10**12
_MB_OF_GB = 1000
_PILOT_LIMITS = {
    "most_waiting": "nQueueLimitWorker",
    "most_pilots": "maxWorkers",
    "most_new": "maxNewWorkersPerCycle",
}
_LAN_AND_WAN = {"read": ("read_lan", "read_wan"), "write": ("write_lan", "write_wan")}


@dataclass(frozen=True)
class Declared:
    """The names of what a file declares, which are kept to know what a later one leaves out."""

    sites: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()

    @classmethod
    def of(cls, grid: Grid) -> Declared:
        """The names in a grid."""
        every = grid.sites.values()
        queues = sorted(name for site in every for name in site.queues)
        return cls(tuple(sorted(grid.sites)), tuple(queues), tuple(sorted(n for site in every for n in site.storage)))

    @classmethod
    def from_json(cls, content: Any) -> Declared:
        """What :meth:`as_json` gave; nothing of what is none."""
        found = content if isinstance(content, dict) else {}
        return cls(*(tuple(map(str, found.get(name) or ())) for name in ("sites", "queues", "endpoints")))

    def as_json(self) -> dict[str, list[str]]:
        """The names as they are kept."""
        return {"sites": list(self.sites), "queues": list(self.queues), "endpoints": list(self.endpoints)}

    def without(self, other: Declared) -> Declared:
        """What is here and not in ``other``."""
        pairs = ((self.sites, other.sites), (self.queues, other.queues), (self.endpoints, other.endpoints))
        return Declared(*(tuple(one for one in mine if one not in theirs) for mine, theirs in pairs))


def declared_tables(grid: Grid) -> list[MappedTable]:
    """All tables that a grid fills; rows of queues, sites and endpoints that it does not name are not meant."""
    queues = dict(_queues(grid))
    site_of = {name: site for site, one in grid.sites.items() for name in one.storage}
    relations = relation_table(Document(queues, SITES), site_of) if queues else None
    tables = [
        _resource_types(grid),
        MappedTable("site", ("site_name",), ("role", "tier_level", "state"), dict(_sites(grid))),
        MappedTable(
            "panda_site",
            ("panda_site_name",),
            ("site_name",),
            {(queue,): (site,) for site, one in grid.sites.items() for queue in one.queues},
        ),
        MappedTable("ddm_endpoint", ("ddm_endpoint_name",), ENDPOINT_COLUMNS, dict(_endpoints(grid))),
        MappedTable("ddm_endpoint", ("ddm_endpoint_name",), SPACE_COLUMNS, dict(_space(grid))),
        MappedTable(
            "schedconfig_json",
            ("panda_queue",),
            ("data", "last_update"),
            dict(_undated(queues)),
        ),
    ]
    if relations is not None:
        about = frozenset((name,) for name in queues)
        tables.append(MappedTable(relations.table, relations.key, relations.columns, relations.rows, about=about))
    tags = {name: _software(queue, grid.defaults) for name, queue in _queues_of(grid)}
    return [*tables, MappedTable("sw_tags", ("panda_queue",), ("data", "last_update"), dict(_undated(tags)))]


def offline_queue(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a row of ``schedconfig_json`` whose queue is declared no more."""
    data, *others = values
    return ({**data, "status": OFFLINE} if isinstance(data, dict) else data, *others)


def closed_endpoint(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a row of ``ddm_endpoint`` whose endpoint is declared no more."""
    return (*values[: ENDPOINT_COLUMNS.index("blacklisted")], *_closed(("read", "write")))


def inactive_site(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a row of ``site`` whose site is declared no more."""
    return (*values[:-1], INACTIVE)


def _undated(documents: Mapping[str, Any]) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    """Documents of queues without a time of listing."""
    return (((name,), (document, None)) for name, document in documents.items())


def _queues_of(grid: Grid) -> Iterator[tuple[str, Queue]]:
    return (pair for site in grid.sites.values() for pair in site.queues.items())


def _is_nucleus(site: Site) -> bool:
    return any(not one.tape for one in site.storage.values()) if site.nucleus is None else site.nucleus


def _sites(grid: Grid) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    for name, site in grid.sites.items():
        nucleus = _is_nucleus(site)
        yield (name,), ("nucleus" if nucleus else "satellite", 1 if nucleus else 2, ACTIVE)


def _endpoints(grid: Grid) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    for site, one in grid.sites.items():
        for name, storage in one.storage.items():
            kind, tape = ("DATATAPE", "Y") if storage.tape else ("DATADISK", "N")
            yield (name,), (site, name, kind, tape, *_closed(storage.closed))


def _closed(activities: Iterable[str]) -> tuple[Any, ...]:
    """``blacklisted``, ``blacklisted_write``, ``blacklisted_read`` and ``detailed_status`` of an endpoint."""
    closed = set(activities)
    write, read = ("Y" if one in closed else "N" for one in ("write", "read"))
    return write, write, read, {name: "OFF" for one in sorted(closed) for name in _LAN_AND_WAN[one]}


def _space(grid: Grid) -> Iterator[tuple[Key, tuple[Any, ...]]]:
    """GB of 2^30 bytes, as PanDA has them; endpoints without figures are left to Rucio."""
    for site in grid.sites.values():
        for name, storage in site.storage.items():
            total, free = _gigabytes(storage, "total_tb"), _gigabytes(storage, "free_tb")
            if total is not None and free is not None:
                yield (name,), (total, free, total - free, 0, 0, 0, None)


def _gigabytes(storage: Storage, field: str) -> int | None:
    value = getattr(storage, field)
    return None if value is None else int(value * _TB / GB)


def _resource_types(grid: Grid) -> MappedTable:
    columns = ("mincore", "maxcore", "minrampercore", "maxrampercore")
    rows: dict[Key, tuple[Any, ...]] = {
        (name,): (*one.cores, *one.memory_mb_per_core) for name, one in grid.resource_types.items()
    }
    return MappedTable("resource_types", ("resource_name",), columns, rows)


def _queues(grid: Grid) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, site in grid.sites.items():
        for queue_name, queue in site.queues.items():
            yield queue_name, _queue(queue_name, queue, (name, site), grid.defaults)


def _queue(name: str, queue: Queue, at: tuple[str, Site], defaults: Slot) -> dict[str, Any]:
    """A queue as CRIC would describe it."""
    site_name, site = at
    place = {key: getattr(site, key) for key in ("latitude", "longitude") if getattr(site, key) is not None}
    cloud = site.cloud or site_name
    return {
        **dict.fromkeys(("panda_resource", "nickname", "siteid"), name),
        **dict.fromkeys(("atlas_site", "site", "rc_site"), site_name),
        **dict.fromkeys(("cloud", "region"), cloud),
        **place,
        "tier_level": 1 if _is_nucleus(site) else 2,
        "state": ACTIVE,
        "status": queue.status,
        "type": queue.type,
        "capability": "ucore",
        "workflow": "pull",
        "jobseed": "std",
        **_limits(queue, defaults),
        "astorages": _astorages(queue, site),
        "acopytools": {"pr": ["rucio"], "pw": ["rucio"]},
        "copytools": {"rucio": {"setup": ""}},
        "container_type": "apptainer:wrapper" if _said("containers", queue, defaults) else "",
        "is_cvmfs": _said("cvmfs", queue, defaults),
        "releases": ["AUTO"],
        "params": {"unified_dispatch": True, **_pilot_limits(queue, defaults)},
        "queues": [{"ce_endpoint": queue.batch.address, "ce_flavour": queue.batch.kind.upper(), "ce_state": ACTIVE}],
        "gpus": [one.model_dump(exclude_none=True) for one in queue.gpus],
    }


def _limits(queue: Queue, defaults: Slot) -> dict[str, Any]:
    return {
        "corecount": _said("cores", queue, defaults),
        "corepower": _said("corepower", queue, defaults),
        "maxtime": round(_said("walltime_h", queue, defaults) * 3600),
        "mintime": 0,
        "maxrss": _said("memory_mb", queue, defaults),
        "minrss": 0,
        "maxwdir": round(_said("scratch_gb", queue, defaults) * _MB_OF_GB),
        "wnconnectivity": _said("connectivity", queue, defaults),
        "direct_access_lan": False,
        "direct_access_wan": False,
    }


def _pilot_limits(queue: Queue, defaults: Slot) -> dict[str, int]:
    """Limits of pilots under the names of Harvester; a queue that says one has the others of the defaults."""
    found = {}
    for field, name in _PILOT_LIMITS.items():
        own, other = getattr(queue.pilots, field), getattr(defaults.pilots, field)
        if (value := other if own is None else own) is not None:
            found[name] = value
    return found


def _said(field: str, queue: Slot, defaults: Slot) -> Any:
    """What the queue says, else the defaults of the file, else ours."""
    found = (getattr(one, field) for one in (queue, defaults, DEFAULTS))
    return next(value for value in found if value is not None)


def _astorages(queue: Queue, site: Site) -> Mapping[str, list[str]]:
    """Which endpoints jobs read from and write to, users' jobs as those of production."""
    disks = [name for name, one in site.storage.items() if not one.tape]
    write = disks if queue.write is None else list(queue.write)
    read = [*disks, *(one for one in site.storage if one not in disks)] if queue.read is None else list(queue.read)
    read = read or write
    return {"read_lan": read, "write_lan": write, "read_lan_analysis": read, "write_lan_analysis": write}


def _software(queue: Queue, defaults: Slot) -> dict[str, Any]:
    """What is published of software and hardware, as in ``sw_tags``."""
    tags = [
        {"cmtconfig": one.platform, "project": one.project, "release": one.release, "sources": [], "container_name": ""}
        for one in queue.tags
    ]
    vendors = sorted({one.vendor.lower() for one in queue.gpus})
    gpu = {
        "type": "gpu",
        "vendor": [*vendors, *(["excl"] if queue.gpu_jobs_only else [])],
        "model": sorted({one.model for one in queue.gpus if one.model is not None}),
    }
    return {
        "cmtconfigs": sorted({*queue.platforms, *(one.platform for one in queue.tags)}),
        "containers": _said("containers", queue, defaults),
        "cvmfs": ["any"] if _said("cvmfs", queue, defaults) else [],
        "architectures": [gpu] if queue.gpus else [],
        "tags": tags,
    }
