"""Relations through which analysis queues read and write, computed once while the grid has the same.

Source: ATLAS Analysis Job Brokerage, input data locality.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.analysis import VP_ENDING
from broker.domain.arrays import Bools, Ints
from broker.domain.identity_cache import Kept
from broker.snapshot.snapshot import Snapshot

VpScope = Literal["in_use", "default"]
"""By the relations of which scope a queue reads from virtual placement."""

_of_analysis = Kept[Bools]()
_in_use = Kept[Bools]()
_virtual = Kept[Bools]()
_readers = Kept[tuple[Ints, Ints]]()


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
    found = np.zeros(len(snapshot.unified), dtype=np.bool_)
    found[relations.unified[rows[virtual[relations.storage[rows]]]]] = True
    return found
