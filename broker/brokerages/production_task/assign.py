"""A cycle of the task brokerage from tasks to nuclei: weigh, draw, count the work, and go on to the next task.

Pure and seeded: the same snapshot, work, tuning and seed give the same nuclei.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.decisions import Decision
from broker.engine.task.cycle import TaskCycle, TaskResult
from broker.engine.task.decision import task_decision

#: Keeps the draws of this brokerage apart from those of others with the same seed.
STREAM = 0x7461736B


@dataclass(frozen=True)
class AssignedTask:
    """One task with its decision.

    Attributes:
        row: position of the task in the work.
        decision: the decision.
        nucleus: position of the nucleus in the snapshot's table, None for none.
        share_work_hs06s: (N,) remaining work of the task's share when the cycle began.
        placed_hs06s: (N,) what the cycle had placed for the share before this task.
    """

    row: int
    decision: Decision
    nucleus: int | None
    share_work_hs06s: Floats
    placed_hs06s: Floats


def assign_tasks(cycle: TaskCycle, seed: int, before: Floats | None = None) -> Iterator[AssignedTask]:
    """Broker the tasks in order; each finds the work of those before it at their nuclei.

    Args:
        cycle: over the tasks.
        seed: of the draws; each task draws from a stream of its own, so that leaving out one changes no other.
        before: (T, N) work to count as placed before each task, instead of what was placed here.
    """
    for row in range(len(cycle.work.tasks)):
        if before is not None:
            cycle.restore(row, before[row])
        result = cycle.result(row)
        nucleus = _drawn_nucleus(cycle, result, seed)
        share_work, placed = cycle.facts.share_work_hs06s[result.row], cycle.placed_before(result.row)
        if nucleus is not None:
            cycle.place(result.row, nucleus)
        yield AssignedTask(result.row, task_decision(cycle, result, nucleus), nucleus, share_work, placed)


def _drawn_nucleus(cycle: TaskCycle, result: TaskResult, seed: int) -> int | None:
    if not len(result.feasible):
        return None
    task = abs(int(cycle.work.tasks.jeditaskid[result.row]))
    return int(result.feasible[drawn(result.weight, np.random.default_rng([abs(seed), STREAM, task]))])


def drawn(weight: Floats, random: np.random.Generator) -> int:
    """A position, drawn with a chance in proportion to its weight; the first if all weights are 0.

    Weights are finite and not negative. They are scaled, so that their sum is finite as well.
    """
    largest = weight.max()
    if not largest > 0:
        return 0
    ends = np.cumsum(weight / largest)
    at = int(np.searchsorted(ends, random.random() * ends[-1], side="right"))
    # rounding may carry the draw to the very end: the last one with a weight is meant
    return min(at, int(np.flatnonzero(weight)[-1]))
