"""A cycle of the task brokerage from tasks to nuclei: weigh, draw, count the work, and go on to the next task.

Pure and seeded: the same snapshot, work, tuning and seed give the same nuclei.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.decisions import Decision
from broker.engine.compiled.loading import task_loop_for
from broker.engine.compiled.steps import numbered
from broker.engine.shared.first_fractions import first_fractions
from broker.engine.task.cycle import TaskCycle
from broker.engine.task.decision import DecidedBlock
from broker.engine.task.placing import place_each
from broker.engine.task.task_block import room_for

#: Keeps the draws of this brokerage apart from those of others with the same seed.
STREAM = 0x7461736B


#: Tasks that are placed before the first of them is handed on.
BLOCK = 512


@dataclass(frozen=True)
class AssignedTask:
    """One task with its decision.

    Attributes:
        row: position of the task in the work.
        nucleus: position of the nucleus in the snapshot's table, None for none.
        share_work_hs06s: (N,) remaining work of the task's share when the cycle began.
        placed_hs06s: (N,) what the cycle had placed for the share before this task.
        block: the tasks among which it was decided.
    """

    row: int
    nucleus: int | None
    share_work_hs06s: Floats
    placed_hs06s: Floats
    block: DecidedBlock

    @cached_property
    def decision(self) -> Decision:
        """The decision about the task, made on first access."""
        return self.block.decision(self.row - self.block.block.first)


def assign_tasks(cycle: TaskCycle, seed: int, before: Floats | None = None) -> Iterator[AssignedTask]:
    """Broker the tasks in order; each finds the work of those before it at their nuclei.

    Args:
        cycle: over the tasks.
        seed: of the draws; each task draws from a stream of its own, so that leaving out one changes no other.
        before: (T, N) work to count as placed before each task, instead of what was placed here.
    """
    for decided in decided_blocks(cycle, seed, before):
        yield from _assigned(decided)


def decided_blocks(cycle: TaskCycle, seed: int, before: Floats | None = None) -> Iterator[DecidedBlock]:
    """Like :func:`assign_tasks`, block by block."""
    tasks, rules = cycle.work.tasks.jeditaskid, cycle.chain.load_weights
    steps = numbered(rules, cycle.chain.tunings(cycle.tuning)) if before is None else None
    loop = None if steps is None else task_loop_for(len(tasks))
    for start in range(0, len(tasks), BLOCK):
        rows = slice(start, min(start + BLOCK, len(tasks)))
        block = cycle.block(rows, first_fractions(abs(seed), STREAM, np.abs(tasks[rows])))
        if loop is None or steps is None:
            out = place_each(block, rules, cycle.faults, None if before is None else before[rows])
        else:
            out = room_for(block, len(rules))
            out.faults[:] = len(cycle.faults)
            loop.place_all(*steps, block, out)
        yield DecidedBlock(cycle, block, out)


def _assigned(decided: DecidedBlock) -> Iterator[AssignedTask]:
    first, share_work = decided.block.first, decided.cycle.share_work_hs06s
    for at, nucleus in enumerate(decided.out.chosen.tolist()):
        row = first + at
        yield AssignedTask(row, None if nucleus < 0 else nucleus, share_work[row], decided.out.before[at], decided)
