"""The loop of the task brokerage over a block: weigh, draw, count the work for later tasks.

It follows :mod:`broker.engine.task.placing`, number by number.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.engine.compiled.empty_blocks import no_tasks
from broker.engine.compiled.jit import compiled
from broker.engine.compiled.loop_steps import REMAINING_WORK_FROM_LEAST
from broker.engine.task.placing import PlacedTasks, TaskBlock


def call_first() -> None:
    """Call the loop over a block without tasks, so that it is read or compiled.

    Raises:
        Exception: of nearly any type, if the cached file is damaged.
    """
    place_all(*no_tasks())


@compiled
def place_all(steps: Ints, given: Floats, block: TaskBlock, out: PlacedTasks) -> None:
    """Place the tasks of a block in order. ``steps`` (M,), ``given``: the moving weights by number, their arguments."""
    for task in range(len(block.preset)):
        tag, chosen = block.tag[task], block.preset[task]
        for nucleus in range(block.placed.shape[1]):
            out.before[task, nucleus] = block.placed[tag, nucleus]
        if chosen < 0:
            _weigh(task, steps, given, block, out)
            chosen = _drawn(task, block, out)
        out.chosen[task] = chosen
        if chosen >= 0:
            block.placed[tag, chosen] += block.adds[task]


@compiled
def _weigh(task: int, steps: Ints, given: Floats, block: TaskBlock, out: PlacedTasks) -> None:
    tag = block.tag[task]
    for pair in range(block.offset[task], block.offset[task + 1]):
        work = block.share_work[pair] + (0.0 if block.independent else block.placed[tag, block.nucleus[pair]])
        weight = 1.0
        for index in range(len(steps)):
            factor = _of_work(steps[index], given[index, 0], work)
            out.moving[index, pair] = factor
            weight *= factor
        for index in range(len(block.fixed)):
            weight *= block.fixed[index, pair]
        out.weight[pair] = weight


@compiled
def _of_work(step: int, least: float, work: float) -> float:
    if step == REMAINING_WORK_FROM_LEAST and not work >= least:
        return 1.0
    # like numpy.maximum: NaN if the work is NaN
    return 1.0 / (least if work <= least else work)


@compiled
def _drawn(task: int, block: TaskBlock, out: PlacedTasks) -> int:
    """Draw the nucleus of a task, -1 if it has no pairs or no finite weight."""
    first, last = block.offset[task], block.offset[task + 1]
    largest, chosen = -1.0, -1
    for pair in range(first, last):
        weight = out.weight[pair]
        if 0.0 <= weight < np.inf and weight > largest:
            largest = weight
            if chosen < 0:
                chosen = block.nucleus[pair]
    if not largest > 0.0:
        return chosen
    end = _sum_until(np.inf, largest, first, last, out)[1]
    pair = _sum_until(block.fraction[task] * end, largest, first, last, out)[0]
    return int(block.nucleus[pair])


@compiled
def _sum_until(limit: float, largest: float, first: int, last: int, out: PlacedTasks) -> tuple[int, float]:
    """The first pair with which the scaled weights sum to more, or the last one with a weight; and the sum."""
    total, choice = 0.0, first
    for pair in range(first, last):
        weight = out.weight[pair]
        if 0.0 <= weight < np.inf:
            total += weight / largest
            if weight > 0.0:
                choice = pair
            if total > limit:
                break
    return choice, total
