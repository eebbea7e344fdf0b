"""Cutting runs of files into jobs for one queue: as :class:`broker.work.cutting.RunCutter`, step by step."""

from __future__ import annotations

import math

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.engine.compiled.columns import Chunks, Files, Outcome, Queues
from broker.engine.compiled.jit import compiled

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
#: Places in the cursor of a chunk: next file, files of the job before, jobs made in the block.
AT, GUESS, MADE = 0, 1, 2


@compiled
def job_limits(row: int, queue: int, chunks: Chunks, queues: Queues, fit: Floats) -> None:
    """Fill ``fit`` (LIMITS,) with what a job of the chunk may have at the queue, as ``JobFit`` works it out."""
    kind, merging = chunks.kind[row], chunks.merging[row]
    direct = queues.direct[kind, queue] and not merging
    least = MERGE_WORKDIR_FLOOR if merging else WORKDIR_FLOOR
    scratch = queues.scratch_mb[kind, queue]
    fit[DIRECT] = 1.0 if direct else 0.0
    fit[WORK] = least if least > chunks.work_bytes[row] else chunks.work_bytes[row]
    fit[SIZE] = np.inf
    if not math.isnan(chunks.size_limit[row]) and not merging:
        fit[SIZE] = chunks.size_limit[row] + fit[WORK]
    elif direct and not chunks.has_rule[row]:
        free = float(DIRECT_SCOUT_MB if chunks.scout[row] else DIRECT_MB)
        fit[SIZE] = (free if free > scratch else scratch) * MEGABYTE
    fit[SCRATCH] = math.ceil(scratch) * MEGABYTE if scratch > 0 else np.inf
    fit[WALLTIME] = np.inf
    if chunks.max_walltime[row] > 0:
        fit[WALLTIME] = chunks.max_walltime[row]
    maxtime, mintime = queues.maxtime[kind, queue], queues.mintime[kind, queue]
    if maxtime > 0 and maxtime < fit[WALLTIME]:
        fit[WALLTIME] = maxtime
    fit[LEAST_WALLTIME] = mintime if chunks.dynamic[row] and mintime > 0 else 0.0


@compiled
def _bounded(seconds: float) -> float:
    seconds = seconds if seconds >= 0.0 else 0.0
    return MAX_WALLTIME_S if seconds > MAX_WALLTIME_S else seconds


@compiled
def walltimes(row: int, queue: int, chunks: Chunks, queues: Queues, files: Files, seconds: Ints) -> bool:
    """Fill ``seconds`` with the sums of what each file of the chunk adds to the walltime; false if nothing is known."""
    kind = chunks.kind[row]
    cores = queues.cores[kind, queue] if queues.cores[kind, queue] > 0 else 1.0
    start, stop = chunks.start[row], chunks.stop[row]
    per_event, per_mb = chunks.hs06s_per_event[row], chunks.walltime_s_per_mb[row]
    seconds[0] = 0
    if not math.isnan(per_event):
        if chunks.efficiency[row] <= 0:
            seconds[: stop - start + 1] = 0
            return True
        power = queues.corepower[kind, queue] if queues.corepower[kind, queue] > 0 else DEFAULT_COREPOWER
        each = _bounded(per_event / cores / power / chunks.efficiency[row] / chunks.multiplicity[row])
        for at in range(stop - start):
            seconds[at + 1] = seconds[at] + np.int64(math.floor(_bounded(files.events[start + at] * each)))
        return True
    if not math.isnan(per_mb):
        each = _bounded(per_mb / cores)
        for at in range(stop - start):
            seconds[at + 1] = seconds[at] + np.int64(math.floor(_bounded(files.size[start + at] / MEGABYTE * each)))
        return True
    return False


@compiled
def _output(row: int, events: int, size: int, stored: int, chunks: Chunks) -> float:
    if chunks.merging[row]:
        return MERGE_OUTPUT_RATIO * stored
    return float(chunks.out_per_event[row] * events + chunks.out_per_mb[row] * (size / MEGABYTE))


@compiled
def _fits(row: int, first: int, stop: int, chunks: Chunks, files: Files, fit: Floats, seconds: Ints) -> bool:
    """Whether the files of the chunk from ``first`` to before ``stop`` keep every limit."""
    start = chunks.start[row]
    low, high = start + first, start + stop
    events = files.events_sum[high] - files.events_sum[low]
    if 0 <= chunks.events_limit[row] < events:
        return False
    stored = files.bytes_sum[high] - files.bytes_sum[low] + files.first_bytes[low]
    output = _output(row, events, files.size_sum[high] - files.size_sum[low], stored, chunks)
    space = (output if output > OUTPUT_FLOOR else OUTPUT_FLOOR) + fit[WORK]
    scratch = space if fit[DIRECT] > 0 else space + stored
    if not (scratch < fit[SCRATCH] and space + stored <= fit[SIZE] and output <= chunks.output_limit[row]):
        return False
    return not (fit[KNOWN] > 0 and chunks.base_walltime[row] + (seconds[stop] - seconds[first]) > fit[WALLTIME])


@compiled
def _end_of_job(row: int, at: int, chunks: Chunks, files: Files, fit: Floats, seconds: Ints, cursor: Ints) -> int:
    start = chunks.start[row]
    last = files.next_break[start + at] - start
    if files.unlimited[start + at]:
        return int(last)
    last = min(last, at + chunks.files_limit[row], at + MAX_FILES_IN_ALL)
    end = max(min(at + cursor[GUESS], last), at + 1)
    if end > at + 1 and not _fits(row, at, end, chunks, files, fit, seconds):
        end -= 1
        while end > at + 1 and not _fits(row, at, end, chunks, files, fit, seconds):
            end -= 1
    else:
        while end < last and _fits(row, at, end + 1, chunks, files, fit, seconds):
            end += 1
    cursor[GUESS] = end - at
    return int(end)


@compiled
def taken(
    row: int,
    queue: int,
    count: int,
    chunks: Chunks,
    files: Files,
    fit: Floats,
    seconds: Ints,
    cursor: Ints,
    out: Outcome,
) -> int:
    """Write up to ``count`` jobs for a queue behind those that there are; how many."""
    size, at, made, growing = chunks.stop[row] - chunks.start[row], cursor[AT], 0, True
    for _ in range(count):
        if at >= size:
            break
        if chunks.at_once[row]:
            end = min(at + chunks.files_limit[row], size)
        else:
            end = _end_of_job(row, at, chunks, files, fit, seconds, cursor)
        walltime = np.nan
        if fit[KNOWN] > 0:
            walltime = chunks.base_walltime[row] + (seconds[end] - seconds[at])
        # jobs behind one that is too short are grown and left out, as they set the length that is tried first
        growing = growing and not walltime < fit[LEAST_WALLTIME]
        if growing:
            _write_job(row, queue, at, end, walltime, chunks, files, fit, cursor[MADE] + made, out)
            made += 1
            cursor[AT] = end
        at = end
    cursor[MADE] += made
    return made


@compiled
def _write_job(
    row: int,
    queue: int,
    first: int,
    stop: int,
    walltime: float,
    chunks: Chunks,
    files: Files,
    fit: Floats,
    job: int,
    out: Outcome,
) -> None:
    low, high = chunks.start[row] + first, chunks.start[row] + stop
    events = files.events_sum[high] - files.events_sum[low]
    stored = files.bytes_sum[high] - files.bytes_sum[low] + files.first_bytes[low]
    output = _output(row, events, files.size_sum[high] - files.size_sum[low], stored, chunks)
    need = (output if output > OUTPUT_FLOOR else OUTPUT_FLOOR) + fit[WORK] + (0 if fit[DIRECT] > 0 else stored)
    numbers = out.numbers
    numbers[0, job], numbers[1, job], numbers[2, job], numbers[3, job] = queue, low, high, events
    numbers[4, job] = files.names_sum[high] - files.names_sum[low] + files.first_names[low]
    numbers[5, job], numbers[6, job] = stored, np.int64(math.floor(need / MEGABYTE))
    out.figures[0, job], out.figures[1, job] = output / MEGABYTE, walltime
