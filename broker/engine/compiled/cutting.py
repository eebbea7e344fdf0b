"""Cut runs of files into jobs for one queue, step by step as :class:`broker.work.cutting.RunCutter`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.engine.compiled.columns import Columns, Files, Outcome
from broker.engine.compiled.jit import compiled, inlined

MEGABYTE = 1048576.0
OUTPUT_FLOOR = 1500 * MEGABYTE
WORKDIR_FLOOR, MERGE_WORKDIR_FLOOR = 300 * MEGABYTE, 500 * MEGABYTE
MERGE_OUTPUT_RATIO = 1.2
DIRECT_SCOUT_MB, DIRECT_MB = 50_000, 500_000
DEFAULT_COREPOWER = 10.0
MAX_WALLTIME_S = 3.2e10
MAX_FILES_IN_ALL = 1_000
#: Places in the limits of a job at a queue.
DIRECT, WORK, SIZE, SCRATCH, WALLTIME, LEAST_WALLTIME, KNOWN = 0, 1, 2, 3, 4, 5, 6
LIMITS = 7
#: Places in the cursor of a chunk: next file, files of the job before, jobs made in the block, and spans.
AT, GUESS, JOBS, SPAN = 0, 1, 2, 3
#: Rows of the sums over files.
EVENTS_SUM, SIZE_SUM, BYTES_SUM, NAMES_SUM = 0, 1, 2, 3


@compiled
def job_limits(row: int, queue: int, columns: Columns, fit: Floats) -> None:
    """Fill ``fit`` (LIMITS,) with the limits of a job of the chunk at the queue, as ``JobFit`` computes them."""
    chunk = columns.chunks[row]
    limit, merging = columns.limits[chunk.kind, queue], chunk.merging
    direct = limit.direct and not merging
    least = MERGE_WORKDIR_FLOOR if merging else WORKDIR_FLOOR
    scratch = limit.scratch_mb
    fit[DIRECT] = 1.0 if direct else 0.0
    fit[WORK] = least if least > chunk.work_bytes else chunk.work_bytes
    fit[SIZE] = np.inf
    if not math.isnan(chunk.size_limit) and not merging:
        fit[SIZE] = chunk.size_limit + fit[WORK]
    elif direct and not chunk.has_rule:
        free = float(DIRECT_SCOUT_MB if chunk.scout else DIRECT_MB)
        fit[SIZE] = (free if free > scratch else scratch) * MEGABYTE
    fit[SCRATCH] = math.ceil(scratch) * MEGABYTE if scratch > 0 else np.inf
    fit[WALLTIME] = np.inf
    if chunk.max_walltime > 0:
        fit[WALLTIME] = chunk.max_walltime
    maxtime, mintime = limit.maxtime, limit.mintime
    if maxtime > 0 and maxtime < fit[WALLTIME]:
        fit[WALLTIME] = maxtime
    fit[LEAST_WALLTIME] = mintime if chunk.dynamic and mintime > 0 else 0.0


@inlined
def _bounded(seconds: float) -> float:
    seconds = seconds if seconds >= 0.0 else 0.0
    return MAX_WALLTIME_S if seconds > MAX_WALLTIME_S else seconds


@compiled
def walltimes(row: int, queue: int, columns: Columns, seconds: Ints) -> bool:
    """Fill ``seconds`` with prefix sums of the walltime that each file adds; return False if it is unknown."""
    chunk, files = columns.chunks[row], columns.files
    limit = columns.limits[chunk.kind, queue]
    cores = limit.cores if limit.cores > 0 else 1.0
    start, stop = chunk.start, chunk.stop
    per_event, per_mb = chunk.hs06s_per_event, chunk.walltime_s_per_mb
    seconds[0] = 0
    if not math.isnan(per_event):
        if chunk.efficiency <= 0:
            for at in range(stop - start):
                seconds[at + 1] = 0
            return True
        power = limit.corepower if limit.corepower > 0 else DEFAULT_COREPOWER
        each = _bounded(per_event / cores / power / chunk.efficiency / chunk.multiplicity)
        for at in range(stop - start):
            seconds[at + 1] = seconds[at] + np.int64(math.floor(_bounded(files.events[start + at] * each)))
        return True
    if not math.isnan(per_mb):
        each = _bounded(per_mb / cores)
        for at in range(stop - start):
            seconds[at + 1] = seconds[at] + np.int64(math.floor(_bounded(files.size[start + at] / MEGABYTE * each)))
        return True
    return False


@inlined
def _output(chunk: Any, events: int, size: int, stored: int) -> float:
    if chunk.merging:
        return MERGE_OUTPUT_RATIO * stored
    return float(chunk.out_per_event * events + chunk.out_per_mb * (size / MEGABYTE))


@inlined
def keeps(chunk: Any, events: int, size: int, stored: int, first: int, stop: int, fit: Floats, seconds: Ints) -> bool:
    """Whether a job with this content, of the files ``first`` to before ``stop``, keeps the limits of the queue."""
    output = _output(chunk, events, size, stored)
    space = (output if output > OUTPUT_FLOOR else OUTPUT_FLOOR) + fit[WORK]
    scratch = space if fit[DIRECT] > 0 else space + stored
    if not (scratch < fit[SCRATCH] and space + stored <= fit[SIZE] and output <= chunk.output_limit):
        return False
    return not (fit[KNOWN] > 0 and chunk.base_walltime + (seconds[stop] - seconds[first]) > fit[WALLTIME])


@inlined
def _fits(chunk: Any, sums: Ints, first_bytes: Ints, first: int, stop: int, fit: Floats, seconds: Ints) -> bool:
    """Whether the files of the chunk from ``first`` to before ``stop`` keep every limit."""
    low, high = chunk.start + first, chunk.start + stop
    events = sums[EVENTS_SUM, high] - sums[EVENTS_SUM, low]
    if 0 <= chunk.events_limit < events:
        return False
    stored = sums[BYTES_SUM, high] - sums[BYTES_SUM, low] + first_bytes[low]
    return keeps(chunk, events, sums[SIZE_SUM, high] - sums[SIZE_SUM, low], stored, first, stop, fit, seconds)


@compiled
def _end_of_job(chunk: Any, files: Files, at: int, fit: Floats, seconds: Ints, cursor: Ints) -> int:
    start, sums, first_bytes = chunk.start, files.sums, files.first_bytes
    last = files.next_break[start + at] - start
    if files.unlimited[start + at]:
        return int(last)
    last = min(last, at + chunk.files_limit, at + MAX_FILES_IN_ALL)
    end = max(min(at + cursor[GUESS], last), at + 1)
    if end > at + 1 and not _fits(chunk, sums, first_bytes, at, end, fit, seconds):
        end -= 1
        while end > at + 1 and not _fits(chunk, sums, first_bytes, at, end, fit, seconds):
            end -= 1
    else:
        while end < last and _fits(chunk, sums, first_bytes, at, end + 1, fit, seconds):
            end += 1
    cursor[GUESS] = end - at
    return int(end)


@compiled
def taken(
    row: int,
    queue: int,
    count: int,
    columns: Columns,
    fit: Floats,
    seconds: Ints,
    cursor: Ints,
    out: Outcome,
) -> int:
    """Write up to ``count`` jobs for a queue, and return their number."""
    chunk, files, numbers, figures = columns.chunks[row], columns.files, out.numbers, out.figures
    sums, first_bytes, first_names = files.sums, files.first_bytes, files.first_names
    size, at, jobs, growing = chunk.stop - chunk.start, cursor[AT], 0, True
    for _ in range(count):
        if at >= size:
            break
        if chunk.at_once:
            end = min(at + chunk.files_limit, size)
        else:
            end = _end_of_job(chunk, files, at, fit, seconds, cursor)
        walltime = np.nan
        if fit[KNOWN] > 0:
            walltime = chunk.base_walltime + (seconds[end] - seconds[at])
        # jobs after one that is too short are grown but left out, as they set the length that is tried first
        growing = growing and not walltime < fit[LEAST_WALLTIME]
        if growing:
            low, high = chunk.start + at, chunk.start + end
            write_job(
                chunk, queue, low, high, sums[EVENTS_SUM, high] - sums[EVENTS_SUM, low],
                sums[SIZE_SUM, high] - sums[SIZE_SUM, low],
                sums[BYTES_SUM, high] - sums[BYTES_SUM, low] + first_bytes[low],
                sums[NAMES_SUM, high] - sums[NAMES_SUM, low] + first_names[low],
                walltime, fit, cursor[JOBS] + jobs, numbers, figures,
            )  # fmt: skip
            jobs += 1
            cursor[AT] = end
        at = end
    cursor[JOBS] += jobs
    return jobs


@inlined
def write_job(
    chunk: Any, queue: int, low: int, high: int, events: int, size: int, stored: int, names: int, walltime: float,
    fit: Floats, job: int, numbers: Ints, figures: Floats,
) -> None:  # fmt: skip
    """Write a job of the master files from ``low`` to before ``high``, with this content in all."""
    output = _output(chunk, events, size, stored)
    need = (output if output > OUTPUT_FLOOR else OUTPUT_FLOOR) + fit[WORK] + (0 if fit[DIRECT] > 0 else stored)
    numbers[0, job], numbers[1, job], numbers[2, job], numbers[3, job] = queue, low, high, events
    numbers[4, job], numbers[5, job], numbers[6, job] = names, stored, np.int64(math.floor(need / MEGABYTE))
    figures[0, job], figures[1, job] = output / MEGABYTE, walltime
