"""The work of a cycle as the compiled loop takes it: how each chunk is cut, what queues allow, sums over all files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from broker.brokerages.job.chunk_jobs import kinds_of, limit_columns
from broker.brokerages.job.flat_parts import parts_of, places_of
from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.domain.estimates import OUTPUT_FLOOR_BYTES
from broker.engine.compiled.columns import CHUNK, LIMITS, QUEUE, Columns, Files, MovingState
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.distribute import group_size
from broker.work.assemble import CycleWork
from broker.work.breaks import range_breaks
from broker.work.input_files import NULL_INTEGER
from broker.work.job_model import GIGABYTE_BYTES, job_model_columns
from broker.work.split_settings import WHOLE_BOUNDARY, SplitSettings

#: Numbers below this are one word of a seed.
ONE_WORD = 2**32
#: Figures of tasks above this are left to the path that counts with whole numbers of any size.
_LARGE = 1e15
_KINDS = tuple(product((False, True), repeat=2))
#: Jobs given at a time, at 2 * scout + merging.
_GROUPS: Ints = np.array([group_size(scout, merging, False) for scout, merging in _KINDS])
_IDENTITY = ("task", "dataset", "memory")
_OF_SETTINGS = (
    "at_once",
    "merging",
    "scout",
    "has_rule",
    "dynamic",
    "files_limit",
    "events_limit",
    "size_limit",
    "output_limit",
    "max_walltime",
)
_OF_MODEL = (
    "hs06s_per_event",
    "walltime_s_per_mb",
    "base_walltime",
    "efficiency",
    "multiplicity",
    "out_per_event",
    "out_per_mb",
    "work_bytes",
)


def flat_columns(cycle: JobCycle, work: CycleWork, state: MovingState, beside: Columns | None = None) -> Columns:
    """The :class:`Columns` of a cycle: all that the loop reads outside its blocks.

    Args:
        cycle: over the work.
        work: of the cycle.
        state: of the cycle.
        beside: of another cycle over the same work.
    """
    queues = np.zeros(len(cycle.snapshot.queues), dtype=QUEUE)
    queues["unified"], queues["own_size"] = cycle.snapshot.queues.unified, cycle.job_chunk_size
    chunks = _chunks(work) if beside is None else beside.chunks.copy()
    parts = parts_of(work, chunks) if beside is None else beside.parts
    for name, column in zip(state._fields, state, strict=True):
        if name in (CHUNK.names or ()):
            chunks[name] = column
    files = _files(work) if beside is None else beside.files
    return Columns(chunks, queues, _limits(cycle, work), files, places_of(cycle, work, parts))


def _chunks(work: CycleWork) -> AnyArray:
    """(T,) of CHUNK, without what is of the cycle."""
    chunks, inputs = work.work.chunks, work.inputs
    bounds = np.searchsorted(inputs.chunk, np.arange(len(chunks) + 1))
    settings, which = _kinds_of_settings(work.settings)
    of_settings = np.array([_settings(one) for one in settings], dtype=np.float64).reshape(-1, len(_OF_SETTINGS))
    model, words = job_model_columns(chunks), _identity(work)
    table = np.zeros(len(chunks), dtype=CHUNK)
    for names, columns in ((_OF_SETTINGS, of_settings[which].T), (_OF_MODEL, model), (_IDENTITY, words.T)):
        for name, own in zip(names, columns, strict=True):
            table[name] = own
    table["group"] = _GROUPS[2 * chunks.scout.astype(np.int64) + chunks.merging]
    # a chunk without input has no files
    first, last = bounds[:-1], np.minimum(bounds[:-1] + 1, bounds[1:])
    table["start"], table["stop"] = inputs.offsets[first], inputs.offsets[last]
    table["kind"] = _kinds(work)[0]
    sound = _sound(of_settings.T).take(which) & _sound(model) & (words < ONE_WORD).all(axis=1)
    table["by_loop"] = (last > first) & sound & (table["multiplicity"] > 0)
    rows = table["by_loop"].nonzero()[0]
    table["by_file"][rows] = (np.diff(bounds)[rows] > 1) | ~inputs.sums.in_one_run[first[rows]]
    return table


def _sound(columns: Floats) -> Bools:
    """(T,) whether no figure of (C, T) is one that the loop would round in another way; NaN is none."""
    return np.asarray(~(np.abs(columns) >= _LARGE).any(axis=0))


def _identity(work: CycleWork) -> Ints:
    """(T, 3): the words of the random stream of each chunk beside the seed."""
    chunks = work.work.chunks
    ram = np.where(np.isnan(chunks.ramcount), 0.0, np.abs(np.trunc(np.nan_to_num(chunks.ramcount)) + 1.0))
    return np.array(
        [np.abs(chunks.jeditaskid), np.abs(chunks.datasetid), ram.astype(np.int64)], dtype=np.int64
    ).T.copy()


def _settings(one: SplitSettings) -> tuple[float, ...]:
    """Split settings of a task for the loop: five flags, two whole numbers, three limits."""
    has_rule = one.files_per_job is not None or one.events_per_job is not None
    size = math.nan if one.gb_per_job is None else one.gb_per_job * GIGABYTE_BYTES + OUTPUT_FLOOR_BYTES
    return (
        one.takes_files_at_once,
        one.merging,
        one.scout,
        has_rule,
        one.dynamic,
        one.files_limit,
        -1 if one.events_limit is None else one.events_limit,
        size,
        one.max_output_gb * GIGABYTE_BYTES,
        one.max_walltime_s,
    )


def _kinds_of_settings(settings: Sequence[SplitSettings]) -> tuple[list[SplitSettings], Ints]:
    """The settings that occur, each object once, and (T,) which of them each chunk has: most chunks share theirs."""
    found: dict[int, int] = {}
    kinds: list[SplitSettings] = []
    which = np.empty(len(settings), dtype=np.int64)
    for row, one in enumerate(settings):
        at = found.setdefault(id(one), len(kinds))
        if at == len(kinds):
            kinds.append(one)
        which[row] = at
    return kinds, which


def _kinds(work: CycleWork) -> tuple[Ints, Ints]:
    """(T,) the kind of each chunk by the limits that it has at queues, and (K,) a chunk of each kind."""
    codes = np.zeros(len(work.work.chunks), dtype=np.int64)
    for column in kinds_of(work.work.chunks):
        codes = 2 * codes + np.asarray(column, dtype=np.int64)
    _, first, kind = np.unique(codes, return_index=True, return_inverse=True)
    return kind.astype(np.int64), first


def _limits(cycle: JobCycle, work: CycleWork) -> AnyArray:
    """(K, Q) of LIMITS: what the queues allow the jobs of each kind of chunk."""
    queues = cycle.snapshot.queues
    every, rows = np.arange(len(queues)), _kinds(work)[1].tolist()
    table = np.zeros((len(rows), len(queues)), dtype=LIMITS)
    for kind, row in enumerate(rows):
        for name, column in zip(LIMITS.names or (), limit_columns(work.work.chunks, row, queues, every), strict=True):
            table[name][kind] = column
    return table


def _files(work: CycleWork) -> Files:
    """All files, with the positions where the tasks' rules require a new job."""
    inputs, sums = work.inputs, work.inputs.sums
    files, lengths = inputs.files, np.diff(inputs.offsets)
    settings, which = _kinds_of_settings(work.settings)
    rules = np.array([_break_rules(one) for one in settings], dtype=np.bool_).reshape(-1, 4)
    # most rules are those of no task
    continuous, boundary, lumi, whole = (
        np.repeat(rule[which[inputs.chunk]], lengths) if rule.any() else None for rule in rules.T
    )
    starts = np.zeros(len(files), dtype=np.bool_)
    starts[inputs.offsets[:-1][lengths > 0]] = True
    if continuous is not None:
        starts |= continuous & range_breaks(files)
    if boundary is not None:
        starts[1:] |= boundary[1:] & (files.boundaryid[1:] != files.boundaryid[:-1])
    if lumi is not None:
        starts[1:] |= lumi[1:] & (files.lumiblocknr[1:] != files.lumiblocknr[:-1])
    unlimited = np.zeros(len(files), dtype=np.bool_) if whole is None else whole & (files.boundaryid != NULL_INTEGER)
    return Files(*sums.columns, _next_start(starts), unlimited, sums.sums)


def _break_rules(one: SplitSettings) -> tuple[bool, bool, bool, bool]:
    return one.continuous, bool(one.boundary), one.by_lumi, one.boundary == WHOLE_BOUNDARY


def _next_start(starts: Bools) -> Ints:
    """(F,) for each file the next one at which a job starts anew; F when there is none. One starts at the first."""
    found = np.append(np.flatnonzero(starts), len(starts))
    return np.asarray(np.repeat(found[1:], np.diff(found)), dtype=np.int64)
