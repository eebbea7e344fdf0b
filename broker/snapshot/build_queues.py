"""Build the tables of unified queues, candidates and sites from raw queue rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, Ints, Texts, floats, texts
from broker.domain.queues import ContainerSources, GpuSummary, QueueSoftware, QueueTable, UnifiedTable
from broker.snapshot.queue_rows import QueueRecord
from broker.snapshot.snapshot import ResourceType


@dataclass(frozen=True)
class PseudoQueue:
    """The fields of a pseudo-queue that differ from its parent's."""

    name: str
    resource_type: str
    cores: float
    maxrss_mb: float
    minrss_mb: float


def _least(*values: float) -> float:
    known = [value for value in values if not math.isnan(value)]
    return min(known) if known else math.nan


def _greatest(*values: float) -> float:
    known = [value for value in values if not math.isnan(value)]
    return max(known) if known else math.nan


def pseudo_queues(queue: QueueRecord, resource_types: list[ResourceType]) -> list[PseudoQueue]:
    """The pseudo-queues of a unified queue, one for each resource type whose minimum cores it provides.

    A memory limit that the queue does not publish is left to the resource type; without either there is no limit. If
    the resource type leaves a bound open, the slot's limit is scaled by the cores.
    """
    parent_cores = max(1.0, queue.cores)
    derived = []
    for kind in resource_types:
        if not math.isnan(kind.mincore) and parent_cores < kind.mincore:
            continue
        cores = _greatest(_least(parent_cores, kind.maxcore), kind.mincore)
        share = cores / parent_cores
        if math.isnan(kind.minrampercore_mb):
            minrss = queue.minrss_mb * share
        else:
            minrss = _greatest(cores * kind.minrampercore_mb - cores + 1, queue.minrss_mb * share)
        if math.isnan(kind.maxrampercore_mb):
            maxrss = _least(queue.maxrss_mb * share, queue.maxrss_mb)
        else:
            maxrss = _least(cores * kind.maxrampercore_mb, queue.maxrss_mb * share)
        derived.append(PseudoQueue(f"{queue.name}/{kind.name}", kind.name, cores, maxrss, minrss))
    return derived


@dataclass(frozen=True)
class QueueActivity:
    """Figures of unified queues (length U) from sources other than CRIC."""

    n_pilots: Floats
    laststart_s: Floats
    n_workers: Floats
    average_diskio_kbps: Floats
    software: tuple[QueueSoftware | None, ...]
    container_sources: ContainerSources
    cpu_levels: tuple[dict[str, float], ...]
    gpus: tuple[tuple[GpuSummary, ...], ...]


def tables_of_candidates(records: list[QueueRecord], kinds: list[ResourceType], *of_queues: Any) -> dict[str, Any]:
    """The tables of candidates and unified queues of a snapshot, and the resource types without ``minrampercore``.

    ``of_queues`` are the other arguments of :func:`build_candidates`.
    """
    return {
        "queues": build_candidates(records, kinds, *of_queues),
        "parents": build_candidates(records, kinds, *of_queues, parents=True),
        "resource_types": tuple(kinds),
        "types_without_minrampercore": frozenset(kind.name for kind in kinds if math.isnan(kind.minrampercore_mb)),
    }


def described(records: list[QueueRecord], site_of_queue: dict[str, str]) -> dict[str, Any]:
    """Columns of the table of unified queues that come from CRIC, in the order of ``records``."""
    return {
        "name": texts(record.name for record in records),
        "atlas_site": texts(site_of_queue.get(record.name) for record in records),
        "status": texts(record.status for record in records),
        "type": texts(record.type for record in records),
        "cloud": texts(record.cloud for record in records),
        # a queue without a cloud is not on the map of any
        "runs_production": np.array([record.runs_production and bool(record.cloud) for record in records], np.bool_),
        "runs_analysis": np.array([record.runs_analysis and bool(record.cloud) for record in records], np.bool_),
        "is_unified": np.array([record.is_unified for record in records], dtype=np.bool_),
        "cloudless_analysis": np.array(
            [record.runs_analysis and not record.runs_production and not record.cloud for record in records], np.bool_
        ),
        "is_test": np.array(["test" in record.name.lower() for record in records], dtype=np.bool_),
        "releases": tuple(record.releases for record in records),
    }


def build_unified(described: Mapping[str, Any], activity: QueueActivity) -> UnifiedTable:
    """Build the table of unified queues from CRIC's description and the measured values."""
    return UnifiedTable(
        **described,
        n_pilots=activity.n_pilots,
        laststart_s=activity.laststart_s,
        n_workers=activity.n_workers,
        average_diskio_kbps=activity.average_diskio_kbps,
        software=activity.software,
        cpu_levels=activity.cpu_levels,
        gpus=activity.gpus,
        container_sources=activity.container_sources,
    )


#: Columns of QueueTable taken from the unified queue, with the same name in its record.
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
    "space_gb",
)
_WORDS = (
    "status",
    "type",
    "capability",
    "workflow",
    "fairsharepolicy",
    "connectivity",
    "ip_stack",
    "jobseed",
    "allowed_processing",
    "excluded_processing",
)
_BITS = ("direct_access_lan", "direct_access_wan", "is_cvmfs", "use_jumbo", "use_only_local_data", "allow_no_pilot")
#: Columns with values of the pseudo-queue itself.
_OWN = ("cores", "maxrss_mb", "minrss_mb")


def build_candidates(
    records: list[QueueRecord],
    kinds: list[ResourceType],
    nucleus_of_unified: Ints,
    outputs: Ints,
    storage_site_of_unified: Ints,
    shutdown_of_unified: Floats,
    site_of_unified: Texts,
    *,
    parents: bool = False,
) -> QueueTable:
    """The candidates by name: pseudo-queues of unified queues, and the queues that are not unified.

    With ``parents``, the unified queues themselves, which are not candidates.
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
        atlas_site=site_of_unified[unified],
        **columns,
    )


def _values(records: list[QueueRecord], name: str, dtype: type[np.float64] | type[np.bool_] | type[np.int64]) -> Any:
    return np.array([getattr(record, name) for record in records], dtype=dtype)


def _own(own: list[PseudoQueue | None], name: str, parent: Floats) -> Floats:
    mine = floats(math.nan if pseudo is None else getattr(pseudo, name) for pseudo in own)
    is_pseudo = np.array([pseudo is not None for pseudo in own], dtype=np.bool_)
    return np.where(is_pseudo, mine, parent)
