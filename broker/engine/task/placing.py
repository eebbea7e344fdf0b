"""Place the tasks of a block in order: weigh, draw, and count the work for later tasks.

A block of tasks against nuclei is stored as flat columns: one row per pair that no filter rejected, task after task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.engine.shared.evaluate import RULE_ERRORS, fault_of
from broker.engine.shared.filter_cache import RuleFault
from broker.rules.contract import NucleusLoadWeight, Rule


class TaskBlock(NamedTuple):
    """B tasks with their P pairs, as the cycle judged them, before anything of the block is placed.

    Attributes:
        first: position of the first task in the work.
        preset: (B,) the nucleus that a task has already, -1 for none; such a task has no pairs.
        offset: (B + 1,) where the pairs of each task begin.
        nucleus: (P,) of each pair, by name within a task.
        share_work: (P,) HS06 s that remained of the task's share when the cycle began.
        fixed: (F, P) the factors that do not move.
        tag: (B,) the row of ``placed`` in which the work of each task counts.
        adds: (B,) HS06 s that a task adds where it is placed.
        fraction: (B,) the number that each task draws, in [0, 1).
        placed: (K, N) HS06 s that the cycle has placed; updated with each task.
        independent: whether placed work is ignored.
    """

    first: int
    preset: Ints
    offset: Ints
    nucleus: Ints
    share_work: Floats
    fixed: Floats
    tag: Ints
    adds: Floats
    fraction: Floats
    placed: Floats
    independent: bool


class PlacedTasks(NamedTuple):
    """Result of placing the tasks of a block.

    Attributes:
        chosen: (B,) the nucleus that was drawn, -1 for none.
        moving: (M, P) the factors that move with placed work.
        weight: (P,) the product of all factors, the moving ones first.
        before: (B, N) HS06 s that the cycle had placed for the share before each task.
        faults: (B,) how many faults of rules were known when the task was decided.
    """

    chosen: Ints
    moving: Floats
    weight: Floats
    before: Floats
    faults: Ints


def room_for(block: TaskBlock, moving: int) -> PlacedTasks:
    """Arrays for the outcome of a block whose chain has ``moving`` moving weights."""
    pairs = len(block.nucleus)
    return PlacedTasks(
        chosen=np.full(len(block.preset), -1, dtype=np.int64),
        moving=np.ones((moving, pairs)),
        weight=np.ones(pairs),
        before=np.zeros((len(block.preset), block.placed.shape[1])),
        faults=np.zeros(len(block.preset), dtype=np.int64),
    )


def ranked(block: TaskBlock, out: PlacedTasks, finite: Bools) -> AnyArray:
    """(P,): the pairs of each task in the order of its candidates.

    The drawn nucleus comes first, the others follow by weight and name; those without a finite weight come last.
    """
    count = np.diff(block.offset)
    task = np.repeat(np.arange(len(block.preset)), count)
    at = np.arange(len(task)) - block.offset[task]
    key = np.full((len(block.preset), int(count.max(initial=0))), np.inf)
    value = np.where(finite, -out.weight, np.inf)
    value[block.nucleus == out.chosen[task]] = -np.inf
    key[task, at] = value
    order = np.argsort(key, axis=1, kind="stable")
    return np.asarray((order + block.offset[:-1, None])[np.arange(key.shape[1]) < count[:, None]])


def place_each(
    block: TaskBlock, rules: Sequence[NucleusLoadWeight], faults: list[RuleFault], before: Floats | None = None
) -> PlacedTasks:
    """Place the tasks of a block in order.

    Args:
        block: of tasks; its ``placed`` is updated.
        rules: the moving weights.
        faults: rules that fail are added.
        before: (B, N) HS06 s to count as placed before each task, instead of the work placed here.
    """
    out = room_for(block, len(rules))
    bounds, presets, fractions = block.offset.tolist(), block.preset.tolist(), block.fraction.tolist()
    for at, (tag, adds) in enumerate(zip(block.tag.tolist(), block.adds.tolist(), strict=True)):
        placed = block.placed[tag]
        if before is not None:
            placed[:] = before[at]
        out.before[at] = placed
        chosen, first, last = presets[at], bounds[at], bounds[at + 1]
        if chosen < 0 and first < last:
            _weigh(block, out, slice(first, last), placed, rules, faults)
            chosen = _drawn(block, out, slice(first, last), fractions[at])
        out.faults[at] = len(faults)
        if chosen >= 0:
            out.chosen[at] = chosen
            placed[chosen] += adds
    return out


def _weigh(
    block: TaskBlock,
    out: PlacedTasks,
    pairs: slice,
    placed: Floats,
    rules: Sequence[NucleusLoadWeight],
    faults: list[RuleFault],
) -> None:
    work, weight = block.share_work[pairs], out.weight[pairs]
    work = work + (0.0 if block.independent else placed[block.nucleus[pairs]])
    for rule, factor in zip(rules, out.moving[:, pairs], strict=True):
        factor[:] = answer(rule, partial(rule.factor, work), work.shape, faults)
        np.multiply(weight, factor, out=weight)
    for factor in block.fixed[:, pairs]:
        np.multiply(weight, factor, out=weight)


def answer(rule: Rule, ask: Callable[[], Floats], shape: tuple[int, ...], faults: list[RuleFault]) -> Floats:
    """The factor of a weight, 1 if the weight is broken."""
    try:
        factor = np.asarray(ask(), dtype=np.float64)
        # nearly always it has the shape, and the check costs less than broadcasting
        return factor if factor.shape == shape else np.broadcast_to(factor, shape)
    except RULE_ERRORS as error:  # it has no effect
        faults.append(fault_of(rule, error))
        return np.ones(shape)


def _drawn(block: TaskBlock, out: PlacedTasks, pairs: slice, fraction: float) -> int:
    """The nucleus of a task, -1 if no weight is a finite number."""
    weight, nucleus = out.weight[pairs], block.nucleus[pairs]
    # NaN is the smallest and the largest of all
    if not (np.minimum.reduce(weight) >= 0 and np.maximum.reduce(weight) < np.inf):
        finite = (weight >= 0) & (weight < np.inf)
        weight, nucleus = weight[finite], nucleus[finite]
    return int(nucleus[drawn(weight, fraction)]) if len(weight) else -1


def drawn(weight: Floats, fraction: float) -> int:
    """A position, drawn with a chance in proportion to its weight; the first if all weights are 0.

    Weights are finite and not negative. They are scaled, so that their sum is finite as well.

    Args:
        weight: (C,), not empty.
        fraction: the random number that decides, in [0, 1).
    """
    largest = np.maximum.reduce(weight)
    if not largest > 0:
        return 0
    ends = np.add.accumulate(weight / largest)
    at = int(ends.searchsorted(fraction * ends[-1], side="right"))
    # rounding may carry the draw past the end: then the last position with a weight is meant
    return at if at < len(weight) else int(np.flatnonzero(weight)[-1])
