"""The work of a cycle as the compiled loop takes it: how each chunk is cut, what queues allow, sums over all files."""

from __future__ import annotations

import math

import numpy as np

from broker.brokerages.job.chunk_jobs import kinds_of, limit_columns
from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.domain.estimates import OUTPUT_FLOOR_BYTES
from broker.engine.compiled.columns import Chunks, Files, MovingState, Queues
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.distribute import group_size
from broker.work.assemble import CycleWork
from broker.work.breaks import range_breaks
from broker.work.input_files import NULL_INTEGER
from broker.work.job_model import GIGABYTE_BYTES, JobModel
from broker.work.split_settings import WHOLE_BOUNDARY, SplitSettings

#: Numbers below this are one word of a seed.
ONE_WORD = 2**32
#: Figures of tasks above this are left to the path that counts with whole numbers of any size.
_LARGE = 1e15


def flat_chunks(cycle: JobCycle, work: CycleWork, state: MovingState) -> Chunks:
    """The columns of the chunks."""
    chunks, inputs = work.work.chunks, work.inputs
    rows = range(len(chunks))
    masters = [inputs.inputs_of(row) for row in rows]
    models = np.array([_figures(work.model(row)) for row in rows], dtype=np.float64).reshape(len(chunks), 8).T
    settings = np.array([_settings(one) for one in work.settings], dtype=np.float64).reshape(len(chunks), 10).T
    offsets, identity = inputs.offsets.tolist(), _identity(work)
    groups = zip(chunks.scout.tolist(), chunks.merging.tolist(), strict=True)
    counted: list[AnyArray] = [
        np.array(state.accounting, dtype=np.int64),
        np.array(state.queue_limit, dtype=np.float64),
        np.array(state.min_weight, dtype=np.float64),
        np.array(state.may_bootstrap, dtype=np.bool_),
        np.array([group_size(scout, merging, hpo=False) for scout, merging in groups], dtype=np.int64),
        identity,
        _simple(work, masters, models, settings, identity),
        np.array([offsets[own.start] if own else 0 for own in masters], dtype=np.int64),
        np.array([offsets[own.start + 1] if own else 0 for own in masters], dtype=np.int64),
    ]
    flags = [np.array(settings[at] > 0, dtype=np.bool_) for at in range(5)]
    whole = [settings[at].astype(np.int64) for at in (5, 6)]
    limits = [np.array(settings[at]) for at in (7, 8, 9)]
    figures = [np.array(column) for column in models]
    columns: list[AnyArray] = [*counted, *flags, *whole, *limits, *figures, _kinds(work)[0]]
    return Chunks(*columns)


def _simple(work: CycleWork, masters: list[range], models: Floats, settings: Floats, identity: Ints) -> Bools:
    """(T,): one dataset of runs of files, in one place, and no figure that the loop would round in another way."""
    sums, spread = work.inputs.sums, work.spread_replicas
    simple = [
        len(own) == 1 and sums.names_in_one_run(own.start) and row not in spread for row, own in enumerate(masters)
    ]
    figures = np.concatenate([models, settings])
    sound = (np.abs(np.nan_to_num(figures)) < _LARGE).all(axis=0) & (models[4] > 0)
    return np.asarray(np.array(simple, dtype=np.bool_) & sound & (identity < ONE_WORD).all(axis=1))


def _identity(work: CycleWork) -> Ints:
    """(T, 3): the words of the random stream of each chunk beside the seed."""
    chunks = work.work.chunks
    ram = np.where(np.isnan(chunks.ramcount), 0.0, np.abs(np.trunc(np.nan_to_num(chunks.ramcount)) + 1.0))
    return np.array(
        [np.abs(chunks.jeditaskid), np.abs(chunks.datasetid), ram.astype(np.int64)], dtype=np.int64
    ).T.copy()


def _settings(one: SplitSettings) -> tuple[float, ...]:
    """What the loop reads of the rules of a task: five flags, two whole numbers, three limits."""
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


def _figures(model: JobModel) -> tuple[float, ...]:
    return (
        model.hs06s_per_event,
        model.walltime_s_per_mb,
        model.base_walltime_s,
        model.efficiency,
        model.multiplicity,
        model.out_bytes_per_event,
        model.out_bytes_per_mb,
        model.work_bytes,
    )


def _kinds(work: CycleWork) -> tuple[Ints, Ints]:
    """(T,) the kind of each chunk by the limits that it has at queues, and (K,) a chunk of each kind."""
    codes = np.zeros(len(work.work.chunks), dtype=np.int64)
    for column in kinds_of(work.work.chunks):
        codes = 2 * codes + np.asarray(column, dtype=np.int64)
    _, first, kind = np.unique(codes, return_index=True, return_inverse=True)
    return kind.astype(np.int64), first


def flat_queues(cycle: JobCycle, work: CycleWork) -> Queues:
    """The columns of the queues, and what they allow the jobs of each kind of chunk."""
    queues = cycle.snapshot.queues
    every = np.arange(len(queues))
    kinds = [limit_columns(work.work.chunks, int(row), queues, every) for row in _kinds(work)[1]]
    *limits, direct = (
        np.array([kind[at] for kind in kinds], dtype=np.float64).reshape(len(kinds), len(queues)) for at in range(6)
    )
    columns: list[AnyArray] = [
        np.array(queues.unified, dtype=np.int64),
        np.array(cycle.job_chunk_size, dtype=np.int64),
        *limits,
        direct > 0,
    ]
    return Queues(*columns)


def flat_files(work: CycleWork) -> Files:
    """The columns of the files, with where a job has to start anew by the rules of their tasks."""
    inputs, sums = work.inputs, work.inputs.sums
    files = inputs.files
    lengths = np.diff(inputs.offsets)
    rules = np.array([_break_rules(work.settings[row]) for row in inputs.chunk.tolist()], dtype=np.bool_)
    continuous, boundary, lumi, whole = np.repeat(rules.reshape(-1, 4), lengths, axis=0).T
    starts = np.zeros(len(files), dtype=np.bool_)
    starts[inputs.offsets[:-1][lengths > 0]] = True
    if continuous.any():
        starts |= continuous & range_breaks(files)
    starts[1:] |= boundary[1:] & (files.boundaryid[1:] != files.boundaryid[:-1])
    starts[1:] |= lumi[1:] & (files.lumiblocknr[1:] != files.lumiblocknr[:-1])
    unlimited = np.array(whole & (files.boundaryid != NULL_INTEGER), dtype=np.bool_)
    own, before = ([np.array(column, dtype=np.int64) for column in some] for some in (sums.columns, sums.sums))
    columns: list[AnyArray] = [*own, _next_start(starts), unlimited, *before]
    return Files(*columns)


def _break_rules(one: SplitSettings) -> tuple[bool, bool, bool, bool]:
    return one.continuous, bool(one.boundary), one.by_lumi, one.boundary == WHOLE_BOUNDARY


def _next_start(starts: Bools) -> Ints:
    """(F,) for each file the next one at which a job starts anew; F when there is none."""
    found = np.append(np.flatnonzero(starts), len(starts))
    return found[np.searchsorted(found, np.arange(len(starts)), side="right")].astype(np.int64)
