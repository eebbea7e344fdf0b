"""Where the input of analysis is, and which queues may have the chunk for it.

Source: ATLAS Analysis Job Brokerage, input data locality; PanDA analysis brokerage, data availability and locality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisWork
from broker.domain.arrays import Bools, Floats, Ints, codes_of
from broker.domain.work import Work
from broker.engine.analysis.steps import Locality
from broker.engine.job.data_facts import InputLimits
from broker.snapshot.snapshot import Snapshot

VP_ENDING = "_VP_DISK"
#: Datasets that are kept together although no rule says so.
NEVER_DISTRIBUTED = "ddo"
#: Weight of a dataset that is not on a disk of the queue.
OFF_DISK_WEIGHT = 0.001
GIB = 2.0**30
#: GB on the disks of a queue that double its weight.
GB_OF_WEIGHT = 10.0
NO_COMPLETE_REPLICA = "no_complete_replica"


@dataclass(frozen=True)
class AnalysisData:
    """Input by chunk (T,) and unified queue (T, U)."""

    has_input: Bools  # (T, U) what the locality check keeps
    without_vp: Bools  # (T, U) the input is there without virtual placement
    datasets_weight: Floats  # (T, U) number of datasets on disk, 0.001 for each that is not
    disk_gb: Floats  # (T, U) GiB on disks of the queue, each copy by itself
    big: Bools  # (T,) the whole input is at least 1 GiB
    real: Bools  # (T,) there is real input
    union: Bools  # (T,) no queue has all datasets
    distributed: Bools  # (T,)
    remote_source: Bools  # (T,)
    lost: Bools  # (T,) a dataset has no complete replica
    lacks_files: Bools  # (T, U) a queue for local data only has not all files of a dataset that is kept together
    lacks_parts: Bools  # (T, U) the same for distributed datasets


def scope_in_use(snapshot: Snapshot, inputs: bool) -> Bools:
    """(L,): relations of the scope in use: analysis where the queue defines it, else default."""
    relations = snapshot.relations
    role = relations.is_input if inputs else relations.is_output
    of_analysis = role & (relations.scope == "analysis")
    defines = np.zeros(len(snapshot.unified), dtype=np.bool_)
    defines[relations.unified[of_analysis]] = True
    return np.asarray(of_analysis | (role & relations.of_default_scope & ~defines[relations.unified]))


def vp_queues(snapshot: Snapshot) -> Bools:
    """(U,): queues that read from virtual placement."""
    virtual = np.array([str(name).endswith(VP_ENDING) for name in snapshot.storages.name], dtype=np.bool_)
    found = np.zeros(len(snapshot.unified), dtype=np.bool_)
    rows = np.flatnonzero(scope_in_use(snapshot, True))
    found[snapshot.relations.unified[rows[virtual[snapshot.relations.storage[rows]]]]] = True
    return found


@dataclass(frozen=True)
class _Entries:
    """Replicas at queues: one row for each input, unified queue and endpoint."""

    at: Ints  # input
    unified: Ints
    complete: Bools
    tape: Bools
    vp: Bools
    bytes: Floats
    files: Floats
    whole: Bools  # every file of the input is there


def gather_analysis_data(
    work: Work,
    request: AnalysisWork,
    initial: Bools,
    snapshot: Snapshot,
    limits: InputLimits,
    reading: tuple[Locality, Bools] | None = None,
) -> AnalysisData:
    """What the replicas mean; ``initial`` (T, U) are the candidates of each chunk.

    ``reading``: how locality is read, and (T, U) the queue that a task names.
    """
    locality, named = reading or (Locality(), np.zeros_like(initial))
    any_part = locality.options.named == "any_part"
    inputs, chunks = work.inputs, work.chunks
    real = ~inputs.is_pseudo
    storage = codes_of(work.replicas.rse, list(snapshot.storages.name))
    enough, truly = _completeness(work, limits)
    size = len(inputs)
    flags = _seen(work, snapshot, storage, (enough, truly))
    able = snapshot.unified.runs_analysis | initial.any(axis=0)
    # MAX_MISSING_INPUT_FILES makes a dataset complete for its being there at all, not for a queue's having it
    entries = _entries(work, snapshot, storage, truly, able)
    placed = _any(entries.at, np.ones(len(entries.at), dtype=np.bool_), size)
    whole = _any(entries.at, entries.complete, size)
    never = np.array([str(name).startswith(NEVER_DISTRIBUTED) for name in inputs.name], dtype=np.bool_)
    distributed = real & inputs.distributed & placed & ~whole & ~never
    lost = real & ~flags["disk"] & ~flags["tape"] & ~distributed & ~request.allow_incomplete[inputs.chunk]
    count = len(chunks)
    no_vp = chunks.merging | request.avoid_vp | chunks.scout | chunks.use_local_io
    scattered = distributed
    if locality.options.distributed == "chunk":
        scattered = _any(inputs.chunk, distributed, count)[inputs.chunk]
    uses_vp = ~no_vp[inputs.chunk] & ~scattered
    lists = _Lists(entries, initial[inputs.chunk], distributed | ~flags["truly"], uses_vp)
    has_input, union = _with_input(lists, inputs.chunk[real], real, count, named if any_part else None)
    asked = real & flags["truly"] & ~distributed, real & flags["truly"] & distributed
    return AnalysisData(
        has_input=has_input,
        without_vp=_without_vp(lists, inputs.chunk[real], real, union),
        big=np.bincount(inputs.chunk, weights=np.where(real, inputs.bytes, 0.0), minlength=count) >= GIB,
        real=_any(inputs.chunk, real, count),
        union=union,
        distributed=_any(inputs.chunk, distributed, count),
        remote_source=~_any(inputs.chunk, real & ~distributed & ~flags["wan"], count),
        lost=_any(inputs.chunk, lost, count),
        **_at_queues(lists, work, snapshot, asked, locality.options.twice),
    )


def _any(groups: Ints, flags: Bools, size: int) -> Bools:
    result = np.zeros(size, dtype=np.bool_)
    result[groups[flags]] = True
    return result


def _summed(owner: Ints, values: Floats, count: int) -> Floats:
    """(count, U): the rows of ``values`` added up by owner; the rows of an owner are neighbours."""
    result = np.zeros((count, values.shape[1]))
    if len(owner):
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        result[owner[starts]] = np.add.reduceat(values, starts, axis=0)
    return result


def _completeness(work: Work, limits: InputLimits) -> tuple[Bools, Bools]:
    """(R,) twice: regarded as complete, and truly complete."""
    replicas = work.replicas
    missing = replicas.total - replicas.found
    with np.errstate(divide="ignore", invalid="ignore"):
        share = replicas.found / replicas.total * 100.0
    truly = (missing == 0) & ~replicas.is_vp
    some = (replicas.total > 0) & (replicas.found > 0)
    close = some & ((missing <= limits.max_missing_files) | (share >= limits.min_completeness_percent))
    return np.asarray((truly | close) & ~replicas.is_vp), np.asarray(truly)


def _readable(snapshot: Snapshot, storage: Ints) -> tuple[Bools, Bools]:
    if len(snapshot.storages) == 0:
        return np.ones(len(storage), np.bool_), np.ones(len(storage), np.bool_)
    known, at = storage >= 0, np.maximum(storage, 0)
    return ~known | snapshot.storages.open_read_lan[at], ~known | snapshot.storages.open_read_wan[at]


def _entries(work: Work, snapshot: Snapshot, storage: Ints, complete: Bools, able: Bools) -> _Entries:
    relations, replicas = snapshot.relations, work.replicas
    reading = np.flatnonzero(scope_in_use(snapshot, True))
    reading = reading[np.argsort(relations.storage[reading], kind="stable")]
    by_storage = relations.storage[reading]
    rows = np.flatnonzero(storage >= 0)
    first = np.searchsorted(by_storage, storage[rows], side="left")
    count = np.searchsorted(by_storage, storage[rows], side="right") - first
    row = np.repeat(rows, count)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    queue = relations.unified[reading[np.repeat(first, count) + offset]]
    row, queue = row[able[queue]], queue[able[queue]]
    return _Entries(
        at=replicas.input[row],
        unified=queue,
        complete=complete[row] | replicas.is_vp[row],
        tape=replicas.is_tape[row],
        vp=replicas.is_vp[row],
        bytes=replicas.chunk_bytes[row],
        files=replicas.chunk_files[row],
        whole=replicas.holds_all[row] | replicas.is_vp[row],
    )


class _Lists:
    """For each input (I, U) the queues that have it: anywhere, and on disk."""

    def __init__(self, entries: _Entries, candidates: Bools, incomplete_allowed: Bools, uses_vp: Bools) -> None:
        self.entries, self._shape = entries, candidates.shape
        tape, vp, complete = entries.tape, entries.vp, entries.complete
        real_disk = self._table(complete & ~vp & ~tape) & candidates
        on_disk_somewhere = real_disk.any(axis=1, keepdims=True)
        usable = candidates & ~(self._table(vp) & on_disk_somewhere)
        joined = incomplete_allowed[:, None] & ~on_disk_somewhere
        allowed = ~tape & (~vp | uses_vp[entries.at])
        self.anywhere = self._result(complete, ~complete, usable, joined)
        self.disk = self._result(complete & allowed, ~complete & allowed, usable, joined)
        self.without_vp = self._result(complete & ~vp, ~complete & ~vp, usable, joined)
        self.twice: Bools = np.asarray(self._table(complete) & self._table(~complete) & usable & joined)

    def _table(self, flags: Bools) -> Bools:
        table = np.zeros(self._shape, dtype=np.bool_)
        table[self.entries.at[flags], self.entries.unified[flags]] = True
        return table

    def _result(self, complete: Bools, partial: Bools, usable: Bools, joined: Bools) -> Bools:
        whole, parts = self._table(complete) & usable, self._table(partial) & usable
        return np.asarray(whole | (parts & (joined | ~whole.any(axis=1, keepdims=True))))


def _over_datasets(lists: _Lists, owner: Ints, real: Bools, count: int) -> tuple[Bools, Bools]:
    """(T, U) queues that have the input, and (T,) whether that is only a part of the datasets.

    First those with all datasets on disk, else with all anywhere, else with any on disk, else with any.
    """
    width = lists.disk.shape[1]
    datasets = np.bincount(owner, minlength=count)[:, None]
    having = []
    for table in (lists.disk, lists.anywhere):
        having.append(_summed(owner, table[real].astype(np.float64), count))
    choices = [having[0] == datasets, having[1] == datasets, having[0] > 0, having[1] > 0]
    found = [choice.any(axis=1) for choice in choices]
    result = np.select([flags[:, None] for flags in found], choices, default=np.zeros((count, width), dtype=np.bool_))
    result[datasets[:, 0] == 0] = True
    return np.asarray(result), np.asarray(~found[0] & ~found[1] & (datasets[:, 0] > 0))


def _at_queues(
    lists: _Lists, work: Work, snapshot: Snapshot, asked: tuple[Bools, Bools], twice: bool
) -> dict[str, Any]:
    """(T, U) each: weight and size of the input, and missing files of those ``asked`` for, whole and distributed."""
    inputs, count, entries = work.inputs, len(work.chunks), lists.entries
    real = ~inputs.is_pseudo
    each = np.where(lists.disk, 1.0, np.where(lists.anywhere, OFF_DISK_WEIGHT, 0.0))
    if twice:
        each = each * (1.0 + lists.twice)
    only = _only_local(snapshot)
    lacks = [_lacking(entries, inputs.chunk, inputs.files, one, only, count) for one in asked]
    return {
        "datasets_weight": _summed(inputs.chunk[real], each[real], count),
        "disk_gb": _disk_gb(entries, inputs.is_master, inputs.chunk, (count, len(snapshot.unified))),
        "lacks_files": lacks[0],
        "lacks_parts": lacks[1],
    }


def _with_input(lists: _Lists, owner: Ints, real: Bools, count: int, named: Bools | None) -> tuple[Bools, Bools]:
    """As :func:`_over_datasets`; for chunks with a ``named`` (T, U) queue any part is enough."""
    has_input, union = _over_datasets(lists, owner, real, count)
    if named is None:
        return has_input, union
    asks: Bools = np.asarray(named.any(axis=1))
    anywhere = _summed(owner, lists.anywhere[real].astype(np.float64), count) > 0
    return np.asarray(np.where(asks[:, None], anywhere, has_input)), np.asarray(union & ~asks)


def _seen(work: Work, snapshot: Snapshot, storage: Ints, complete: tuple[Bools, Bools]) -> dict[str, Bools]:
    """(I,) each: which replicas of an input can be read, and how."""
    size, (enough, truly) = len(work.inputs), complete
    lan, wan = _readable(snapshot, storage)
    seen = lan | wan
    disk = ~work.replicas.is_tape
    return {
        "disk": _any(work.replicas.input, enough & disk & seen, size),
        "truly": _any(work.replicas.input, truly & disk & seen, size),
        "tape": _any(work.replicas.input, enough & ~disk & seen, size),
        "wan": _any(work.replicas.input, enough & wan, size),
    }


def _without_vp(lists: _Lists, owner: Ints, real: Bools, union: Bools) -> Bools:
    """(T, U): queues with all datasets in other places than virtual placement, any where only a part is asked for."""
    count = len(union)
    having = _summed(owner, lists.without_vp[real].astype(np.float64), count)
    datasets = np.bincount(owner, minlength=count)[:, None]
    return np.asarray((having == datasets) | (union[:, None] & (having > 0)))


def _disk_gb(entries: _Entries, is_master: Bools, chunk_of: Ints, shape: tuple[int, int]) -> Floats:
    """(T, U) GiB of the chunk on the disks of the queue; of a secondary dataset only whole copies count."""
    rows = np.flatnonzero(~entries.tape & (entries.bytes > 0) & (is_master[entries.at] | entries.whole))
    result = np.zeros(shape)
    np.add.at(result, (chunk_of[entries.at[rows]], entries.unified[rows]), entries.bytes[rows])
    # the whole GiB of what lies at a queue count
    return np.floor(result / GIB)


def _only_local(snapshot: Snapshot) -> Bools:
    """(U,): queues that read nothing from elsewhere."""
    only = np.zeros(len(snapshot.unified), dtype=np.bool_)
    only[snapshot.queues.unified[snapshot.queues.use_only_local_data]] = True
    return only


def _lacking(entries: _Entries, chunk_of: Ints, files: Floats, asked: Bools, only: Bools, count: int) -> Bools:
    """(T, U): queues ``only`` for local data without all files of an input ``asked`` for, be it on disk or on tape."""
    result = np.zeros((count, len(only)), dtype=np.bool_)
    if not only.any() or not asked.any():
        return result
    most = np.zeros((2, len(files), len(only)))
    np.maximum.at(most, (entries.tape.astype(np.int64), entries.at, entries.unified), entries.files)
    missing = only & asked[:, None] & ~(most >= files[:, None]).any(axis=0)
    at, queue = np.nonzero(missing)
    result[chunk_of[at], queue] = True
    return result
