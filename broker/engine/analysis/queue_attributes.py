"""Figures of queues and storages for the analysis brokerage that do not depend on the work.

Source: ATLAS Analysis Job Brokerage, storage checks; PanDA analysis brokerage, storage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Texts
from broker.engine.analysis.queue_relations import VpScope, scope_in_use, vp_queues
from broker.snapshot.snapshot import Snapshot


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
    """The figures of all unified queues; ``vp_scope``: of the relations by which one reads from virtual placement."""
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
    found = np.full(len(snapshot.unified), -1, dtype=np.int64)
    found[snapshot.relations.unified[wanted]] = snapshot.relations.storage[wanted]
    return found


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
    found = np.zeros(len(snapshot.unified), dtype=np.bool_)
    found[relations.unified[rows[flags[relations.storage[rows]]]]] = True
    return found
