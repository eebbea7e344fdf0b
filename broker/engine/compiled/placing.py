"""The loop of a cycle over a block: rank a chunk, draw its candidates, cut its jobs, count them for those after it.

The draw follows :mod:`broker.engine.shared.distribute`, number by number.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from broker.domain.arrays import AnyArray, Floats, Ints
from broker.engine.compiled.columns import Columns, FlatBlock, Moving, Outcome, UserPairs, UserState
from broker.engine.compiled.cutting import AT, GUESS, KNOWN, LIMITS, MADE, job_limits, taken, walltimes
from broker.engine.compiled.jit import compiled, inlined
from broker.engine.compiled.random_stream import below, fraction, seeded
from broker.engine.compiled.ranking import larger, ranked, waiting_at
from broker.engine.compiled.users import brought_up_to_date, counted, noted

_MOST = sys.float_info.max
#: Rows of the figures of candidates while they are drawn.
WEIGHT, QUEUED, CAP = 0, 1, 2
#: Rows of what is so of them.
BOOTSTRAP, WAITS, ALLOWED, TRIED = 0, 1, 2, 3


@compiled
def placed_until(
    start: int, seed: int, moving: Moving, block: FlatBlock, columns: Columns, users: UserState, pairs: UserPairs,
    out: Outcome,
) -> int:  # fmt: skip
    """Place the chunks of the block from ``start`` on; the first that is not simple is left, and its number given."""
    jobs, for_users = out.jobs[start - 1, 1] if start else 0, len(users.of_user) > 0
    for b in range(start, len(out.chosen)):
        row = block.row + b
        out.jobs[b, 0], out.jobs[b, 1] = jobs, jobs
        key = columns.chunks[row].accounting
        for at in range(block.placed.shape[1]):
            out.before[b, at] = block.placed[key, at]
        if for_users:
            noted(b, row, users, out)
        if block.offset[b] == block.offset[b + 1]:
            continue
        if not columns.chunks[row].simple:
            return b
        if for_users and block.moved[key]:
            brought_up_to_date(b, moving, block, columns, users, pairs)
        if not ranked(b, moving, block, columns, out):
            continue
        made = _placed(b, jobs, seed, moving, block, columns, out)
        for job in range(jobs, made):
            queue = out.numbers[0, job]
            at = columns.queues[queue].unified
            block.placed[key, at] += 1.0
            if for_users:
                counted(row, queue, at, users)
        if made > jobs:
            block.moved[key] = True
        jobs = made
        out.jobs[b, 1] = jobs
    return len(out.chosen)


@compiled
def _placed(
    b: int, jobs: int, seed: int, moving: Moving, block: FlatBlock, columns: Columns,
    out: Outcome,
) -> int:  # fmt: skip
    """Draw and cut the jobs of one chunk; the number of jobs of the block behind them."""
    row, count = block.row + b, out.chosen[b]
    figures, flags = np.empty((3, count)), np.zeros((4, count), dtype=np.bool_)
    _candidates(b, moving, block, columns, out, figures, flags)
    words, state = np.empty(4, dtype=np.int64), np.empty(6, dtype=np.uint64)
    chunk = columns.chunks[row]
    words[0], words[1], words[2], words[3] = seed, chunk.task, chunk.dataset, chunk.memory
    seeded(words, state)
    fit = np.zeros((count, LIMITS))
    seconds = np.empty((count, columns.chunks[row].stop - columns.chunks[row].start + 1), dtype=np.int64)
    cursor = np.empty(3, dtype=np.int64)
    cursor[AT], cursor[GUESS], cursor[MADE] = 0, 1, jobs
    for at in range(count):
        queue = out.place[b, at]
        job_limits(row, queue, columns, fit[at])
        flags[ALLOWED, at] = True
        # the sums of its walltimes are made when it is drawn first
        fit[at, KNOWN] = np.nan
    last = np.zeros(3, dtype=np.int64)
    ended = _pass(b, row, state, figures, flags, last, columns, fit, seconds, cursor, out)
    if ended and last[0] > 0 and last[0] < columns.queues[out.place[b, last[1]]].own_size:
        cursor[AT], cursor[MADE] = last[2], cursor[MADE] - last[0]
        for at in range(count):
            flags[ALLOWED, at] = columns.queues[out.place[b, at]].own_size <= 0
        _pass(b, row, state, figures, flags, last, columns, fit, seconds, cursor, out)
    return int(cursor[MADE])


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
    fit: Floats, seconds: Ints, cursor: Ints, out: Outcome,
) -> bool:  # fmt: skip
    """Give out jobs until no files are left (true) or nobody can take more. ``last``: jobs, candidate, file before."""
    size = columns.chunks[row].stop - columns.chunks[row].start
    _try_all(flags)
    while cursor[AT] < size:
        at = _drawn(state, figures, flags)
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
        made = taken(row, out.place[b, at], wanted, columns, fit[at], seconds[at], cursor, out)
        if made:
            last[0], last[1], last[2] = made, at, before
            _try_all(flags)
        else:
            flags[WAITS, at], figures[QUEUED, at], figures[WEIGHT, at] = waits, queued, weight
            flags[TRIED, at] = False
    return True


@inlined
def _try_all(flags: AnyArray) -> None:
    for at in range(flags.shape[1]):
        flags[TRIED, at] = flags[ALLOWED, at]


@compiled
def _drawn(state: AnyArray, figures: Floats, flags: AnyArray) -> int:
    """A candidate among those to be tried, -1 for none: those that start first, each once, then by weight."""
    count = figures.shape[1]
    starting, open_, weighty, total = 0, 0, 0, 0.0
    for at in range(count):
        starting += flags[WAITS, at] and flags[TRIED, at]
        if _is_open(at, figures, flags):
            open_ += 1
            if figures[WEIGHT, at] > 0:
                weighty += 1
                total += figures[WEIGHT, at]
    if starting:
        return _start_at(below(state, starting), flags)
    if not open_:
        return -1
    if not weighty:
        return _open_at(below(state, open_), figures, flags)
    drawn, total, found = fraction(state) * total, 0.0, -1
    for at in range(count):
        if _is_open(at, figures, flags) and figures[WEIGHT, at] > 0:
            total += figures[WEIGHT, at]
            found = at
            if drawn < total:
                break
    return found


@inlined
def _is_open(at: int, figures: Floats, flags: AnyArray) -> bool:
    return bool(flags[TRIED, at] and not flags[BOOTSTRAP, at] and figures[QUEUED, at] < figures[CAP, at])


@compiled
def _start_at(number: int, flags: AnyArray) -> int:
    for at in range(flags.shape[1]):
        if flags[WAITS, at] and flags[TRIED, at]:
            if not number:
                return at
            number -= 1
    return -1


@compiled
def _open_at(number: int, figures: Floats, flags: AnyArray) -> int:
    for at in range(figures.shape[1]):
        if _is_open(at, figures, flags):
            if not number:
                return at
            number -= 1
    return -1
