"""Rank the candidates of one chunk, with the same steps as :func:`broker.engine.shared.rank.rank`, in the same order.

Three chunks, four queues, seven feasible pairs, at most two candidates each; two filters, so ``behind`` is 4:

    offset      0 3 5 7                     chunk b has the pairs offset[b]:offset[b + 1]
    queue       0 1 3 | 1 2 | 0 2           running    9 4 0 | 4 2 | 9 2     activated  3 8 0 | 8 1 | 3 1
    place       3 0 | 2 1 | 0 2             (B, K) chosen queues, best first; queue 3 has no jobs and bootstraps
    pair        2 0 | 4 3 | 5 6             (B, K) their positions in ``queue``
    position    -1 5 -2 -1 of chunk 0       queue 1 lost: 5 = behind + 1, as ``low_weight`` follows the one cut
    weight      1 2.5 | 1.5 0.56 | 2.5 1.5  jobs of chunk 0 count for chunk 1, not for chunk 2 of another key
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.domain.waiting_limit import waiting_limit
from broker.engine.compiled.columns import Columns, FlatBlock, MovingRules, Outcome
from broker.engine.compiled.jit import compiled, inlined
from broker.engine.compiled.loop_steps import ANALYSIS_RUNNING_QUEUED, BELOW_MIN_WEIGHT, CAP_WITHOUT_DEFINED

FEASIBLE = -1
#: The function of the rules, for numbers.
limit_of = inlined(waiting_limit)


@inlined
def larger(one: float, other: float) -> float:
    """The larger of two numbers, NaN if either is, as ``numpy.maximum``."""
    return one if one >= other or one != one else other


@inlined
def moving_factor(step: int, given: Floats, pair: int, defined: float, load: Floats, local: bool) -> float:
    """The factor of a moving weight; ``given`` are its arguments."""
    if step == ANALYSIS_RUNNING_QUEUED:
        return float((load[0, pair] + 1.0) / (defined + load[2, pair] + load[3, pair] + load[4, pair] + 1.0))
    return running_queued(given, load[0, pair], defined, load[2, pair], load[3, pair], load[4, pair], local)


@inlined
def running_queued(
    given: Floats, running: float, defined: float, assigned: float, activated: float, starting: float, local: bool
) -> float:
    """The factor of the rule ``running_queued``."""
    waiting = activated + starting
    waiting += defined
    waiting += given[0]
    many = (assigned + 1.0) / (activated + 1.0)
    if many < 1.0:
        many = 1.0
    if many > given[1]:
        many = given[1]
    if local:
        many = 1.0
    else:
        waiting += assigned
    return float((running + 1.0) / waiting / many)


@inlined
def waiting_at(step: int, defined: float, assigned: float, activated: float, starting: float, local: bool) -> float:
    """The jobs that count against the cap of a queue, as the rule ``cap`` counts them."""
    waiting = defined + activated + starting + (0.0 if local else assigned)
    return waiting - defined if step == CAP_WITHOUT_DEFINED else waiting


@inlined
def _weight_of(
    pair: int, defined: float, steps: Ints, given: Floats, load: Floats, local: bool, fixed: Floats
) -> float:
    weight = 1.0
    for index in range(len(steps)):
        weight *= moving_factor(steps[index], given[index], pair, defined, load, local)
    for factor in range(len(fixed)):
        weight *= fixed[factor, pair]
    return weight


@inlined
def _cut_of(
    pair: int, defined: float, weight: float, starts: bool, cuts: Ints, given: Floats, load: Floats, local: bool,
    urgent: bool, queue_limit: float, min_weight: float,
) -> int:  # fmt: skip
    """The index of the cut that rejects the pair, -1 for none."""
    if not 0.0 <= weight < np.inf:
        return len(cuts) + 2
    for index in range(len(cuts)):
        step = cuts[index]
        if step == BELOW_MIN_WEIGHT:
            keep = starts or not weight < min_weight
        else:
            limit = limit_of(queue_limit, given[index, 0], load[0, pair])
            keep = waiting_at(step, defined, load[2, pair], load[3, pair], load[4, pair], local) <= limit
            keep = keep or urgent
        if not keep:
            return index
    return -1


@compiled
def ranked(b: int, moving: MovingRules, block: FlatBlock, columns: Columns, out: Outcome) -> int:
    """Rank the candidates of chunk ``b`` of the block, write the chosen ones, and return their number."""
    # columns are read from their tuples once: reading them for each pair takes longer than ranking it
    chunk, queues, steps, cuts = columns.chunks[block.row + b], columns.queues, moving.weights, moving.cuts
    of_weights, of_cuts = moving.weight_arguments, moving.cut_arguments
    load, fixed, of_pair, left, local = block.load, block.fixed, block.queue, block.left, block.all_local
    placed, position, behind, best = block.placed[chunk.accounting], block.position, moving.behind, block.best[b]
    may_bootstrap, queue_limit, min_weight = chunk.may_bootstrap, chunk.queue_limit, chunk.min_weight
    late, urgent, count, first, stop = len(cuts) + behind, block.urgent[b], 0, block.offset[b], block.offset[b + 1]
    pairs, measured = np.empty(best, dtype=np.int64), np.empty(best)
    for pair in range(first, stop):
        if not left[pair]:
            continue
        out.ranked[b] = True
        queue = of_pair[pair]
        defined = load[1, pair] + placed[queues[queue].unified]
        jobs = load[0, pair] + load[3, pair] + load[2, pair] + load[4, pair] + defined
        starts = jobs == 0.0 and may_bootstrap
        weight = _weight_of(pair, defined, steps, of_weights, load, local[pair], fixed)
        cut = _cut_of(
            pair, defined, weight, starts, cuts, of_cuts, load, local[pair], urgent, queue_limit, min_weight
        )  # fmt: skip
        if cut >= 0:
            position[b, queue] = cut + behind
            continue
        value = np.inf if starts else weight
        if count == best and not value > measured[count - 1]:
            position[b, queue] = late + 1 if starts else late
            continue
        if count == best:
            count -= 1
            position[b, of_pair[pairs[count]]] = late + 1 if measured[count] == np.inf else late
        at = count
        # among equal weights, the first by name stays ahead
        while at > 0 and value > measured[at - 1]:
            pairs[at], measured[at] = pairs[at - 1], measured[at - 1]
            at -= 1
        pairs[at], measured[at] = pair, value
        position[b, queue] = FEASIBLE
        count += 1
    out.chosen[b] = count
    for at in range(count):
        _written(b, at, pairs[at], measured[at] == np.inf, moving, block, columns, out)
    return count


@compiled
def _written(
    b: int,
    at: int,
    pair: int,
    starts: bool,
    moving: MovingRules,
    block: FlatBlock,
    columns: Columns,
    out: Outcome,
) -> None:
    queue, load, local = block.queue[pair], block.load, block.all_local[pair]
    defined = load[1, pair] + block.placed[columns.chunks[block.row + b].accounting, columns.queues[queue].unified]
    steps, given, factors = moving.weights, moving.weight_arguments, out.factors
    count = len(steps)
    out.place[b, at] = queue
    out.pair[b, at] = pair
    out.bootstrap[b, at] = starts
    out.weight[b, at] = _weight_of(pair, defined, steps, given, load, local, block.fixed)
    for index in range(count):
        factors[b, index, at] = moving_factor(steps[index], given[index], pair, defined, load, local)
    for index in range(len(block.factors)):
        factors[b, count + index, at] = block.factors[index, pair]
