"""A block of tasks against nuclei as flat columns: one row a pair that no filter rejected, task after task."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints


class TaskBlock(NamedTuple):
    """B tasks with their P pairs, as the cycle judged them, before anything of the block is placed.

    Attributes:
        first: position of the first task in the work.
        preset: (B,) the nucleus that a task has already, -1 for none; such a task has no pairs.
        offset: (B + 1,) where the pairs of each task begin.
        nucleus: (P,) of each pair, by name within a task.
        share_work: (P,) HS06 s that remained of the task's share when the cycle began.
        fixed: (F, P) the factors that stay as they are.
        tag: (B,) under which row of ``placed`` the work of each task counts.
        adds: (B,) HS06 s that a task adds where it is placed.
        fraction: (B,) what each task draws, in [0, 1).
        placed: (K, N) HS06 s that the cycle has placed; goes on with each task.
        independent: what was placed does not count.
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
        moving: (M, P) the factors that move with what is placed.
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
    """Arrays for the outcome of a block whose chain has so many moving weights."""
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

    The nucleus that was drawn stands first, the others follow by weight and name; those whose weight is no number come
    last.
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
