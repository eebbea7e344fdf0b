"""Facts of a block of chunks against all candidates, gathered from the snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Texts, distinct
from broker.domain.asked_places import parse_asked_places
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.software import QueueOffer, SoftwareOffers
from broker.domain.work import WorkTable
from broker.engine.count_facts import (
    preferred_cpus,
    running_cores,
    running_equivalent,
    slots_of,
    transferring,
)
from broker.engine.data_facts import DataFacts
from broker.engine.nucleus_facts import NucleusFigures, nucleus_facts, nucleus_figures
from broker.snapshot.snapshot import Snapshot

#: Source: ATLAS Production Job Brokerage, urgent tasks.
URGENT_PRIORITY = 1000.0
#: Event-service tasks from this priority on count as high. Source: PanDA production brokerage, derived values.
ES_HIGH_PRIORITY = 900.0
DATADISK = "DATADISK"
HS06_UNITS = frozenset(unit + suffix for unit in ("HS06sPerEvent", "mHS06sPerEvent") for suffix in ("", "Fixed"))


@dataclass(frozen=True)
class GridFacts:
    """What is the same for every chunk of a cycle: figures by candidate, (1, Q) or (Q,)."""

    snapshot: Snapshot
    queues: QueueTable  # columns (Q,)
    software: SoftwareOffers
    by_nucleus: NucleusFigures
    storage_known: Bools
    all_running: Floats
    all_activated: Floats
    transferring: Floats
    n_workers: Floats
    n_pilots: Floats
    laststart_s: Floats
    average_diskio_kbps: Floats
    space_free_gb: Floats
    can_read: Bools
    can_write: Bools
    any_receives: Bools
    any_sends: Bools


def grid_facts(snapshot: Snapshot) -> GridFacts:
    """The facts that do not depend on the work."""
    queues, unified = snapshot.queues, snapshot.queues.unified
    storages = snapshot.storages
    known = queues.output_storage >= 0
    free = np.full(len(queues), np.nan)
    free[known] = np.nan_to_num(storages.space_free_gb[queues.output_storage[known]], nan=0.0)
    by_queue = {
        name: _any_endpoint(snapshot, inputs, activity)[unified]
        for name, inputs, activity in (
            ("can_read", True, storages.read_lan),
            ("can_write", False, storages.write_lan),
            ("any_receives", True, storages.write_wan),
            ("any_sends", False, storages.read_wan),
        )
    }
    totals = snapshot.jobs.total[unified]
    return GridFacts(
        snapshot=snapshot,
        queues=queues,
        software=software_offers(snapshot),
        by_nucleus=nucleus_figures(snapshot),
        storage_known=known[None, :],
        all_running=totals[None, :, 4],
        all_activated=totals[None, :, 2],
        transferring=transferring(snapshot)[unified][None, :],
        n_workers=snapshot.unified.n_workers[unified][None, :],
        n_pilots=snapshot.unified.n_pilots[unified][None, :],
        laststart_s=snapshot.unified.laststart_s[unified][None, :],
        average_diskio_kbps=snapshot.unified.average_diskio_kbps[unified][None, :],
        space_free_gb=free[None, :],
        **{name: flags[None, :] for name, flags in by_queue.items()},
    )


def software_offers(snapshot: Snapshot) -> SoftwareOffers:
    """What each unified queue offers of software and hardware."""
    unified = snapshot.unified
    columns = zip(unified.name, unified.releases, unified.software, unified.gpus, strict=True)
    offers = tuple(QueueOffer(str(name), releases, tags, gpus) for name, releases, tags, gpus in columns)
    return SoftwareOffers(offers, unified.container_sources, not snapshot.unusable(("gpus",)))


def _any_endpoint(snapshot: Snapshot, inputs: bool, activity: Bools) -> Bools:
    """(U,): the queue has some DATADISK endpoint in scope default for which the activity is on."""
    relations = snapshot.relations
    result = np.zeros(len(snapshot.unified), dtype=np.bool_)
    role = relations.is_input if inputs else relations.is_output
    wanted = role & (relations.scope == "default")
    if len(snapshot.storages):
        wanted &= (snapshot.storages.type == DATADISK)[relations.storage] & activity[relations.storage]
    result[relations.unified[wanted]] = True
    return result


def preassignment(work: WorkTable, grid: GridFacts) -> tuple[Bools, Bools, Bools, list[tuple[str, ...]]]:
    """Initial candidates (T, Q), single and listed flags (T,), and the names of each chunk that are no queue.

    A pre-assigned unified queue stands for its pseudo-queues. Queues with "test" in the name are candidates only when
    named. A merge goes near its unmerged files unless that has failed for a day.
    Source: ATLAS Production Job Brokerage, preliminary candidates.
    """
    snapshot, queues = grid.snapshot, grid.queues
    everyone = snapshot.unified.runs_production & ~snapshot.unified.is_test
    initial = np.repeat(everyone[queues.unified][None, :], len(work), axis=0)
    single, listed = np.zeros(len(work), dtype=np.bool_), np.zeros(len(work), dtype=np.bool_)
    unknown: list[tuple[str, ...]] = [()] * len(work)
    able = snapshot.unified.runs_production[queues.unified]
    cache: dict[tuple[str, bool], tuple[Bools, tuple[str, ...]]] = {}
    now_s = snapshot.now_s
    for row in range(len(work)):
        key = _named_queues(work, row, now_s)
        if key is None:
            continue
        if key not in cache:
            cache[key] = _named_mask(snapshot, queues, able, *key)
        initial[row], unknown[row] = cache[key]
        single[row] = not key[1] and int(initial[row].sum()) <= 1
        listed[row] = not single[row]
    return initial, single, listed, unknown


def _named_queues(work: WorkTable, row: int, now_s: float) -> tuple[str, bool] | None:
    site, master_site = work.site[row], work.master_site[row]
    if site and not master_site:
        return site, False
    if master_site and not _merge_timed_out(work, row, now_s):
        return master_site, True
    return None


#: A merge stays near its unmerged files for this long. Source: ATLAS Production Job Brokerage, preliminary candidates.
MERGE_PREASSIGNMENT_S = 24 * 3600.0


def _merge_timed_out(work: WorkTable, row: int, now_s: float) -> bool:
    created, modified = work.master_creationtime_s[row], work.master_modificationtime_s[row]
    touched = modified == modified and created == created and modified != created
    failing = work.frozentime_s[row] == work.frozentime_s[row]
    return bool(touched and failing and now_s - modified > MERGE_PREASSIGNMENT_S)


def _named_mask(
    snapshot: Snapshot, queues: QueueTable, able: Bools, names: str, near_storage: bool
) -> tuple[Bools, tuple[str, ...]]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    position = {str(name): index for index, name in enumerate(snapshot.unified.name)}
    mask = np.isin(queues.name, wanted) | np.isin(queues.unified_name, wanted)
    if near_storage:
        for name in wanted:
            if name in position:
                mask |= _near(snapshot, position[name])[queues.unified]
    # a queue that runs no production is none that a task can name
    usable = set(queues.name[able]) | set(queues.unified_name[able])
    return mask & able, tuple(name for name in wanted if name not in usable)


def _near(snapshot: Snapshot, queue: int) -> Bools:
    """(U,): online queues that read the default output endpoint of a queue."""
    relations = snapshot.relations
    outputs = relations.default_write & relations.is_output & (relations.scope == "default")
    output = relations.storage[outputs & (relations.unified == queue)]
    near = np.zeros(len(snapshot.unified), dtype=np.bool_)
    readers = relations.is_input & (relations.scope == "default") & np.isin(relations.storage, output)
    near[relations.unified[readers]] = True
    return np.asarray(near & (snapshot.unified.status == "online"))


@dataclass(frozen=True)
class CycleFacts:
    """Facts of all chunks of a cycle that are cheap to keep: (T,) and (T, Q) of bits.

    ``hint``: the task brokerage asks. There is no nucleus yet, and every queue counts as one of it.
    """

    initial: Bools
    single: Bools
    listed: Bools
    unknown_queues: list[tuple[str, ...]]
    tag: Texts
    nucleus: Ints  # (T,) index into NucleusTable, -1 unknown or none
    hint: bool = False


def job_facts(
    work: WorkTable, rows: slice, cycle: CycleFacts, counts: Floats, grid: GridFacts, data: DataFacts
) -> JobFacts:
    """Facts of the chunks ``rows``; ``counts`` are those of ``counts_by_status`` for them, all else is of the cycle."""
    snapshot, queues = grid.snapshot, grid.queues
    priority = work.currentpriority[rows]
    express = (work.processingtype[rows] == "urgent") | (priority >= URGENT_PRIORITY)
    # 1 is event service, 2 job cloning; the split rule says which of the two a value means
    event_service = np.isin(work.eventservice[rows], (1.0, 2.0)) & ~work.job_cloning[rows]
    es_high = event_service & ((priority >= ES_HIGH_PRIORITY) | work.scout[rows])
    defined, assigned, activated, starting, running = counts[:5]
    slots = slots_of(snapshot, cycle.tag[rows], work.resource_type[rows])[:, queues.unified]
    nucleus = nucleus_facts(grid.by_nucleus, cycle.nucleus[rows], express)
    if cycle.hint:
        nucleus["at_nucleus"] = np.ones_like(nucleus["at_nucleus"])
    return JobFacts(
        now_s=snapshot.now_s,
        software=grid.software,
        initial=cycle.initial[rows],
        single=cycle.single[rows, None],
        listed=cycle.listed[rows, None],
        **_admitted(snapshot, work.asked_places[rows]),
        express=express[:, None],
        event_service=event_service[:, None],
        es_high=es_high[:, None],
        walltime_undefined=_walltime_undefined(work, rows)[:, None],
        tag=cycle.tag[rows, None],
        **nucleus,
        storage_known=grid.storage_known,
        defined=defined,
        assigned=assigned,
        activated=activated,
        starting=starting,
        running=running,
        running_equivalent=running_equivalent(running, starting, grid.n_workers, slots, queues.cores[None, :]),
        all_running=grid.all_running,
        all_activated=grid.all_activated,
        transferring=grid.transferring,
        running_cores=running_cores_at(grid, work, rows),
        n_pilots=grid.n_pilots,
        laststart_s=grid.laststart_s,
        average_diskio_kbps=grid.average_diskio_kbps,
        preferred_cpu_percent=preferred_cpus(snapshot, work.architecture[rows])[:, queues.unified],
        has_slots=~np.isnan(slots),
        space_free_gb=grid.space_free_gb,
        can_read=grid.can_read,
        can_write=grid.can_write,
        **_data_of(work, rows, nucleus["at_nucleus"], grid, data),
    )


def running_cores_at(grid: GridFacts, work: WorkTable, rows: slice) -> Floats:
    """(T, Q): running cores of the chunk's VO and label at the unified queue."""
    return running_cores(grid.snapshot, work.vo[rows], work.prodsourcelabel[rows])[:, grid.queues.unified]


def _admitted(snapshot: Snapshot, asked: Texts) -> dict[str, Any]:
    """The queues that have a place at the sites and in the pool that each chunk asks for."""
    distinct_texts, code = distinct(asked)
    if distinct_texts in ([], [None]):
        everywhere = np.ones((1, 1), dtype=np.bool_)
        return {"site_admitted": everywhere, "pool_admitted": everywhere}
    unified = snapshot.unified
    found = [snapshot.pools.admitted(parse_asked_places(text), unified.atlas_site) for text in distinct_texts]
    at_site, in_pool = (np.array(masks)[:, snapshot.queues.unified][code] for masks in zip(*found, strict=True))
    return {"site_admitted": at_site, "pool_admitted": in_pool}


def _walltime_undefined(work: WorkTable, rows: slice) -> Bools:
    units = work.cputimeunit[rows]
    has_unit = np.array([unit is not None for unit in units], dtype=np.bool_)
    hs06 = np.array([unit in HS06_UNITS for unit in units], dtype=np.bool_)
    no_wall_unit = np.array([unit is None for unit in work.walltimeunit[rows]], dtype=np.bool_)
    cputime = np.where(hs06, np.nan_to_num(work.cputime[rows]), 0.0)
    nothing = (np.nan_to_num(work.walltime[rows]) == 0) & no_wall_unit & ~has_unit
    return np.asarray(nothing | (has_unit & (cputime == 0)))


def _data_of(work: WorkTable, rows: slice, at_nucleus: Bools, grid: GridFacts, data: DataFacts) -> dict[str, Any]:
    snapshot, unified = grid.snapshot, grid.queues.unified
    size = (rows.stop - rows.start, len(snapshot.unified))
    first, last = np.searchsorted(data.chunk, (rows.start, rows.stop))
    index = (data.chunk[first:last] - rows.start, data.unified[first:last])
    figures = {}
    for name, values in (
        ("available_bytes", data.disk_bytes),
        ("available_files", data.disk_files),
        ("available_tape_bytes", data.any_bytes),
        ("available_tape_files", data.any_files),
    ):
        dense = np.zeros(size)
        dense[index] = values[first:last]
        figures[name] = np.take(dense, unified, axis=1)
    first, last = np.searchsorted(data.here_chunk, (rows.start, rows.stop))
    here = np.zeros(size, dtype=np.bool_)
    here[data.here_chunk[first:last] - rows.start, data.here_unified[first:last]] = True
    needs_nothing = here[:, unified] | data.no_locations[rows, None]
    total = work.total_bytes[rows, None]
    return {
        "can_receive": grid.any_receives | (at_nucleus & needs_nothing),
        "can_send": grid.any_sends | at_nucleus,
        "remote_source": data.remote_source[rows, None],
        "total_bytes": total,
        "total_files": work.total_files[rows, None],
        "all_local": (total == 0) | (figures["available_bytes"] >= total),
        **figures,
    }
