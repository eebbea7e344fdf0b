"""Raw queue rows to the tables of unified queues, candidates and sites."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, Ints, floats, texts
from broker.domain.grid import NucleusTable, RelationTable
from broker.domain.queues import QueueTable, UnifiedTable
from broker.domain.software import ContainerSources, GpuSummary, QueueSoftware
from broker.domain.work import DroppedRow
from broker.snapshot.build_pins import NO_PINS, Pinned
from broker.snapshot.pseudo_queues import PseudoQueue, ResourceType, pseudo_queues
from broker.snapshot.queue_rows import QueueRecord, read_queue
from broker.snapshot.raw import RawSource
from broker.snapshot.readings import BadValueError, name, number, text


@dataclass(frozen=True)
class QueueActivity:
    """Figures of unified queues (length U) that come from other sources than CRIC."""

    n_pilots: Floats
    laststart_s: Floats
    n_workers: Floats
    average_diskio_kbps: Floats
    software: tuple[QueueSoftware | None, ...]
    container_sources: ContainerSources
    cpu_levels: tuple[dict[str, float], ...]
    gpus: tuple[tuple[GpuSummary, ...], ...]


def read_queues(source: RawSource, dropped_rows: list[DroppedRow], pinned: Pinned = NO_PINS) -> list[QueueRecord]:
    """The usable queues by name; row ``ALL`` and rows without data are none, a second row of a name is left out.

    ``pinned``: fields that operators hold, by queue.
    """
    records: dict[str, QueueRecord] = {}
    # sorted, so that of two rows of one name the same is used whatever the order of reading
    for row in sorted(source.rows("schedconfig_json").records(), key=lambda row: str(row["panda_queue"])):
        if row["panda_queue"] == "ALL" or row["data"] is None:
            continue
        try:
            record = read_queue(row["panda_queue"], row["data"], pinned)
            if record.name in records:
                raise BadValueError("duplicate", "nickname", record.name)
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("queues", str(row["panda_queue"])[:80], bad.code, str(bad)))
            continue
        dropped_rows.extend(DroppedRow("queues", record.name, "defaulted", fault) for fault in record.faults)
        records[record.name] = record
    return [records[key] for key in sorted(records)]


def read_resource_types(source: RawSource, dropped_rows: list[DroppedRow]) -> list[ResourceType]:
    """The resource types by name."""
    kinds: dict[str, ResourceType] = {}
    for row in source.rows("resource_types").records():
        try:
            kind = ResourceType(
                name(row["resource_name"], "resource_name"),
                number(row["mincore"], "mincore"),
                number(row["maxcore"], "maxcore"),
                number(row["minrampercore"], "minrampercore"),
                number(row["maxrampercore"], "maxrampercore"),
            )
            if kind.name in kinds:
                raise BadValueError("duplicate", "resource_name", kind.name)
            kinds[kind.name] = kind
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("resource_types", str(row["resource_name"])[:80], bad.code, str(bad)))
    return [kinds[key] for key in sorted(kinds)]


def tables_of_candidates(records: list[QueueRecord], kinds: list[ResourceType], *of_queues: Any) -> dict[str, Any]:
    """The candidates, the unified queues behind them, and the types without ``minrampercore``, as a snapshot has them.

    ``of_queues`` are the other arguments of :func:`build_candidates`.
    """
    return {
        "queues": build_candidates(records, kinds, *of_queues),
        "parents": build_candidates(records, kinds, *of_queues, parents=True),
        "types_without_minrampercore": frozenset(kind.name for kind in kinds if math.isnan(kind.minrampercore_mb)),
    }


def read_sites(
    source: RawSource, dropped_rows: list[DroppedRow]
) -> tuple[dict[str, str], dict[str, tuple[str | None, str | None]]]:
    """Queue to ATLAS site, and ATLAS site to (role, state)."""
    site_of_queue = {
        row["panda_site_name"]: row["site_name"]
        for row in source.rows("panda_site").records()
        if row["panda_site_name"] and row["site_name"]
    }
    sites: dict[str, tuple[str | None, str | None]] = {}
    for row in source.rows("site").records():
        try:
            sites[name(row["site_name"], "site_name")] = (text(row["role"], "role"), text(row["state"], "state"))
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("queues", str(row["site_name"])[:80], bad.code, str(bad)))
    return site_of_queue, sites


def build_unified(records: list[QueueRecord], site_of_queue: dict[str, str], activity: QueueActivity) -> UnifiedTable:
    """The table of unified queues, in the order of ``records``."""
    return UnifiedTable(
        name=texts(record.name for record in records),
        atlas_site=texts(site_of_queue.get(record.name) for record in records),
        status=texts(record.status for record in records),
        type=texts(record.type for record in records),
        cloud=texts(record.cloud for record in records),
        # a production queue without a cloud is not on the map of any
        runs_production=np.array([record.runs_production and bool(record.cloud) for record in records], dtype=np.bool_),
        runs_analysis=np.array([record.runs_analysis for record in records], dtype=np.bool_),
        is_unified=np.array([record.is_unified for record in records], dtype=np.bool_),
        is_test=np.array(["test" in record.name.lower() for record in records], dtype=np.bool_),
        n_pilots=activity.n_pilots,
        laststart_s=activity.laststart_s,
        n_workers=activity.n_workers,
        average_diskio_kbps=activity.average_diskio_kbps,
        releases=tuple(record.releases for record in records),
        software=activity.software,
        cpu_levels=activity.cpu_levels,
        gpus=activity.gpus,
        container_sources=activity.container_sources,
    )


def default_outputs(relations: RelationTable, unified: int) -> Ints:
    """(U,): the default output endpoint of each unified queue in scope default, -1 if it has none."""
    result = np.full(unified, -1, dtype=np.int64)
    wanted = relations.default_write & relations.is_output & (relations.scope == "default")
    result[relations.unified[wanted]] = relations.storage[wanted]
    return result


def build_nuclei(
    records: list[QueueRecord],
    site_of_queue: dict[str, str],
    sites: dict[str, tuple[str | None, str | None]],
    outputs: Ints,
) -> NucleusTable:
    """Nuclei and satellites: ATLAS sites with at least one production queue; attributes of the first queue by name."""
    first: dict[str, int] = {}
    for index, record in enumerate(records):
        site = site_of_queue.get(record.name)
        if site is None or not record.runs_production or not record.cloud:
            continue
        if sites.get(site, (None, None))[0] in ("nucleus", "satellite"):
            first.setdefault(site, index)
    names = sorted(first)
    return NucleusTable(
        name=texts(names),
        is_nucleus=np.array([sites[site][0] == "nucleus" for site in names], dtype=np.bool_),
        # CRIC sites that are not ACTIVE never reach the table, so an unset state is an active one
        state=texts(sites[site][1] or "ACTIVE" for site in names),
        bare=np.array([records[first[site]].bare_nucleus for site in names], dtype=np.int64),
        secondary=texts(records[first[site]].secondary_nucleus for site in names),
        output_storage=np.array([outputs[first[site]] for site in names], dtype=np.int64),
        first_unified=np.array([first[site] for site in names], dtype=np.int64),
    )


#: Columns of QueueTable that are the unified queue's, under the same name in its record.
_NUMBERS = (
    "corepower",
    "maxtime_s",
    "mintime_s",
    "maxwdir_mb",
    "maxinputsize_mb",
    "pledgedcpu",
    "transferringlimit",
    "maxdiskio_kbps",
    "min_events_for_jumbo",
    "max_io_intensity",
    "job_chunk_size",
)
_WORDS = ("status", "type", "capability", "workflow", "fairsharepolicy", "connectivity", "ip_stack", "jobseed")
_BITS = ("direct_access_lan", "direct_access_wan", "is_cvmfs", "use_jumbo", "use_only_local_data")
#: Columns that a pseudo-queue has of its own.
_OWN = ("cores", "maxrss_mb", "minrss_mb")


def build_candidates(
    records: list[QueueRecord],
    kinds: list[ResourceType],
    nucleus_of_unified: Ints,
    outputs: Ints,
    storage_site_of_unified: Ints,
    shutdown_of_unified: Floats,
    *,
    parents: bool = False,
) -> QueueTable:
    """The candidates by name: pseudo-queues of unified queues, and the queues that are not unified.

    With ``parents`` the unified queues themselves, which are no candidates.
    """
    rows: list[tuple[str, int, PseudoQueue | None]] = []
    for index, record in enumerate(records):
        if parents:
            rows.extend([(record.name, index, None)] if record.is_unified else [])
        elif record.is_unified:
            rows.extend((pseudo.name, index, pseudo) for pseudo in pseudo_queues(record, kinds))
        else:
            rows.append((record.name, index, None))
    rows.sort(key=lambda row: row[0])
    unified = np.array([row[1] for row in rows], dtype=np.int64)
    own = [row[2] for row in rows]
    columns: dict[str, Any] = {name: _values(records, name, np.float64)[unified] for name in _NUMBERS}
    columns |= {name: texts(getattr(record, name) for record in records)[unified] for name in _WORDS}
    columns |= {name: _values(records, name, np.bool_)[unified] for name in _BITS}
    columns |= {name: _own(own, name, _values(records, name, np.float64)[unified]) for name in _OWN}
    return QueueTable(
        name=texts(row[0] for row in rows),
        unified_name=texts(record.name for record in records)[unified],
        unified=unified,
        resource_type=texts(None if pseudo is None else pseudo.resource_type for pseudo in own),
        nucleus=nucleus_of_unified[unified],
        storage_site=storage_site_of_unified[unified],
        output_storage=outputs[unified],
        unified_cores=_values(records, "cores", np.float64)[unified],
        bare_nucleus=_values(records, "bare_nucleus", np.int64)[unified],
        shutdown_s=shutdown_of_unified[unified],
        **columns,
    )


def _values(records: list[QueueRecord], name: str, dtype: type[np.float64] | type[np.bool_] | type[np.int64]) -> Any:
    return np.array([getattr(record, name) for record in records], dtype=dtype)


def _own(own: list[PseudoQueue | None], name: str, parent: Floats) -> Floats:
    mine = floats(math.nan if pseudo is None else getattr(pseudo, name) for pseudo in own)
    is_pseudo = np.array([pseudo is not None for pseudo in own], dtype=np.bool_)
    return np.where(is_pseudo, mine, parent)
