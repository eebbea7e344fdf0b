"""Facts of a block of chunks against all candidates, gathered from the snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from broker.domain.arrays import (
    Bools,
    Floats,
    IdentityCache,
    Ints,
    Objects,
    RowsByKind,
    Texts,
    as_row,
    distinct,
    kinds_of,
)
from broker.domain.estimates import is_event_service, is_hs06, is_set
from broker.domain.facts import JobFacts, Later, value_of
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.queues import QueueOffer, QueueTable, SoftwareOffers
from broker.domain.work import UNCONSTRAINED, WorkTable
from broker.engine.job.count_facts import (
    preferred_cpus,
    running_cores,
    slots_of,
    transferring,
)
from broker.engine.job.data_facts import BlockInput, DataFacts
from broker.engine.job.nucleus_facts import NucleusStats, nucleus_facts, nucleus_pair_facts, nucleus_stats
from broker.engine.job.running import RunningInputs, running_of_kinds
from broker.engine.job.steps import JobSteps, RefusedNames
from broker.snapshot.snapshot import Snapshot

#: Event-service tasks from this priority on count as high. Source: PanDA production brokerage, derived values.
ES_HIGH_PRIORITY = 900.0
DATADISK = "DATADISK"
_offers = IdentityCache[tuple[QueueOffer, ...]]()
_slots = IdentityCache[RowsByKind]()
_cpus = IdentityCache[RowsByKind]()
_candidates = IdentityCache[QueueTable]()


#: Facts of candidates that are the same for every chunk.
_OF_THE_GRID = (
    "storage_known",
    "is_ucore",
    "all_running",
    "all_activated",
    "all_starting",
    "transferring",
    "n_pilots",
    "laststart_s",
    "average_diskio_kbps",
    "space_free_gb",
    "space_usable_gb",
    "can_read",
    "can_write",
)


@dataclass(frozen=True)
class GridFacts:
    """Facts common to all chunks of a cycle: figures by candidate, (1, Q) or (Q,)."""

    snapshot: Snapshot
    queues: QueueTable  # columns (Q,)
    software: SoftwareOffers
    by_nucleus: NucleusStats
    storage_known: Bools
    all_running: Floats
    all_activated: Floats
    all_starting: Floats
    transferring: Floats
    n_workers: Floats
    n_pilots: Floats
    laststart_s: Floats
    average_diskio_kbps: Floats
    space_free_gb: Floats
    space_usable_gb: Floats
    can_read: Bools
    can_write: Bools
    any_receives: Bools
    any_sends: Bools
    is_ucore: Bools
    pull_ups: Bools
    learned_free: Floats | None = None  # (Q,), see broker.engine.job.learned_running


def grid_facts(snapshot: Snapshot, learned_free: Floats | None = None) -> GridFacts:
    """The facts that do not depend on the work; ``learned_free`` as in :class:`GridFacts`."""
    queues, unified = snapshot.queues, snapshot.queues.unified
    storages = snapshot.storages
    known = queues.output_storage >= 0
    free = np.full(len(queues), np.nan)
    free[known] = np.nan_to_num(storages.space_free_gb[queues.output_storage[known]], nan=0.0)
    usable = np.full(len(queues), np.nan)
    usable[known] = storages.space_usable_gb[queues.output_storage[known]]
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
    is_ucore = np.asarray(queues.capability == "ucore", dtype=np.bool_)
    return GridFacts(
        snapshot=snapshot,
        learned_free=learned_free,
        queues=queues,
        software=software_offers(snapshot),
        by_nucleus=nucleus_stats(snapshot),
        storage_known=known[None, :],
        all_running=totals[None, :, 4],
        all_activated=totals[None, :, 2],
        all_starting=totals[None, :, 3],
        transferring=transferring(snapshot)[unified][None, :],
        n_workers=snapshot.unified.n_workers[unified][None, :],
        n_pilots=snapshot.unified.n_pilots[unified][None, :],
        laststart_s=snapshot.unified.laststart_s[unified][None, :],
        average_diskio_kbps=snapshot.unified.average_diskio_kbps[unified][None, :],
        space_free_gb=free[None, :],
        space_usable_gb=usable[None, :],
        **{name: flags[None, :] for name, flags in by_queue.items()},
        is_ucore=is_ucore[None, :],
        pull_ups=(is_ucore & (queues.workflow == "pull_ups"))[None, :],
    )


def candidate_row(queues: QueueTable) -> QueueTable:
    """Queues as columns of shape (1, Q), one object a snapshot, so that rules can cache results by it."""
    return _candidates.of((queues,), lambda: as_row(queues))


def software_offers(snapshot: Snapshot) -> SoftwareOffers:
    """The software and hardware that each unified queue publishes."""
    unified = snapshot.unified
    columns = (unified.name, unified.releases, unified.software, unified.gpus)
    offers = _offers.of(columns, lambda: _offers_of(*columns))
    return SoftwareOffers(offers, unified.container_sources, not snapshot.unusable(("gpus",)))


def _offers_of(*columns: Iterable[Any]) -> tuple[QueueOffer, ...]:
    rows = zip(*columns, strict=True)
    return tuple(QueueOffer(str(name), releases, tags, gpus) for name, releases, tags, gpus in rows)


def _any_endpoint(snapshot: Snapshot, inputs: bool, activity: Bools) -> Bools:
    """(U,): the queue has some DATADISK endpoint in scope default for which the activity is on."""
    relations = snapshot.relations
    result = np.zeros(len(snapshot.unified), dtype=np.bool_)
    role = relations.is_input if inputs else relations.is_output
    wanted = role & relations.of_default_scope
    if len(snapshot.storages):
        wanted &= (snapshot.storages.type == DATADISK)[relations.storage] & activity[relations.storage]
    result[relations.unified[wanted]] = True
    return result


@dataclass(frozen=True)
class CycleFacts:
    """Facts of all chunks of a cycle that are cheap to keep: (T,) and (T, Q) of bits.

    ``hint``: the facts are for the task brokerage. There is no nucleus yet, so every queue counts as being at it.
    """

    initial: Bools
    one_preassigned: Bools
    listed: Bools
    refused_names: list[RefusedNames]
    accounting_key: Texts
    nucleus: Ints  # (T,) index into NucleusTable, -1 unknown or none
    hint: bool = False


def job_facts(
    work: WorkTable,
    rows: slice,
    cycle: CycleFacts,
    counts: RowsByKind,
    grid: GridFacts,
    data: DataFacts,
    steps: JobSteps,
    max_prio_to_bootstrap: float,
) -> JobFacts:
    """Facts of the chunks ``rows``; ``counts`` are their ``counts_by_status``, all else belongs to the cycle.

    Facts of chunks or of candidates are computed at once, those of pairs on first access.
    """
    priority = work.currentpriority[rows]
    urgent = steps.urgency.urgent(work.processingtype[rows], priority)
    # 1 is event service, 2 job cloning; the split rule says which of the two a value means
    event_service = is_event_service(work.eventservice[rows]) & ~work.job_cloning[rows]
    es_high = event_service & ((priority >= ES_HIGH_PRIORITY) | work.scout[rows])
    known = {
        "now_s": grid.snapshot.now_s,
        "software": grid.software,
        "initial": cycle.initial[rows],
        "one_preassigned": cycle.one_preassigned[rows, None],
        "listed": cycle.listed[rows, None],
        "urgent": urgent[:, None],
        "event_service": event_service[:, None],
        "es_high": es_high[:, None],
        "walltime_undefined": _walltime_undefined(work, rows)[:, None],
        "accounting_key": cycle.accounting_key[rows, None],
        **nucleus_facts(grid.by_nucleus, cycle.nucleus[rows], urgent),
        **{name: getattr(grid, name) for name in _OF_THE_GRID},
        "remote_source": data.remote_source[rows, None],
        "total_bytes": work.total_bytes[rows, None],
        "total_files": work.total_files[rows, None],
    }
    at_nuclei: dict[str, Later] = {**nucleus_pair_facts(grid.by_nucleus, cycle.nucleus[rows], urgent)}
    if cycle.hint:
        at_nuclei["at_nucleus"] = partial(np.ones, known["initial"].shape, dtype=np.bool_)
    later = {
        **at_nuclei,
        **_admitted(grid.snapshot, work.placement_constraints[rows]),
        **_jobs_of(work, rows, cycle, counts, grid, steps, priority <= max_prio_to_bootstrap),
        **_input_of(work, rows, grid, data, at_nuclei["at_nucleus"]),
    }
    return JobFacts.gathered(known, later)


def _jobs_of(
    work: WorkTable,
    rows: slice,
    cycle: CycleFacts,
    counts: RowsByKind,
    grid: GridFacts,
    steps: JobSteps,
    low_priority: Bools,
) -> dict[str, Later]:
    """Job counts, and the figures that replace running jobs."""
    snapshot, unified = grid.snapshot, grid.queues.unified
    statuses = COUNTED_STATUSES[:5]

    def slots() -> RowsByKind:
        keys = (snapshot.slots, snapshot.unified, cycle.accounting_key, work.resource_type)
        of_all = _slots.of(keys, lambda: slots_of(snapshot, cycle.accounting_key, work.resource_type))
        return of_all.of(np.arange(rows.start, rows.stop))

    def has_slots() -> RowsByKind:
        published = slots()
        return RowsByKind(~np.isnan(published.table[:, unified]), published.kind)

    def equivalent() -> RowsByKind:
        inputs = _running_inputs(grid, cycle, rows, low_priority)
        return running_of_kinds(steps.running, counts, slots(), inputs, unified)

    def cpus() -> RowsByKind:
        keys = (snapshot.unified, work.architecture)
        of_all = _cpus.of(keys, lambda: preferred_cpus(snapshot, work.architecture))
        return RowsByKind(of_all.table, of_all.kinds[rows], unified)

    def cores(starting: bool) -> RowsByKind:
        by_kind = running_cores(snapshot, work.vo[rows], work.prodsourcelabel[rows], starting=starting)
        return RowsByKind(by_kind.table, by_kind.kind, unified)

    return {
        **{status: counts.layer(at) for at, status in enumerate(statuses)},
        "running_equivalent": equivalent,
        "has_slots": has_slots,
        "preferred_cpu_percent": cpus,
        "running_cores": partial(cores, False),
        "starting_cores": partial(cores, True),
    }


def _running_inputs(grid: GridFacts, cycle: CycleFacts, rows: slice, low_priority: Bools) -> RunningInputs:
    """Inputs of the "running" count for the chunks ``rows``."""
    return RunningInputs(
        workers=grid.n_workers,
        cores=grid.queues.cores[None, :],
        pilots=grid.n_pilots,
        pull_ups=grid.pull_ups,
        low_priority=low_priority[:, None],
        # pilots do not count at preassigned queues
        pilots_count=~(cycle.one_preassigned | cycle.listed)[rows, None],
        learned_free=grid.learned_free,
    )


def _admitted(snapshot: Snapshot, constraints: Objects) -> dict[str, Later]:
    """The queues at the sites and in the pool that each chunk requires."""
    known, code = distinct(constraints)
    if known in ([], [None]):
        everywhere = partial(np.ones, (1, 1), dtype=np.bool_)
        return {"site_admitted": everywhere, "pool_admitted": everywhere}
    unified = snapshot.unified
    admitted = [snapshot.pools.admitted(constraint or UNCONSTRAINED, unified.atlas_site) for constraint in known]
    at_site, in_pool = (np.array(masks)[:, snapshot.queues.unified] for masks in zip(*admitted, strict=True))
    return {"site_admitted": RowsByKind(at_site, code), "pool_admitted": RowsByKind(in_pool, code)}


def _walltime_undefined(work: WorkTable, rows: slice) -> Bools:
    units = work.cputimeunit[rows]
    has_unit = np.asarray(units != np.array(None), dtype=np.bool_)
    no_wall_unit = np.asarray(work.walltimeunit[rows] == np.array(None), dtype=np.bool_)
    nothing = ~is_set(work.walltime[rows]) & no_wall_unit & ~has_unit
    return np.asarray(nothing | (has_unit & ~(is_hs06(units) & is_set(work.cputime[rows]))))


def _input_of(work: WorkTable, rows: slice, grid: GridFacts, data: DataFacts, at_nucleus: Later) -> dict[str, Later]:
    """The input of the chunks, and whether input and output can be moved."""
    block = BlockInput(work, rows, data, grid.queues.unified, len(grid.snapshot.unified))

    # queues of one unified queue at one nucleus have the same input
    alike = kinds_of((grid.queues.unified, grid.queues.nucleus))
    unified, any_receives = grid.queues.unified[alike.first], grid.any_receives[:, alike.first]

    def can_receive() -> RowsByKind | Bools:
        complete = block.complete()
        if not isinstance(at_nucleus, RowsByKind):
            return np.asarray(grid.any_receives | (value_of(at_nucleus) & complete.every))
        here = at_nucleus.of_table(at_nucleus.table.take(alike.first, axis=1)).by_chunk
        here &= complete.by_chunk.take(unified, axis=1)
        # few chunks have their data at a queue to which nothing else can be sent
        own = np.flatnonzero((here > any_receives).any(axis=1))
        kind = np.zeros(len(here), dtype=np.int64)
        kind[own] = np.arange(1, 1 + len(own))
        return RowsByKind(np.concatenate([any_receives, here[own] | any_receives]), kind, alike.kind)

    def can_send() -> RowsByKind | Bools:
        if not isinstance(at_nucleus, RowsByKind):
            return np.asarray(grid.any_sends | value_of(at_nucleus))
        return at_nucleus.of_table(grid.any_sends | at_nucleus.table)

    return {**block.facts(), "can_receive": can_receive, "can_send": can_send}
