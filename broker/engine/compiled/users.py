"""The moving parts for users in an analysis cycle: two filters, the new weight, and the counts.

They follow the rules ``queue_cap`` and ``user_queue_length``, :mod:`broker.domain.analysis`,
:mod:`broker.engine.analysis.class_weights` and :mod:`broker.engine.analysis.load_tracking`, step by step.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats
from broker.engine.compiled.columns import Columns, FlatBlock, MovingRules, Outcome, UserPairs, UserState
from broker.engine.compiled.jit import compiled, inlined
from broker.engine.compiled.loop_steps import QUEUE_CAP
from broker.engine.compiled.ranking import larger, limit_of

#: Places of the arguments of the cap and of the new weight.
WAITING_TIMES, LEAST_RUNNING = 0, 1
LEAST_PART, LEAST = 0, 1
#: Rows of the load of pairs.
QUEUED, RUNNING, USERS, ALL_RUNNING, RATE, TYPE_QUEUED, TYPE_RUNNING = 0, 1, 2, 3, 4, 5, 6
#: Places of the values of the stabilizer, in the order of its keys.
LENGTH, WAIT_HOURS, USER_LENGTH, QUEUE_RATIO, RUNNING_RATIO, MAX_WAIT_HOURS = 0, 1, 2, 3, 4, 5
#: Rows of what was placed before a chunk.
OF_USER, OF_TYPE, NEW_USERS = 0, 1, 2
#: Numbers are summed eight at a time, in runs of no more than 128.
_SUMS, _RUN = 8, 128
#: More nested halves than any list of candidates has, and the mark of two sums to be added.
_DEPTH, _ADD = 128, -1


@inlined
def noted(b: int, row: int, users: UserState, out: Outcome) -> None:
    """Write the load that was placed before a chunk."""
    owner, share, kind = users.owner[row], users.share[row], users.kind[row]
    for at in range(users.of_user.shape[1]):
        out.users_before[OF_USER, b, at] = users.of_user[owner, at]
        out.users_before[OF_TYPE, b, at] = users.of_type[share, kind, at]
        out.users_before[NEW_USERS, b, at] = users.new_users[share, at]


@inlined
def counted(row: int, queue: int, at: int, users: UserState) -> None:
    """Count a job of the chunk at a candidate of the unified queue ``at``."""
    share, person = users.share[row], users.person[row]
    if not users.merging[row]:
        users.of_user[users.owner[row], at] += 1.0
    users.of_type[share, 0, at] += 1.0
    kind = users.queue_kind[queue] if users.queue_kind[queue] > 0 else users.kind[row]
    if kind > 0:
        users.of_type[share, kind, at] += 1.0
    if person >= 0 and not users.present[person, at]:
        users.new_users[share, at] += 1.0
        users.present[person, at] = True


@inlined
def _longest_queue(pair: int, of_users: float, given: Floats, load: Floats) -> float:
    """The number of jobs that the user may have queued there, by the values of the stabilizer."""
    running, rate = load[ALL_RUNNING, pair], load[RATE, pair]
    most = larger(larger(given[LENGTH], given[RUNNING_RATIO] * running), given[MAX_WAIT_HOURS] * rate)
    part = load[RUNNING, pair] / running if running > 0 else 0.0
    part = larger(part, 1.0 / larger(of_users, 1.0))
    return larger(larger(given[USER_LENGTH], given[QUEUE_RATIO] * running), most * part)


@inlined
def _below_cap(pair: int, given: Floats, load: Floats, of_type: float) -> bool:
    """Whether few enough jobs of the type wait, including placed ones."""
    queued = load[TYPE_QUEUED, pair] + of_type
    at_least = given[WAITING_TIMES] * given[LEAST_RUNNING]
    return bool(queued <= limit_of(at_least, given[WAITING_TIMES], load[TYPE_RUNNING, pair]))


@inlined
def _short_enough(
    pair: int, given: Floats, jobs: Floats, load: Floats, placed: float, of_user: float, new_users: float
) -> bool:
    """Whether the user's queue is short enough, including placed jobs."""
    defined = jobs[1, pair] + placed
    waiting = defined + jobs[2, pair] + jobs[3, pair] + jobs[4, pair]
    if not (waiting >= given[LENGTH] and waiting >= given[WAIT_HOURS] * load[RATE, pair]):
        return True
    of_users = load[USERS, pair] + new_users
    queued = load[QUEUED, pair] + of_user
    return bool(queued <= _longest_queue(pair, of_users, given, load))


@compiled
def brought_up_to_date(
    b: int, moving: MovingRules, block: FlatBlock, columns: Columns, users: UserState, pairs: UserPairs
) -> None:
    """Judge and weigh a chunk again with placed jobs."""
    row = block.row + b
    if not pairs.site_named[b]:
        _judged_again(b, row, moving, block, columns, users, pairs)
    if moving.new_weight >= 0:
        _weighed_again(b, row, moving, block, columns, users, pairs)


@compiled
def _judged_again(
    b: int, row: int, moving: MovingRules, block: FlatBlock, columns: Columns, users: UserState, pairs: UserPairs
) -> None:
    """Reject candidates that the filters do not keep with placed jobs."""
    # columns are read from their tuples once: reading them for each pair takes longer than the filters do
    share, merging, given = users.share[row], users.merging[row], moving.filter_arguments
    of_type, new_users, of_user = users.of_type[share, users.kind[row]], users.new_users[share], users.of_user
    placed, owner, ignored = block.placed[columns.chunks[row].accounting], users.owner[row], pairs.ignored
    load, jobs, left, position, of_pair = pairs.load, block.load, block.left, block.position, block.queue
    filters, reasons, queues = moving.filters, moving.reasons, columns.queues
    for pair in range(block.offset[b], block.offset[b + 1]):
        at = queues[of_pair[pair]].unified
        for index in range(len(filters)):
            if filters[index] == QUEUE_CAP:
                keeps = _below_cap(pair, given[index], load, of_type[at])
            elif merging or ignored[pair]:
                keeps = True
            else:
                keeps = _short_enough(
                    pair, given[index], jobs, load, placed[at], of_user[owner, at], new_users[at]
                )  # fmt: skip
            if not keeps:
                left[pair] = False
                # of the filters that reject for now, the last is shown
                position[b, of_pair[pair]] = reasons[index]


@compiled
def _weighed_again(
    b: int, row: int, moving: MovingRules, block: FlatBlock, columns: Columns, users: UserState, pairs: UserPairs
) -> None:
    """Compute the new weight with the room that is left."""
    queues, load, given, left, of_pair = columns.queues, pairs.load, moving.stabilizer, block.left, block.queue
    share, owner, merging, count = users.share[row], users.owner[row], users.merging[row], 0
    new_users, of_user, room = users.new_users[share], users.of_user[owner], np.zeros(len(queues))
    first, stop = block.offset[b], block.offset[b + 1]
    for pair in range(first, stop):
        if left[pair]:
            at = queues[of_pair[pair]].unified
            longest = _longest_queue(pair, load[USERS, pair] + new_users[at], given, load)
            room[of_pair[pair]] = larger(longest - (load[QUEUED, pair] + of_user[at]), 0.0)
            count += 1
    total, jobs = added_up(room), pairs.jobs[b]
    rest, least_part, least = total - jobs, moving.new_weight_arguments[LEAST_PART], moving.new_weight_arguments[LEAST]
    factors, fixed, classes, moves = block.factors, block.fixed, pairs.class_weight, moving.new_weight
    for pair in range(first, stop):
        if not left[pair]:
            continue
        own, w_s = room[of_pair[pair]], classes[pair]
        if rest > 0 and not merging:
            w_q = larger(own - jobs / count, least_part * w_s) / rest
        else:
            w_q = own / total if total > 0 else 1.0 / count
        factors[moves, pair] = w_s * w_q + least
        weight = 1.0
        for index in range(len(factors)):
            weight *= factors[index, pair]
        fixed[0, pair] = weight


@compiled
def _run_of(values: Floats, first: int, count: int) -> float:
    """Sum a run that is not halved."""
    total = 0.0
    if count < _SUMS:
        for at in range(first, first + count):
            total += values[at]
        return float(total)
    sums = values[first : first + _SUMS].copy()
    whole = count - count % _SUMS
    for at in range(_SUMS, whole):
        sums[at % _SUMS] += values[first + at]
    total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    for at in range(first + whole, first + count):
        total += values[at]
    return float(total)


@compiled
def added_up(values: Floats) -> float:
    """Sum numbers as numpy does: in nested halves, until these are short."""
    # a recursive function cannot be read back from the cache of compiled ones
    todo, left, sums, top = np.empty((_DEPTH, 2), dtype=np.int64), 1, np.empty(_DEPTH), 0
    todo[0, 0], todo[0, 1] = 0, len(values)
    while left:
        left -= 1
        first, count = todo[left, 0], todo[left, 1]
        if count == _ADD:
            top -= 1
            sums[top - 1] += sums[top]
        elif count <= _RUN:
            sums[top] = _run_of(values, first, count)
            top += 1
        else:
            half = count // 2
            half -= half % _SUMS
            todo[left, 1] = _ADD
            todo[left + 1, 0], todo[left + 1, 1] = first + half, count - half
            todo[left + 2, 0], todo[left + 2, 1] = first, half
            left += 3
    return float(sums[0])
