"""Cut jobs file by file, with files of secondary datasets, step by step as :mod:`broker.work.sequential`.

A chunk of six master files and a secondary of three, two master files a job, half a secondary file for each. Files are
numbered over the cycle, the master's 0 to 5 and the secondary's 6 to 8; queue 3 takes up to four jobs:

    numbers[1]  0 2 4         first master file of each job
    numbers[2]  2 4 6         stop of its master files
    numbers[4]  3 3 3         distinct files: two of the master, one of the secondary
    spans       6 7, 7 8, 8 9 first and stop of the secondary files of each job
    cursor      6 . 3 3       next master file (AT), jobs made (JOBS), spans written (SPAN)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from broker.domain.arrays import AnyArray, Floats, Ints
from broker.engine.compiled.columns import Files
from broker.engine.compiled.cutting import (
    AT,
    EVENTS_SUM,
    JOBS,
    KNOWN,
    LEAST_WALLTIME,
    MAX_FILES_IN_ALL,
    SIZE_SUM,
    SPAN,
    keeps,
    write_job,
)
from broker.engine.compiled.jit import compiled, inlined

#: The same as ``broker.work.input_files.NULL_INTEGER``.
NO_BOUNDARY = np.int64(-(2**63))
_LAST_BOUNDARY = np.int64(2**63 - 1)
#: Places in the content of a job: events and bytes of its master files, its distinct files and their bytes, the
#: events that are limited, and all its files.
EVENTS, SIZE, NAMES, STORED, LIMITED, IN_ALL = 0, 1, 2, 3, 4, 5
CONTENT = 6


@compiled
def taken_by_file(
    chunk: Any, queue: int, count: int, files: Files, uses: AnyArray, listed: AnyArray, fit: Floats, seconds: Ints,
    cursor: Ints, used: Ints, seen: Ints, spans: Ints, numbers: Ints, figures: Floats,
) -> int:  # fmt: skip
    """Write up to ``count`` jobs for a queue and return their number; ``used`` (S,) is updated."""
    size, secondaries, jobs = chunk.stop - chunk.start, len(used), 0
    own, job = np.empty((secondaries, 2), dtype=np.int64), np.empty(CONTENT, dtype=np.int64)
    while jobs < count and cursor[AT] < size:
        at = cursor[AT]
        stop, last, unlimited = at + 1, files.next_break[chunk.start + at] - chunk.start, True
        if chunk.at_once:
            last = stop = min(at + chunk.files_limit, size)
        else:
            unlimited = files.unlimited[chunk.start + at]
        _fill(chunk, at, stop, files.sums, files.events, uses, listed, used, seen, own, job)
        while stop < last:
            _fill(chunk, at, stop + 1, files.sums, files.events, uses, listed, used, seen, own, job)
            if not unlimited and not _within(chunk, at, stop + 1, fit, seconds, job):
                _fill(chunk, at, stop, files.sums, files.events, uses, listed, used, seen, own, job)
                break
            stop += 1
        walltime = np.nan
        if fit[KNOWN] > 0:
            walltime = chunk.base_walltime + (seconds[stop] - seconds[at])
        if walltime < fit[LEAST_WALLTIME]:
            break
        write_job(
            chunk, queue, chunk.start + at, chunk.start + stop, job[EVENTS], job[SIZE], job[STORED], job[NAMES],
            walltime, fit, cursor[JOBS], numbers, figures,
        )  # fmt: skip
        for index in range(secondaries):
            spans[cursor[SPAN] + index, 0], spans[cursor[SPAN] + index, 1] = own[index, 0], own[index, 1]
        _move_on(chunk, uses, listed, own, used)
        cursor[AT], cursor[JOBS], cursor[SPAN] = stop, cursor[JOBS] + 1, cursor[SPAN] + secondaries
        jobs += 1
    return jobs


@inlined
def _within(chunk: Any, at: int, stop: int, fit: Floats, seconds: Ints, job: Ints) -> bool:
    if stop - at > chunk.files_limit or job[IN_ALL] > MAX_FILES_IN_ALL:
        return False
    if 0 <= chunk.events_limit < job[LIMITED]:
        return False
    return keeps(chunk, job[EVENTS], job[SIZE], job[STORED], at, stop, fit, seconds)


@compiled
def _fill(
    chunk: Any, at: int, stop: int, sums: Ints, events: Ints, uses: AnyArray, listed: AnyArray, used: Ints, seen: Ints,
    spans: Ints, job: Ints,
) -> None:  # fmt: skip
    """Compute the content of a job of the master files from ``at`` to before ``stop``."""
    low, high = chunk.start + at, chunk.start + stop
    job[EVENTS] = job[LIMITED] = sums[EVENTS_SUM, high] - sums[EVENTS_SUM, low]
    job[SIZE], job[IN_ALL] = sums[SIZE_SUM, high] - sums[SIZE_SUM, low], stop - at
    job[NAMES], job[STORED] = 0, 0
    # a name has been seen in this job if its mark equals that of the job
    seen[0] += 1
    # the size of a file is that of the last row of its name in the master, else of the first row elsewhere
    for back in range(stop - at):
        _see(listed[chunk.listed + stop - 1 - back], seen, job)
    for index in range(len(used)):
        boundary = listed[chunk.listed + at].boundary
        first, end = _files_of(uses[chunk.uses + index], stop - at, boundary, used[index], job[EVENTS], sums, listed)
        spans[index, 0], spans[index, 1] = first, end
        job[IN_ALL] += end - first
        for place in range(first, end):
            _see(listed[place], seen, job)
    if chunk.secondary_events:
        job[LIMITED] = 0
        for place in range(spans[0, 0], spans[0, 1]):
            job[LIMITED] += events[listed[place].file]


@inlined
def _see(file: Any, seen: Ints, job: Ints) -> None:
    if seen[file.name] != seen[0]:
        seen[file.name] = seen[0]
        job[NAMES] += 1
        job[STORED] += file.bytes


@compiled
def _files_of(
    use: Any, master_files: int, boundary: int, used: int, events: int, sums: Ints, listed: AnyArray
) -> tuple[int, int]:
    """Span (first, stop) in the list of the files of a secondary that go with ``master_files`` master files."""
    first, count = use.first, use.count
    if use.nosplit:
        return int(first), int(first + count)
    if use.by_boundary >= 0 and boundary != NO_BOUNDARY:
        end = use.by_boundary + count
        low = _first_from(boundary, use.by_boundary, end, listed)
        return low, end if boundary == _LAST_BOUNDARY else _first_from(boundary + 1, low, end, listed)
    if use.files_per_job >= 0:
        wanted = use.files_per_job
    elif not math.isnan(use.event_ratio):
        wanted = _for_events(use, used, events * use.event_ratio, sums)
    else:
        wanted = np.int64(math.ceil(master_files * use.ratio))
    if use.reusable and used + wanted > count:
        used = 0
        if not math.isnan(use.event_ratio):
            wanted = _for_events(use, used, events * use.event_ratio, sums)
    return int(first + used), int(first + min(used + wanted, count))


@compiled
def _first_from(boundary: int, first: int, end: int, listed: AnyArray) -> int:
    """The first place from ``first`` on with this boundary or a later one, among files ordered by boundary."""
    while first < end:
        middle = (first + end) // 2
        if listed[middle].boundary < boundary:
            first = middle + 1
        else:
            end = middle
    return int(first)


@compiled
def _for_events(use: Any, used: int, wanted: float, sums: Ints) -> int:
    """How many files from ``used`` on hold ``wanted`` events; one more than are left if too few."""
    before = sums[EVENTS_SUM, use.file]
    target = float(sums[EVENTS_SUM, use.file + used] - before) + wanted
    stop = used
    while stop <= use.count and float(sums[EVENTS_SUM, use.file + stop] - before) < target:
        stop += 1
    return int(max(stop - used, 1))


@inlined
def _move_on(chunk: Any, uses: AnyArray, listed: AnyArray, spans: Ints, used: Ints) -> None:
    for index in range(len(used)):
        use = uses[chunk.uses + index]
        if not use.nosplit and spans[index, 1] > spans[index, 0]:
            used[index] = listed[spans[index, 1] - 1].file - use.file + 1
        if use.repeat and use.count > 0:
            used[index] = used[index] % use.count
