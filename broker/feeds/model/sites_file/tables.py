"""Map a declared grid to rows, in the shapes that CRIC's documents have in PanDA's tables.

Times of listing stay empty: declarations do not age. Source: PanDA data model, sites, schedconfig_json, sw_tags,
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
    """The names that a file declares, stored to find out what a later file leaves out."""

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
        """Restore the names from the output of :meth:`as_json`; no names from other content."""
        lists = content if isinstance(content, dict) else {}
        return cls(*(tuple(map(str, lists.get(name) or ())) for name in ("sites", "queues", "endpoints")))

    def as_json(self) -> dict[str, list[str]]:
        """The names as they are stored."""
        return {"sites": list(self.sites), "queues": list(self.queues), "endpoints": list(self.endpoints)}

    def without(self, other: Declared) -> Declared:
        """The names that are not in ``other``."""
        pairs = ((self.sites, other.sites), (self.queues, other.queues), (self.endpoints, other.endpoints))
        return Declared(*(tuple(one for one in mine if one not in theirs) for mine, theirs in pairs))


def declared_tables(grid: Grid) -> list[MappedTable]:
    """Build all tables that a grid fills; they do not cover queues, sites and endpoints that it does not name."""
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
    """The values of a row of ``schedconfig_json`` whose queue is no longer declared."""
    data, *others = values
    return ({**data, "status": OFFLINE} if isinstance(data, dict) else data, *others)


def closed_endpoint(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a row of ``ddm_endpoint`` whose endpoint is no longer declared."""
    return (*values[: ENDPOINT_COLUMNS.index("blacklisted")], *_closed(("read", "write")))


def inactive_site(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a row of ``site`` whose site is no longer declared."""
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


def _queue(name: str, queue: Queue, named_site: tuple[str, Site], defaults: Slot) -> dict[str, Any]:
    """A queue as CRIC would describe it."""
    site_name, site = named_site
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
        "container_type": "apptainer:wrapper" if _setting("containers", queue, defaults) else "",
        "is_cvmfs": _setting("cvmfs", queue, defaults),
        "releases": ["AUTO"],
        "params": {"unified_dispatch": True, **_pilot_limits(queue, defaults)},
        "queues": [{"ce_endpoint": queue.batch.address, "ce_flavour": queue.batch.kind.upper(), "ce_state": ACTIVE}],
        "gpus": [one.model_dump(exclude_none=True) for one in queue.gpus],
    }


def _limits(queue: Queue, defaults: Slot) -> dict[str, Any]:
    return {
        "corecount": _setting("cores", queue, defaults),
        "corepower": _setting("corepower", queue, defaults),
        "maxtime": round(_setting("walltime_h", queue, defaults) * 3600),
        "mintime": 0,
        "maxrss": _setting("memory_mb", queue, defaults),
        "minrss": 0,
        "maxwdir": round(_setting("scratch_gb", queue, defaults) * _MB_OF_GB),
        "wnconnectivity": _setting("connectivity", queue, defaults),
        "direct_access_lan": False,
        "direct_access_wan": False,
    }


def _pilot_limits(queue: Queue, defaults: Slot) -> dict[str, int]:
    """Limits of pilots under Harvester's names; limits that a queue does not set come from the defaults."""
    limits = {}
    for field, name in _PILOT_LIMITS.items():
        own, default = getattr(queue.pilots, field), getattr(defaults.pilots, field)
        if (value := default if own is None else own) is not None:
            limits[name] = value
    return limits


def _setting(field: str, queue: Slot, defaults: Slot) -> Any:
    """The value of the queue, else of the file's defaults, else of ours."""
    values = (getattr(source, field) for source in (queue, defaults, DEFAULTS))
    return next(value for value in values if value is not None)


def _astorages(queue: Queue, site: Site) -> Mapping[str, list[str]]:
    """The endpoints that jobs read from and write to, the same for users' jobs as for production."""
    disks = [name for name, one in site.storage.items() if not one.tape]
    write = disks if queue.write is None else list(queue.write)
    read = [*disks, *(one for one in site.storage if one not in disks)] if queue.read is None else list(queue.read)
    read = read or write
    return {"read_lan": read, "write_lan": write, "read_lan_analysis": read, "write_lan_analysis": write}


def _software(queue: Queue, defaults: Slot) -> dict[str, Any]:
    """The published software and hardware, as in ``sw_tags``."""
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
        "containers": _setting("containers", queue, defaults),
        "cvmfs": ["any"] if _setting("cvmfs", queue, defaults) else [],
        "architectures": [gpu] if queue.gpus else [],
        "tags": tags,
    }
