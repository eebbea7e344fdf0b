"""Ranking the candidates of one chunk: the same steps as :func:`broker.engine.shared.rank.rank`, in the same order."""

from __future__ import annotations

import numpy as np

from broker.engine.compiled.columns import Columns, FlatBlock, Moving, Outcome
from broker.engine.compiled.jit import compiled
from broker.engine.compiled.steps import ANALYSIS_RUNNING_QUEUED, BELOW_MIN_WEIGHT, CAP_WITHOUT_DEFINED

FEASIBLE = -1


@compiled
def larger(one: float, other: float) -> float:
    """As ``numpy.maximum``: NaN if either is."""
    return one if one >= other or one != one else other


@compiled
def moving_factor(step: int, pair: int, defined: float, block: FlatBlock) -> float:
    """The factor of a moving weight."""
    load = block.load
    if step == ANALYSIS_RUNNING_QUEUED:
        return float((load[0, pair] + 1.0) / (defined + load[2, pair] + load[3, pair] + load[4, pair] + 1.0))
    return running_queued(load[0, pair], defined, load[2, pair], load[3, pair], load[4, pair], block.all_local[pair])


@compiled
def running_queued(
    running: float, defined: float, assigned: float, activated: float, starting: float, local: bool
) -> float:
    """As the rule of this name."""
    waiting = activated + starting
    waiting += defined
    waiting += 10.0
    many = (assigned + 1.0) / (activated + 1.0)
    if many < 1.0:
        many = 1.0
    elif many > 2.0:
        many = 2.0
    if local:
        many = 1.0
    else:
        waiting += assigned
    return (running + 1.0) / waiting / many


@compiled
def waiting_at(step: int, defined: float, assigned: float, activated: float, starting: float, local: bool) -> float:
    """The jobs that count against the cap of a queue, as the rule ``cap`` counts them."""
    waiting = defined + activated + starting + (0.0 if local else assigned)
    return waiting - defined if step == CAP_WITHOUT_DEFINED else waiting


@compiled
def _weight_of(pair: int, defined: float, moving: Moving, block: FlatBlock) -> float:
    weight = 1.0
    for index in range(len(moving.weights)):
        weight *= moving_factor(moving.weights[index], pair, defined, block)
    for factor in range(len(block.fixed)):
        weight *= block.fixed[factor, pair]
    return weight


@compiled
def _cut_of(
    b: int, pair: int, defined: float, weight: float, starts: bool, moving: Moving, block: FlatBlock, columns: Columns
) -> int:
    """The index of the cut that takes the pair, -1 for none."""
    load, chunk = block.load, columns.chunks[block.row + b]
    if not 0.0 <= weight < np.inf:
        return len(moving.cuts) + 2
    for index in range(len(moving.cuts)):
        step = moving.cuts[index]
        if step == BELOW_MIN_WEIGHT:
            keep = starts or not weight < chunk.min_weight
        else:
            limit = larger(chunk.queue_limit, 2.0 * load[0, pair])
            local = block.all_local[pair]
            keep = waiting_at(step, defined, load[2, pair], load[3, pair], load[4, pair], local) <= limit
            keep = keep or block.urgent[b]
        if not keep:
            return index
    return -1


@compiled
def ranked(b: int, moving: Moving, block: FlatBlock, columns: Columns, out: Outcome) -> int:
    """Rank the candidates of chunk ``b`` of the block, and write what is chosen; how many are."""
    chunk, load = columns.chunks[block.row + b], block.load
    key, late, best = chunk.accounting, len(moving.cuts) + moving.behind, block.best[b]
    pairs, measured = np.empty(best, dtype=np.int64), np.empty(best)
    found = 0
    for pair in range(block.offset[b], block.offset[b + 1]):
        if not block.left[pair]:
            continue
        out.ranked[b] = True
        queue = block.queue[pair]
        defined = load[1, pair] + block.placed[key, columns.queues[queue].unified]
        jobs = load[0, pair] + load[3, pair] + load[2, pair] + load[4, pair] + defined
        starts = jobs == 0.0 and chunk.may_bootstrap
        weight = _weight_of(pair, defined, moving, block)
        cut = _cut_of(b, pair, defined, weight, starts, moving, block, columns)
        if cut >= 0:
            block.position[b, queue] = cut + moving.behind
            continue
        value = np.inf if starts else weight
        if found == best and not value > measured[found - 1]:
            block.position[b, queue] = late + 1 if starts else late
            continue
        if found == best:
            found -= 1
            block.position[b, block.queue[pairs[found]]] = late + 1 if measured[found] == np.inf else late
        at = found
        # of equal ones the first by name stays ahead
        while at > 0 and value > measured[at - 1]:
            pairs[at], measured[at] = pairs[at - 1], measured[at - 1]
            at -= 1
        pairs[at], measured[at] = pair, value
        block.position[b, queue] = FEASIBLE
        found += 1
    out.chosen[b] = found
    for at in range(found):
        _written(b, at, pairs[at], measured[at] == np.inf, moving, block, columns, out)
    return found


@compiled
def _written(
    b: int,
    at: int,
    pair: int,
    starts: bool,
    moving: Moving,
    block: FlatBlock,
    columns: Columns,
    out: Outcome,
) -> None:
    queue, load = block.queue[pair], block.load
    defined = load[1, pair] + block.placed[columns.chunks[block.row + b].accounting, columns.queues[queue].unified]
    count = len(moving.weights)
    out.place[b, at] = queue
    out.pair[b, at] = pair
    out.bootstrap[b, at] = starts
    out.weight[b, at] = _weight_of(pair, defined, moving, block)
    for index in range(count):
        out.factors[b, index, at] = moving_factor(moving.weights[index], pair, defined, block)
    for index in range(len(block.factors)):
        out.factors[b, count + index, at] = block.factors[index, pair]
