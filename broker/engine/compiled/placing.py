"""The loop of a cycle over a block: rank a chunk, draw its candidates, cut its jobs, count them for later chunks.

The block of :mod:`broker.engine.compiled.ranking` (three chunks, four queues), six files a chunk, two files a job,
chunks 0 and 1 of accounting key 0, chunk 2 of key 1:

    jobs        0 3 | 3 6 | 6 9           (B, 2) first and stop of the jobs of each chunk
    numbers[0]  3 3 0 | 2 2 2 | 2 2 0     (J,) queue of each job: drawn by weight, bootstrap first
    numbers[1]  0 2 4 | 6 8 10 | 12 ..    (J,) its first file
    before      0 0 0 0 | 1 0 0 2 | 0 ..  (B, U) jobs placed for the key before the chunk: key 1 starts at 0
    placed      1 0 3 2 | 1 0 2 0         (A, U) jobs placed for each key after the block

The draw follows :mod:`broker.engine.shared.distribute`, number by number.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.engine.compiled.by_file import taken_by_file
from broker.engine.compiled.columns import Columns, FlatBlock, MovingRules, Outcome, Parts, UserPairs, UserState
from broker.engine.compiled.cutting import AT, GUESS, JOBS, KNOWN, LIMITS, SPAN, job_limits, taken, walltimes
from broker.engine.compiled.empty_blocks import no_chunks
from broker.engine.compiled.jit import compiled, inlined
from broker.engine.compiled.random_stream import below, fraction, seeded
from broker.engine.compiled.ranking import limit_of, ranked, waiting_at
from broker.engine.compiled.users import brought_up_to_date, counted, noted

_MOST = sys.float_info.max
#: Rows of the figures of candidates during the draw.
WEIGHT, QUEUED, CAP = 0, 1, 2
#: Boolean flags of candidates, by row.
BOOTSTRAP, WAITS, ALLOWED, TRIED, HERE = 0, 1, 2, 3, 4
#: Files used of each secondary, by row: now, before the last assignment, and before the last jobs of a pass.
NOW, BEFORE, AT_LAST = 0, 1, 2


def call_first() -> None:
    """Call the loop over a block without chunks, so that it is read or compiled.

    Raises:
        Exception: of nearly any type, if the cached file is damaged.
    """
    placed_until(*no_chunks())


@compiled
def placed_until(
    start: int, seed: int, moving: MovingRules, block: FlatBlock, columns: Columns, users: UserState, pairs: UserPairs,
    out: Outcome,
) -> int:  # fmt: skip
    """Place the chunks of the block from ``start`` on; return the first that the loop cannot place, or their number."""
    jobs, for_users = out.jobs[start - 1, 1] if start else 0, len(users.of_user) > 0
    spans = out.span_of[start - 1, 1] if start else 0
    for b in range(start, len(out.chosen)):
        row = block.row + b
        out.jobs[b, 0], out.jobs[b, 1] = jobs, jobs
        out.span_of[b, 0], out.span_of[b, 1] = spans, spans
        key = columns.chunks[row].accounting
        for at in range(block.placed.shape[1]):
            out.before[b, at] = block.placed[key, at]
        if for_users:
            noted(b, row, users, out)
        if block.offset[b] == block.offset[b + 1]:
            continue
        if not columns.chunks[row].by_loop:
            return b
        if for_users and block.moved[key]:
            brought_up_to_date(b, moving, block, columns, users, pairs)
        if not ranked(b, moving, block, columns, out):
            continue
        total = _placed(b, jobs, spans, seed, moving, block, columns, out)
        for job in range(jobs, total):
            queue = out.numbers[0, job]
            at = columns.queues[queue].unified
            block.placed[key, at] += 1.0
            if for_users:
                counted(row, queue, at, users)
        if total > jobs:
            block.moved[key] = True
        spans += (total - jobs) * (columns.chunks[row].uses_stop - columns.chunks[row].uses)
        jobs = total
        out.jobs[b, 1], out.span_of[b, 1] = jobs, spans
    return len(out.chosen)


@compiled
def _placed(
    b: int, jobs: int, spans: int, seed: int, moving: MovingRules, block: FlatBlock, columns: Columns,
    out: Outcome,
) -> int:  # fmt: skip
    """Draw and cut the jobs of one chunk, and return the number of jobs of the block so far."""
    row, count = block.row + b, out.chosen[b]
    figures, flags = np.empty((3, count)), np.zeros((5, count), dtype=np.bool_)
    _candidates(b, moving, block, columns, out, figures, flags)
    words, state = np.empty(4, dtype=np.int64), np.empty(6, dtype=np.uint64)
    chunk = columns.chunks[row]
    words[0], words[1], words[2], words[3] = seed, chunk.task, chunk.dataset, chunk.memory
    seeded(words, state)
    size, spread = chunk.stop - chunk.start, chunk.replicas_stop > chunk.replicas
    fit, seconds = np.zeros((count, LIMITS)), np.empty((count, size + 1), dtype=np.int64)
    cursor = np.empty(4, dtype=np.int64)
    cursor[AT], cursor[GUESS], cursor[JOBS], cursor[SPAN] = 0, 1, jobs, spans
    used = np.zeros((3, chunk.uses_stop - chunk.uses), dtype=np.int64)
    seen = np.zeros(chunk.names + 1 if chunk.by_file else 0, dtype=np.int64)
    # (C, F) which candidates have which files; empty unless parts of the master are in different places
    holds = np.zeros((count if spread else 0, size), dtype=np.bool_)
    for at in range(count):
        queue = out.place[b, at]
        job_limits(row, queue, columns, fit[at])
        flags[ALLOWED, at] = True
        # the sums of its walltimes are computed when it is first drawn
        fit[at, KNOWN] = np.nan
        if spread:
            _find_files(chunk.replicas, chunk.replicas_stop, columns.queues[queue].unified, columns.parts, holds[at])
    last = np.zeros(3, dtype=np.int64)
    ended = _pass(b, row, state, figures, flags, last, columns, fit, seconds, cursor, used, seen, holds, out)
    if ended and last[0] > 0 and last[0] < columns.queues[out.place[b, last[1]]].own_size:
        _give_back(last[0], last[2], AT_LAST, cursor, used)
        for at in range(count):
            flags[ALLOWED, at] = _own_size(columns, row, out.place[b, at]) == 0
        _pass(b, row, state, figures, flags, last, columns, fit, seconds, cursor, used, seen, holds, out)
    return int(cursor[JOBS])


@compiled
def _find_files(first: int, stop: int, unified: int, parts: Parts, holds: Bools) -> None:
    """Mark the files that a unified queue reads from the replicas ``first`` to before ``stop``."""
    for replica in range(first, stop):
        if parts.reads[parts.storage[replica], unified]:
            held = parts.held_from[replica]
            for file in range(len(holds)):
                holds[file] |= held < 0 or parts.held[held + file]


@inlined
def _give_back(jobs: int, file: int, row: int, cursor: Ints, used: Ints) -> None:
    """Undo the last ``jobs`` jobs of a chunk: return to a file, and to the use of secondaries in ``row``."""
    cursor[AT], cursor[JOBS], cursor[SPAN] = file, cursor[JOBS] - jobs, cursor[SPAN] - jobs * used.shape[1]
    _copy(row, NOW, used)


@inlined
def _copy(row: int, to: int, used: Ints) -> None:
    for index in range(used.shape[1]):
        used[to, index] = used[row, index]


@compiled
def _candidates(
    b: int, moving: MovingRules, block: FlatBlock, columns: Columns, out: Outcome, figures: Floats,
    flags: AnyArray,
) -> None:  # fmt: skip
    """Fill in weight, waiting jobs and cap of each chosen candidate, and whether it bootstraps."""
    row, load = block.row + b, block.load
    for at in range(out.chosen[b]):
        pair, weight = out.pair[b, at], out.weight[b, at]
        defined = load[1, pair] + out.before[b, columns.queues[out.place[b, at]].unified]
        local = block.all_local[pair]
        waiting = waiting_at(moving.room, defined, load[2, pair], load[3, pair], load[4, pair], local)
        cap = limit_of(columns.chunks[row].queue_limit, moving.room_arguments[0], load[0, pair])
        figures[WEIGHT, at] = weight if 0.0 < weight < np.inf else 0.0
        figures[QUEUED, at] = 0.0 if math.isnan(waiting) else min(max(waiting, -_MOST), _MOST)
        unlimited = block.urgent[b] or math.isnan(cap) or math.isnan(waiting)
        figures[CAP, at] = np.inf if unlimited else cap
        flags[BOOTSTRAP, at] = flags[WAITS, at] = out.bootstrap[b, at]


@compiled
def _pass(
    b: int, row: int, state: AnyArray, figures: Floats, flags: AnyArray, last: Ints, columns: Columns,
    fit: Floats, seconds: Ints, cursor: Ints, used: Ints, seen: Ints, holds: Bools, out: Outcome,
) -> bool:  # fmt: skip
    """Assign jobs until no files (True) or candidates are left. ``last``: jobs, candidate, first file of the last."""
    chunk, spread = columns.chunks[row], len(holds) > 0
    size = chunk.stop - chunk.start
    _try_all(flags)
    while cursor[AT] < size:
        at = -1
        if spread:
            for one in range(flags.shape[1]):
                flags[HERE, one] = flags[TRIED, one] and holds[one, cursor[AT]]
            at = _drawn(HERE, state, figures, flags)
        if at < 0:
            at = _drawn(TRIED, state, figures, flags)
        if at < 0:
            return False
        own = _own_size(columns, row, out.place[b, at])
        wanted = abs(own) if own != 0 else columns.chunks[row].group
        waits, queued, weight = flags[WAITS, at], figures[QUEUED, at], figures[WEIGHT, at]
        if math.isnan(fit[at, KNOWN]):
            fit[at, KNOWN] = 1.0 if walltimes(row, out.place[b, at], columns, seconds[at]) else 0.0
        flags[WAITS, at] = False
        figures[QUEUED, at] = queued + wanted
        figures[WEIGHT, at] = weight * ((queued + 1.0) / (queued + wanted + 1.0))
        before, queue, jobs = cursor[AT], out.place[b, at], 0
        _copy(NOW, BEFORE, used)
        # a candidate that lacks files of a job gets no more jobs after it
        for again in range(2):
            if chunk.by_file:
                jobs = taken_by_file(
                    chunk, queue, wanted, columns.files, columns.parts.uses, columns.parts.listed, fit[at], seconds[at],
                    cursor, used[NOW], seen, out.spans, out.numbers, out.figures,
                )  # fmt: skip
            else:
                jobs = taken(row, queue, wanted, columns, fit[at], seconds[at], cursor, out)
            whole = _until_split(cursor[JOBS] - jobs, jobs, chunk.start, holds[at], out.numbers) if spread else jobs
            if again or whole == jobs:
                break
            wanted = whole
            _give_back(jobs, before, BEFORE, cursor, used)
        if jobs:
            last[0], last[1], last[2] = jobs, at, before
            _copy(BEFORE, AT_LAST, used)
            _try_again(at, own, flags)
        else:
            flags[WAITS, at], figures[QUEUED, at], figures[WEIGHT, at] = waits, queued, weight
            flags[TRIED, at] = False
    return True


@compiled
def _until_split(first: int, count: int, start: int, here: Bools, numbers: Ints) -> int:
    """Count the jobs from ``first`` on, up to one that begins with a file that is here and ends with one that is not.

    Positions count from the file ``start``.
    """
    for job in range(count):
        if here[numbers[1, first + job] - start] and not here[numbers[2, first + job] - start - 1]:
            return job + 1
    return count


@inlined
def _own_size(columns: Columns, row: int, queue: int) -> int:
    """Jobs that a chunk gives a queue at a time: 0 for the usual number; negative once, unless it is the only queue."""
    own = columns.queues[queue].own_size
    return 0 if own < 0 and columns.chunks[row].one_queue else own


@inlined
def _try_again(at: int, own: int, flags: AnyArray) -> None:
    """Allow all candidates again after one got jobs, except one that gets jobs only once."""
    if own < 0:
        flags[ALLOWED, at] = False
    _try_all(flags)


@inlined
def _try_all(flags: AnyArray) -> None:
    for at in range(flags.shape[1]):
        flags[TRIED, at] = flags[ALLOWED, at]


@compiled
def _drawn(usable: int, state: AnyArray, figures: Floats, flags: AnyArray) -> int:
    """Draw a candidate among those with a flag, -1 for none: bootstrap ones first, each once, then by weight."""
    count = figures.shape[1]
    starting, open_, weighty, total = 0, 0, 0, 0.0
    for at in range(count):
        starting += flags[WAITS, at] and flags[usable, at]
        if _is_open(usable, at, figures, flags):
            open_ += 1
            if figures[WEIGHT, at] > 0:
                weighty += 1
                total += figures[WEIGHT, at]
    if starting:
        return _start_at(usable, below(state, starting), flags)
    if not open_:
        return -1
    if not weighty:
        return _open_at(usable, below(state, open_), figures, flags)
    drawn, total, choice = fraction(state) * total, 0.0, -1
    for at in range(count):
        if _is_open(usable, at, figures, flags) and figures[WEIGHT, at] > 0:
            total += figures[WEIGHT, at]
            choice = at
            if drawn < total:
                break
    return choice


@inlined
def _is_open(usable: int, at: int, figures: Floats, flags: AnyArray) -> bool:
    return bool(flags[usable, at] and not flags[BOOTSTRAP, at] and figures[QUEUED, at] < figures[CAP, at])


@compiled
def _start_at(usable: int, number: int, flags: AnyArray) -> int:
    for at in range(flags.shape[1]):
        if flags[WAITS, at] and flags[usable, at]:
            if not number:
                return at
            number -= 1
    return -1


@compiled
def _open_at(usable: int, number: int, figures: Floats, flags: AnyArray) -> int:
    for at in range(figures.shape[1]):
        if _is_open(usable, at, figures, flags):
            if not number:
                return at
            number -= 1
    return -1
