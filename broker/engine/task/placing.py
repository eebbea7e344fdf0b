"""Place the tasks of a block in order: weigh, draw, and count the work for later tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from broker.domain.arrays import Floats
from broker.engine.shared.evaluate import RULE_ERRORS, RuleFault, fault_of
from broker.engine.task.task_block import PlacedTasks, TaskBlock, room_for
from broker.rules.contract import NucleusLoadWeight, Rule


def place_each(
    block: TaskBlock, rules: Sequence[NucleusLoadWeight], faults: list[RuleFault], before: Floats | None = None
) -> PlacedTasks:
    """Place the tasks of a block in order.

    Args:
        block: of tasks; its ``placed`` goes on.
        rules: the moving weights.
        faults: rules that fail are added.
        before: (B, N) HS06 s to count as placed before each task, instead of what was placed here.
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
        found = np.asarray(ask(), dtype=np.float64)
        # nearly always it has the shape, and asking costs less than broadcasting
        return found if found.shape == shape else np.broadcast_to(found, shape)
    except RULE_ERRORS as error:  # it has no effect
        faults.append(fault_of(rule, error))
        return np.ones(shape)


def _drawn(block: TaskBlock, out: PlacedTasks, pairs: slice, fraction: float) -> int:
    """The nucleus of a task, -1 if no weight is a number."""
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
        fraction: what decides, in [0, 1).
    """
    largest = np.maximum.reduce(weight)
    if not largest > 0:
        return 0
    ends = np.add.accumulate(weight / largest)
    at = int(ends.searchsorted(fraction * ends[-1], side="right"))
    # rounding may carry the draw to the very end: the last one with a weight is meant
    return at if at < len(weight) else int(np.flatnonzero(weight)[-1])
