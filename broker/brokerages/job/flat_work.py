"""The work of a cycle in the flat form of the compiled loop: cuts of chunks, limits of queues, sums over files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from broker.brokerages.job.chunk_jobs import kinds_of, limit_columns
from broker.domain.arrays import AnyArray, Bools, Floats, Ints, codes_of
from broker.domain.estimates import OUTPUT_FLOOR_BYTES
from broker.engine.compiled.columns import CHUNK, LIMITS, LISTED, QUEUE, USE, Columns, Files, MovingState, Parts
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.distribute import group_size
from broker.work.assemble import CycleWork
from broker.work.input_files import NULL_INTEGER, DatasetUse, stored_bytes
from broker.work.job_model import GIGABYTE_BYTES, job_model_columns
from broker.work.split_settings import WHOLE_BOUNDARY, SplitSettings, range_breaks

#: Secondary datasets with more files than this for one master file, or for a job, are left to Python's integers.
_MOST_FILES = 1e9


def parts_of(work: CycleWork, chunks: AnyArray) -> Parts:
    """The parts of chunks that are cut file by file, without storages; fills their columns in ``chunks``.

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
    """(L,) of LISTED and (S,) of USE of one chunk with the inputs ``own``; positions start at its own first file."""
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
    """Whether the limit on events applies to those of the first secondary dataset."""
    settings, (low, high) = work.settings[row], work.inputs.offsets[own.start : own.start + 2].tolist()
    if len(own) < 2 or not settings.continuous or settings.events_per_job is None:
        return False
    return not bool((work.inputs.files.startevent[low:high] != NULL_INTEGER).any())


def _with_replicas(work: CycleWork, chunks: AnyArray, uses: AnyArray, listed: AnyArray) -> Parts:
    """The parts with the replicas of chunks whose files are spread over several places."""
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
                # a mask of other files is an error that the path in Python reports
                chunks["by_loop"][chunk] &= len(held) == size
    places = np.array(rows, dtype=np.int64), np.array(held_from, dtype=np.int64)
    none: Ints = np.zeros(0, dtype=np.int64)
    return Parts(uses, listed, *places, np.concatenate(masks), none, np.zeros((0, 0), dtype=np.bool_))


def places_of(cycle: JobCycle, work: CycleWork, parts: Parts) -> Parts:
    """The parts with the storages of replicas, and the queues of the cycle that can read them."""
    if not len(parts.replica):
        return parts
    snapshot, relations, readable = cycle.snapshot, cycle.snapshot.relations, cycle.reading()
    storages = list(snapshot.storages.name)
    # the last row and column stand for storages and queues without a number
    reads = np.zeros((len(storages) + 1, len(snapshot.unified) + 1), dtype=np.bool_)
    reads[relations.storage[readable], relations.unified[readable]] = True
    return parts._replace(storage=codes_of(work.work.replicas.rse[parts.replica], storages), reads=reads)


#: Numbers below this fit into one word of a seed.
ONE_WORD = 2**32
#: Figures of tasks from this on are left to the path in Python, whose integers have any size.
_LARGE = 1e15
_KINDS = tuple(product((False, True), repeat=2))
#: Jobs assigned at a time, indexed by 2 * scout + merging.
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
    """The :class:`Columns` of a cycle: everything that the loop reads outside its blocks.

    Args:
        cycle: over the work.
        work: of the cycle.
        state: of the cycle.
        beside: the columns of another cycle over the same work, to be reused.
    """
    queues = np.zeros(len(cycle.snapshot.queues), dtype=QUEUE)
    queues["unified"], queues["own_size"] = cycle.snapshot.queues.unified, cycle.job_groups
    chunks = _chunks(work) if beside is None else beside.chunks.copy()
    parts = parts_of(work, chunks) if beside is None else beside.parts
    for name, column in zip(state._fields, state, strict=True):
        if name in (CHUNK.names or ()):
            chunks[name] = column
    chunks["one_queue"] = cycle.with_one_queue
    files = _files(work) if beside is None else beside.files
    return Columns(chunks, queues, _limits(cycle, work), files, places_of(cycle, work, parts))


def _chunks(work: CycleWork) -> AnyArray:
    """(T,) of CHUNK, without the fields that depend on the cycle."""
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
    """(T,) whether the loop would round all figures of (C, T) as Python does; NaN passes."""
    return np.asarray(~(np.abs(columns) >= _LARGE).any(axis=0))


def _identity(work: CycleWork) -> Ints:
    """(T, 3) the words that, with the seed, identify the random stream of each chunk."""
    chunks = work.work.chunks
    ram = np.where(np.isnan(chunks.ramcount), 0.0, np.abs(np.trunc(np.nan_to_num(chunks.ramcount)) + 1.0))
    return np.array(
        [np.abs(chunks.jeditaskid), np.abs(chunks.datasetid), ram.astype(np.int64)], dtype=np.int64
    ).T.copy()


def _settings(settings: SplitSettings) -> tuple[float, ...]:
    """Split settings of a task for the loop: five flags, two whole numbers, three limits."""
    has_rule = settings.files_per_job is not None or settings.events_per_job is not None
    size = math.nan if settings.gb_per_job is None else settings.gb_per_job * GIGABYTE_BYTES + OUTPUT_FLOOR_BYTES
    return (
        settings.takes_files_at_once,
        settings.merging,
        settings.scout,
        has_rule,
        settings.dynamic,
        settings.files_limit,
        -1 if settings.events_limit is None else settings.events_limit,
        size,
        settings.max_output_gb * GIGABYTE_BYTES,
        settings.max_walltime_s,
    )


def _kinds_of_settings(settings: Sequence[SplitSettings]) -> tuple[list[SplitSettings], Ints]:
    """The distinct settings objects, and (T,) which of them each chunk has; most chunks share theirs."""
    kind_by_object: dict[int, int] = {}
    kinds: list[SplitSettings] = []
    which = np.empty(len(settings), dtype=np.int64)
    for row, one in enumerate(settings):
        at = kind_by_object.setdefault(id(one), len(kinds))
        if at == len(kinds):
            kinds.append(one)
        which[row] = at
    return kinds, which


def _kinds(work: CycleWork) -> tuple[Ints, Ints]:
    """(T,) the kind of each chunk by its limits at queues, and (K,) a chunk of each kind."""
    codes = np.zeros(len(work.work.chunks), dtype=np.int64)
    for column in kinds_of(work.work.chunks):
        codes = 2 * codes + np.asarray(column, dtype=np.int64)
    _, first, kind = np.unique(codes, return_index=True, return_inverse=True)
    return kind.astype(np.int64), first


def _limits(cycle: JobCycle, work: CycleWork) -> AnyArray:
    """(K, Q) of LIMITS: limits of the queues for the jobs of each kind of chunk."""
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
    # most rules apply to no task
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


def _break_rules(settings: SplitSettings) -> tuple[bool, bool, bool, bool]:
    return settings.continuous, bool(settings.boundary), settings.by_lumi, settings.boundary == WHOLE_BOUNDARY


def _next_start(starts: Bools) -> Ints:
    """(F,) for each file, the next one at which a new job starts; F if there is none. One starts at the first file."""
    bounds = np.append(np.flatnonzero(starts), len(starts))
    return np.asarray(np.repeat(bounds[1:], np.diff(bounds)), dtype=np.int64)
