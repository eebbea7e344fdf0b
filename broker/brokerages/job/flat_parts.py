"""Chunks with secondary datasets, or of which parts are in different places, as the compiled loop takes them."""

from __future__ import annotations

import math

import numpy as np

from broker.domain.arrays import AnyArray, Ints, codes_of
from broker.engine.compiled.columns import LISTED, USE, Parts
from broker.engine.job.cycle import JobCycle
from broker.work.assemble import CycleWork
from broker.work.datasets import DatasetUse
from broker.work.input_files import NULL_INTEGER, stored_bytes

#: Files of a secondary for one of the master, or for a job, above this are left to whole numbers of any size.
_MOST_FILES = 1e9


def parts_of(work: CycleWork, chunks: AnyArray) -> Parts:
    """Parts of such chunks, without storages; their columns among ``chunks`` are filled.

    Args:
        work: of a cycle.
        chunks: (T,) of ``CHUNK``, with the files of each.
    """
    listed, uses, end, first = [np.zeros(0, dtype=LISTED)], [np.zeros(0, dtype=USE)], 0, 0
    for row in chunks["by_file"].nonzero()[0].tolist():
        own = work.inputs.inputs_of(row)
        files, use = _files_and_uses(work, row, own)
        use["first"] += end
        use["by_boundary"][use["by_boundary"] >= 0] += end
        chunk = chunks[row]
        chunk["listed"], chunk["names"] = end, files["name"].max(initial=0)
        chunk["uses"], chunk["uses_stop"] = first, first + len(use)
        chunk["secondary_events"] = _limits_secondary(work, row, own)
        chunk["by_loop"] = all(_is_small(work.inputs.uses[at]) for at in own[1:])
        listed.append(files)
        uses.append(use)
        end, first = end + len(files), first + len(use)
    return _with_replicas(work, chunks, np.concatenate(uses), np.concatenate(listed))


def _files_and_uses(work: CycleWork, row: int, own: range) -> tuple[AnyArray, AnyArray]:
    """(L,) of LISTED and (S,) of USE of one chunk with the inputs ``own``; places count from its own first file."""
    inputs = work.inputs
    bounds = inputs.offsets[own.start : own.stop + 1].tolist()
    files = inputs.files.rows(slice(bounds[0], bounds[-1]))
    names = np.unique(files.lfn_hash, return_inverse=True)[1].reshape(-1) + 1
    table = np.zeros(len(files), dtype=LISTED)
    table["name"], table["bytes"], table["boundary"] = names, stored_bytes(files), files.boundaryid
    table["file"] = np.arange(bounds[0], bounds[-1])
    uses, parts, end = np.zeros(len(own) - 1, dtype=USE), [table], len(table)
    for at, position in enumerate(own[1:], 1):
        use, low, high = inputs.uses[position], bounds[at], bounds[at + 1]
        ordered = -1
        if work.settings[row].boundary and use.files_per_job is None and use.event_ratio is None:
            some = table[low - bounds[0] : high - bounds[0]]
            parts.append(some[np.argsort(some["boundary"], kind="stable")])
            ordered, end = end, end + len(some)
        uses[at - 1] = _use(use, low - bounds[0], high - low, low, ordered)
    return np.concatenate(parts), uses


def _use(use: DatasetUse, first: int, count: int, file: int, by_boundary: int) -> tuple[float, ...]:
    """A row of USE."""
    per_job = -1 if use.files_per_job is None else use.files_per_job
    ratio = math.nan if use.event_ratio is None else use.event_ratio
    if not _is_small(use):
        per_job, ratio = -1, math.nan
    return first, count, file, by_boundary, use.nosplit, use.repeat, use.reusable, per_job, ratio, use.ratio


def _is_small(use: DatasetUse) -> bool:
    return max(use.ratio, use.files_per_job or 0, use.event_ratio or 0.0) < _MOST_FILES


def _limits_secondary(work: CycleWork, row: int, own: range) -> bool:
    """Whether the limit on events is one on those of the first secondary."""
    settings, (low, high) = work.settings[row], work.inputs.offsets[own.start : own.start + 2].tolist()
    if len(own) < 2 or not settings.continuous or settings.events_per_job is None:
        return False
    return not bool((work.inputs.files.startevent[low:high] != NULL_INTEGER).any())


def _with_replicas(work: CycleWork, chunks: AnyArray, uses: AnyArray, listed: AnyArray) -> Parts:
    """The parts with the replicas of chunks whose parts are in different places."""
    masks, rows, held_from, end = [np.zeros(0, dtype=np.bool_)], list[int](), list[int](), 0
    for chunk, (low, high) in work.spread_replicas.items():
        chunks["replicas"][chunk], chunks["replicas_stop"][chunk] = len(rows), len(rows) + high - low
        size = int(chunks["stop"][chunk] - chunks["start"][chunk])
        for replica in range(low, high):
            held = work.held[replica]
            rows.append(replica)
            held_from.append(-1 if held is None else end)
            if held is not None:
                masks.append(held)
                end += len(held)
                # a mask of other files is an error that Python finds
                chunks["by_loop"][chunk] &= len(held) == size
    places = np.array(rows, dtype=np.int64), np.array(held_from, dtype=np.int64)
    none: Ints = np.zeros(0, dtype=np.int64)
    return Parts(uses, listed, *places, np.concatenate(masks), none, np.zeros((0, 0), dtype=np.bool_))


def places_of(cycle: JobCycle, work: CycleWork, parts: Parts) -> Parts:
    """The parts with the storages of replicas, and the queues of the cycle that read them."""
    if not len(parts.replica):
        return parts
    snapshot, relations, readable = cycle.snapshot, cycle.snapshot.relations, cycle.reading()
    storages = list(snapshot.storages.name)
    # what has no number is in the last row or column
    reads = np.zeros((len(storages) + 1, len(snapshot.unified) + 1), dtype=np.bool_)
    reads[relations.storage[readable], relations.unified[readable]] = True
    return parts._replace(storage=codes_of(work.work.replicas.rse[parts.replica], storages), reads=reads)
