"""Attributes of unified queues (U,) for the analysis brokerage that do not depend on the work.

They are the storages that a queue reads and writes, by the scope of their relations (L,), with their free space, and
whether the queue reads from virtual placement. They are computed once for as long as the grid keeps its relations.

Source: ATLAS Analysis Job Brokerage, storage checks and input data locality; PanDA analysis brokerage, storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from broker.domain.analysis import VP_ENDING
from broker.domain.arrays import Bools, Floats, IdentityCache, Ints, Texts
from broker.snapshot.snapshot import Snapshot

VpScope = Literal["in_use", "default"]
"""The scope of the relations by which a queue reads from virtual placement."""

_of_analysis = IdentityCache[Bools]()
_in_use = IdentityCache[Bools]()
_virtual = IdentityCache[Bools]()
_readers = IdentityCache[tuple[Ints, Ints]]()


def scope_in_use(snapshot: Snapshot, inputs: bool) -> Bools:
    """(L,): relations of the scope in use: analysis where the queue defines it, else default."""
    return _in_use.of((snapshot.relations, snapshot.unified, inputs), lambda: _scope_in_use(snapshot, inputs))


def reads_for_analysis(snapshot: Snapshot) -> Bools:
    """(L,): relations for reading that are of the scope of analysis."""
    return snapshot.relations.is_input & _of_scope(snapshot)


def _of_scope(snapshot: Snapshot) -> Bools:
    relations = snapshot.relations
    return _of_analysis.of((relations,), lambda: np.asarray(relations.scope == "analysis"))


def _scope_in_use(snapshot: Snapshot, inputs: bool) -> Bools:
    relations = snapshot.relations
    role = relations.is_input if inputs else relations.is_output
    of_analysis = role & _of_scope(snapshot)
    defines = np.zeros(len(snapshot.unified), dtype=np.bool_)
    defines[relations.unified[of_analysis]] = True
    return np.asarray(of_analysis | (role & relations.of_default_scope & ~defines[relations.unified]))


def readers_of(snapshot: Snapshot, storage: Ints) -> tuple[Ints, Ints]:
    """For each storage of a list the unified queues that read it in the scope in use: position in the list, queue."""
    of_relation, unified = _readers.of((snapshot.relations, snapshot.unified), lambda: _by_storage(snapshot))
    first = np.searchsorted(of_relation, storage, side="left")
    count = np.searchsorted(of_relation, storage, side="right") - first
    position = np.repeat(np.arange(len(storage)), count)
    offset = np.arange(len(position)) - np.repeat(np.cumsum(count) - count, count)
    return position, unified[first[position] + offset]


def _by_storage(snapshot: Snapshot) -> tuple[Ints, Ints]:
    """The storages and queues of the relations for reading, ordered by storage."""
    relations = snapshot.relations
    reading = np.flatnonzero(scope_in_use(snapshot, True))
    reading = reading[np.argsort(relations.storage[reading], kind="stable")]
    return relations.storage[reading], relations.unified[reading]


def vp_queues(snapshot: Snapshot, scope: VpScope = "in_use") -> Bools:
    """(U,): queues that read from virtual placement, through relations of the scope in use or of the default scope."""
    key = (snapshot.relations, snapshot.storages, snapshot.unified, scope)
    return _virtual.of(key, lambda: _vp_queues(snapshot, scope))


def _vp_queues(snapshot: Snapshot, scope: VpScope) -> Bools:
    relations = snapshot.relations
    virtual = np.array([str(name).endswith(VP_ENDING) for name in snapshot.storages.name], dtype=np.bool_)
    of_default = relations.is_input & relations.of_default_scope
    rows = np.flatnonzero(of_default if scope == "default" else scope_in_use(snapshot, True))
    mask = np.zeros(len(snapshot.unified), dtype=np.bool_)
    mask[relations.unified[rows[virtual[relations.storage[rows]]]]] = True
    return mask


@dataclass(frozen=True)
class AnalysisQueues:
    """Attributes of each unified queue (U,)."""

    is_vp: Bools
    cloud: Texts
    has_output: Bools
    has_input: Bools
    output_storage: Ints  # default output endpoint, -1 without one
    output_usable_gb: Floats
    input_usable_gb: Floats  # NaN where input and output have the same default endpoint
    reads_lan: Bools
    writes_lan: Bools
    receives: Bools
    sends: Bools
    site_class: Floats
    starts: Floats


def analysis_queues(snapshot: Snapshot, vp_scope: VpScope = "in_use") -> AnalysisQueues:
    """The figures of all unified queues; ``vp_scope``: of the relations that read from virtual placement."""
    storages, size = snapshot.storages, len(snapshot.unified)
    reading, writing = scope_in_use(snapshot, True), scope_in_use(snapshot, False)
    output = _default(snapshot, writing & snapshot.relations.default_write)
    read_from = _default(snapshot, reading & snapshot.relations.default_read)
    usable = _usable_gb(snapshot)
    other = read_from != output
    grid = snapshot.analysis
    return AnalysisQueues(
        is_vp=vp_queues(snapshot, vp_scope),
        cloud=snapshot.unified.cloud,
        has_output=_some(snapshot, writing, np.ones(len(storages), dtype=np.bool_)),
        has_input=_some(snapshot, reading, np.ones(len(storages), dtype=np.bool_)),
        output_storage=output,
        output_usable_gb=_looked_up(usable, output),
        input_usable_gb=np.where(other, _looked_up(usable, read_from), np.nan),
        reads_lan=_some(snapshot, reading, storages.open_read_lan),
        writes_lan=_some(snapshot, writing, storages.open_write_lan),
        receives=_some(snapshot, reading, storages.open_write_wan),
        sends=_some(snapshot, writing, storages.open_read_wan),
        site_class=grid.site_class if len(grid.site_class) == size else np.full(size, np.nan),
        starts=grid.starts if len(grid.starts) == size else np.zeros(size),
    )


def _default(snapshot: Snapshot, wanted: Bools) -> Ints:
    storage = np.full(len(snapshot.unified), -1, dtype=np.int64)
    storage[snapshot.relations.unified[wanted]] = snapshot.relations.storage[wanted]
    return storage


def _usable_gb(snapshot: Snapshot) -> Floats:
    """(E,): free and expired space, without the reserved and unavailable parts."""
    storages = snapshot.storages
    gained = np.nan_to_num(storages.space_free_gb) + np.nan_to_num(storages.space_expired_gb)
    return gained - np.nan_to_num(storages.space_min_free_gb) - np.nan_to_num(storages.space_unavailable_gb)


def _looked_up(values: Floats, position: Ints) -> Floats:
    padded = np.append(values, np.nan)
    return np.asarray(padded[position])


def _some(snapshot: Snapshot, wanted: Bools, flags: Bools) -> Bools:
    """(U,): any of the wanted relations leads to an endpoint with the flag."""
    relations = snapshot.relations
    rows = np.flatnonzero(wanted)
    mask = np.zeros(len(snapshot.unified), dtype=np.bool_)
    mask[relations.unified[rows[flags[relations.storage[rows]]]]] = True
    return mask
