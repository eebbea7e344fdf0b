"""The loop of a cycle over a block: rank a chunk, draw its candidates, cut its jobs, count them for those after it.

The draw follows :mod:`broker.engine.shared.distribute`, number by number.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.engine.compiled.by_file import taken_by_file
from broker.engine.compiled.columns import Columns, FlatBlock, Moving, Outcome, UserPairs, UserState
from broker.engine.compiled.cutting import AT, GUESS, KNOWN, LIMITS, MADE, SPAN, job_limits, taken, walltimes
from broker.engine.compiled.jit import compiled, inlined
from broker.engine.compiled.random_stream import below, fraction, seeded
from broker.engine.compiled.ranking import larger, ranked, waiting_at
from broker.engine.compiled.users import brought_up_to_date, counted, noted

_MOST = sys.float_info.max
#: Rows of the figures of candidates while they are drawn.
WEIGHT, QUEUED, CAP = 0, 1, 2
#: Rows of what is so of them.
BOOTSTRAP, WAITS, ALLOWED, TRIED, HERE = 0, 1, 2, 3, 4
#: Rows of how far secondaries have been used: now, before what was made last, and before the last jobs of a pass.
NOW, BEFORE, AT_LAST = 0, 1, 2


class Making(NamedTuple):
    """What is kept while the jobs of one chunk of F files are made for C candidates.

    Attributes:
        fit: (C, LIMITS) what each allows.
        seconds: (C, F + 1) sums of walltimes there, made when it is drawn first.
        cursor: how far the chunk has been cut.
        used: (3, S) how far its secondary datasets have been used.
        seen: names that the job at hand has.
        holds: (C, F) which candidates have which files; empty unless parts of the master are in different places.
    """

    fit: Floats
    seconds: Ints
    cursor: Ints
    used: Ints
    seen: Ints
    holds: Bools


@compiled
def placed_until(
    start: int, seed: int, moving: Moving, block: FlatBlock, columns: Columns, users: UserState, pairs: UserPairs,
    out: Outcome,
) -> int:  # fmt: skip
    """Place the chunks of the block from ``start`` on; the first that is not for the loop is left, its number given."""
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
        made = _placed(b, jobs, spans, seed, moving, block, columns, out)
        for job in range(jobs, made):
            queue = out.numbers[0, job]
            at = columns.queues[queue].unified
            block.placed[key, at] += 1.0
            if for_users:
                counted(row, queue, at, users)
        if made > jobs:
            block.moved[key] = True
        spans += (made - jobs) * (columns.chunks[row].uses_stop - columns.chunks[row].uses)
        jobs = made
        out.jobs[b, 1], out.span_of[b, 1] = jobs, spans
    return len(out.chosen)


@compiled
def _placed(
    b: int, jobs: int, spans: int, seed: int, moving: Moving, block: FlatBlock, columns: Columns,
    out: Outcome,
) -> int:  # fmt: skip
    """Draw and cut the jobs of one chunk; the number of jobs of the block behind them."""
    row, count = block.row + b, out.chosen[b]
    figures, flags = np.empty((3, count)), np.zeros((5, count), dtype=np.bool_)
    _candidates(b, moving, block, columns, out, figures, flags)
    words, state = np.empty(4, dtype=np.int64), np.empty(6, dtype=np.uint64)
    chunk = columns.chunks[row]
    words[0], words[1], words[2], words[3] = seed, chunk.task, chunk.dataset, chunk.memory
    seeded(words, state)
    making = _making(b, row, jobs, spans, columns, out)
    cursor = making.cursor
    for at in range(count):
        flags[ALLOWED, at] = True
    last = np.zeros(3, dtype=np.int64)
    ended = _pass(b, row, state, figures, flags, last, columns, making, out)
    if ended and last[0] > 0 and last[0] < columns.queues[out.place[b, last[1]]].own_size:
        _give_back(last[0], last[2], AT_LAST, making)
        for at in range(count):
            flags[ALLOWED, at] = columns.queues[out.place[b, at]].own_size <= 0
        _pass(b, row, state, figures, flags, last, columns, making, out)
    return int(cursor[MADE])


@compiled
def _making(b: int, row: int, jobs: int, spans: int, columns: Columns, out: Outcome) -> Making:
    """A chunk before its first job."""
    chunk, count = columns.chunks[row], out.chosen[b]
    size = chunk.stop - chunk.start
    fit, seconds = np.zeros((count, LIMITS)), np.empty((count, size + 1), dtype=np.int64)
    for at in range(count):
        job_limits(row, out.place[b, at], columns, fit[at])
        fit[at, KNOWN] = np.nan
    cursor = np.empty(4, dtype=np.int64)
    cursor[AT], cursor[GUESS], cursor[MADE], cursor[SPAN] = 0, 1, jobs, spans
    used = np.zeros((3, chunk.uses_stop - chunk.uses), dtype=np.int64)
    seen = np.zeros(chunk.names + 1 if chunk.by_file else 0, dtype=np.int64)
    spread = chunk.replicas_stop > chunk.replicas
    holds = np.zeros((count if spread else 0, size), dtype=np.bool_)
    if spread:
        for at in range(count):
            _find_files(row, columns.queues[out.place[b, at]].unified, columns, holds[at])
    return Making(fit, seconds, cursor, used, seen, holds)


@compiled
def _find_files(row: int, unified: int, columns: Columns, holds: Bools) -> None:
    """Mark the files of a chunk that a unified queue reads somewhere."""
    chunk, parts = columns.chunks[row], columns.parts
    for replica in range(chunk.replicas, chunk.replicas_stop):
        if parts.reads[parts.storage[replica], unified]:
            first = parts.held_from[replica]
            for file in range(len(holds)):
                holds[file] |= first < 0 or parts.held[first + file]


@inlined
def _give_back(jobs: int, file: int, used: int, making: Making) -> None:
    """Undo the last ``jobs`` jobs of a chunk, which began with a file and with secondaries ``used`` so far."""
    making.cursor[AT], making.cursor[MADE] = file, making.cursor[MADE] - jobs
    making.cursor[SPAN] -= jobs * making.used.shape[1]
    for index in range(making.used.shape[1]):
        making.used[NOW, index] = making.used[used, index]


@compiled
def _candidates(
    b: int, moving: Moving, block: FlatBlock, columns: Columns, out: Outcome, figures: Floats,
    flags: AnyArray,
) -> None:  # fmt: skip
    """Weight, waiting jobs and cap of each chosen candidate, and whether it starts."""
    row, load = block.row + b, block.load
    for at in range(out.chosen[b]):
        pair, weight = out.pair[b, at], out.weight[b, at]
        defined = load[1, pair] + out.before[b, columns.queues[out.place[b, at]].unified]
        local = block.all_local[pair]
        waiting = waiting_at(moving.room, defined, load[2, pair], load[3, pair], load[4, pair], local)
        cap = larger(columns.chunks[row].queue_limit, 2.0 * load[0, pair])
        figures[WEIGHT, at] = weight if 0.0 < weight < np.inf else 0.0
        figures[QUEUED, at] = 0.0 if math.isnan(waiting) else min(max(waiting, -_MOST), _MOST)
        unlimited = block.urgent[b] or math.isnan(cap) or math.isnan(waiting)
        figures[CAP, at] = np.inf if unlimited else cap
        flags[BOOTSTRAP, at] = flags[WAITS, at] = out.bootstrap[b, at]


@compiled
def _pass(
    b: int, row: int, state: AnyArray, figures: Floats, flags: AnyArray, last: Ints, columns: Columns,
    making: Making, out: Outcome,
) -> bool:  # fmt: skip
    """Give out jobs until no files are left (true) or nobody can take more. ``last``: jobs, candidate, file before."""
    size = columns.chunks[row].stop - columns.chunks[row].start
    fit, seconds, cursor, used, spread = making.fit, making.seconds, making.cursor, making.used, len(making.holds) > 0
    _try_all(flags)
    while cursor[AT] < size:
        at = -1
        if spread:
            for one in range(flags.shape[1]):
                flags[HERE, one] = flags[TRIED, one] and making.holds[one, cursor[AT]]
            at = _drawn(HERE, state, figures, flags)
        if at < 0:
            at = _drawn(TRIED, state, figures, flags)
        if at < 0:
            return False
        own = columns.queues[out.place[b, at]].own_size
        wanted = own if own > 0 else columns.chunks[row].group
        waits, queued, weight = flags[WAITS, at], figures[QUEUED, at], figures[WEIGHT, at]
        if math.isnan(fit[at, KNOWN]):
            fit[at, KNOWN] = 1.0 if walltimes(row, out.place[b, at], columns, seconds[at]) else 0.0
        flags[WAITS, at] = False
        figures[QUEUED, at] = queued + wanted
        figures[WEIGHT, at] = weight * ((queued + 1.0) / (queued + wanted + 1.0))
        before = cursor[AT]
        for index in range(used.shape[1]):
            used[BEFORE, index] = used[NOW, index]
        made = _made(row, at, out.place[b, at], wanted, columns, making, out)
        if spread and made:
            kept = _until_split(row, at, made, columns, making, out)
            if kept < made:
                _give_back(made, before, BEFORE, making)
                made = _made(row, at, out.place[b, at], kept, columns, making, out)
        if made:
            last[0], last[1], last[2] = made, at, before
            for index in range(used.shape[1]):
                used[AT_LAST, index] = used[BEFORE, index]
            _try_all(flags)
        else:
            flags[WAITS, at], figures[QUEUED, at], figures[WEIGHT, at] = waits, queued, weight
            flags[TRIED, at] = False
    return True


@compiled
def _made(row: int, at: int, queue: int, count: int, columns: Columns, making: Making, out: Outcome) -> int:
    """Make up to ``count`` jobs for a candidate; how many there are."""
    fit, seconds, cursor = making.fit[at], making.seconds[at], making.cursor
    if columns.chunks[row].by_file:
        return taken_by_file(
            row, queue, count, columns, fit, seconds, cursor, making.used[NOW], making.seen, out
        )  # fmt: skip
    return taken(row, queue, count, columns, fit, seconds, cursor, out)


@compiled
def _until_split(row: int, at: int, made: int, columns: Columns, making: Making, out: Outcome) -> int:
    """How many of the last jobs there are up to one that begins with a file that is here and ends with another."""
    start, first, here = columns.chunks[row].start, making.cursor[MADE] - made, making.holds[at]
    for job in range(made):
        low, high = out.numbers[1, first + job] - start, out.numbers[2, first + job] - start
        if here[low] and not here[high - 1]:
            return job + 1
    return made


@inlined
def _try_all(flags: AnyArray) -> None:
    for at in range(flags.shape[1]):
        flags[TRIED, at] = flags[ALLOWED, at]


@compiled
def _drawn(usable: int, state: AnyArray, figures: Floats, flags: AnyArray) -> int:
    """A candidate of those with a flag, -1 for none: those that start first, each once, then by weight."""
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
    drawn, total, found = fraction(state) * total, 0.0, -1
    for at in range(count):
        if _is_open(usable, at, figures, flags) and figures[WEIGHT, at] > 0:
            total += figures[WEIGHT, at]
            found = at
            if drawn < total:
                break
    return found


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
