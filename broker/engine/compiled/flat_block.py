"""A judged block as the compiled loop takes it, and room for what the loop writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from broker.domain.arrays import AnyArray, Floats, Ints
from broker.engine.compiled.columns import FlatBlock, MovingState, Outcome, UserState
from broker.engine.job.chunk_result import Block
from broker.engine.job.cycle import JobCycle


def flat_block(cycle: JobCycle, block: Block, state: MovingState) -> FlatBlock:
    """The pairs of a block that are left, without those of chunks that are blocked."""
    facts, rows = block.facts, block.rows
    feasible = block.evaluation.feasible
    closed = [at for at in range(len(feasible)) if cycle.blocked(rows.start + at)]
    if closed:
        feasible = feasible.copy()
        feasible[closed] = False
    chunk, queue = feasible.nonzero()
    left = _Left(feasible.shape, chunk, queue)
    load = np.empty((5, len(queue)))
    load[0] = left.of(facts.running_equivalent)
    cell = left.row_of(block.counts.kind) + queue
    for at in range(4):
        block.counts.table[at].take(cell, out=load[1 + at], mode="clip")
    fixed = factors = _at_pairs(left, block.factors)
    if len(block.factors) != len(block.fixed):
        fixed = _at_pairs(left, block.fixed)
    return FlatBlock(
        row=rows.start,
        offset=np.searchsorted(chunk, np.arange(len(feasible) + 1)).astype(np.int64),
        queue=queue.astype(np.int64),
        load=load,
        all_local=left.of(facts.all_local),
        fixed=fixed,
        factors=factors,
        urgent=np.array(facts.urgent[:, 0], dtype=np.bool_),
        best=cycle.best_of(rows),
        left=np.ones(len(queue), dtype=np.bool_),
        position=np.array(block.evaluation.reason, dtype=np.int16, order="C"),
        placed=state.placed,
        moved=state.moved,
    )


@dataclass(frozen=True)
class _Left:
    """The pairs that are left of a block, and what arrays say of them."""

    shape: tuple[int, ...]
    chunk: Ints
    queue: Ints

    def row_of(self, row: Ints) -> Ints:
        """(N,): where the row of each pair's chunk starts in a flattened table; ``row`` (T,) are the rows."""
        found: Ints = (row * self.shape[1])[self.chunk]
        return found

    @cached_property
    def cell(self) -> Ints:
        """(N,): the position of each pair in the flattened block."""
        return self.row_of(np.arange(self.shape[0])) + self.queue

    def of(self, values: AnyArray) -> AnyArray:
        """(N,): the values of the pairs, from an array that broadcasts to the block."""
        values = np.atleast_2d(values)
        if values.shape == self.shape:
            return values.ravel().take(self.cell)
        chunk = self.chunk if values.shape[0] > 1 else np.zeros_like(self.chunk)
        found: AnyArray = values[chunk, self.queue if values.shape[1] > 1 else 0]
        return found


def _at_pairs(left: _Left, factors: Sequence[Floats]) -> Floats:
    """(F, N)."""
    found = np.empty((len(factors), len(left.queue)))
    for at, factor in enumerate(factors):
        found[at] = left.of(factor)
    return found


def room_for(block: FlatBlock, factors: int, jobs: int, users: UserState) -> Outcome:
    """Arrays for the outcome of a block, with ``factors`` factors in all and at most so many ``jobs``."""
    chunks, best = len(block.urgent), int(block.best.max(initial=1))
    return Outcome(
        ranked=np.zeros(chunks, dtype=np.bool_),
        chosen=np.zeros(chunks, dtype=np.int64),
        place=np.zeros((chunks, best), dtype=np.int64),
        pair=np.zeros((chunks, best), dtype=np.int64),
        weight=np.zeros((chunks, best)),
        factors=np.zeros((chunks, factors, best)),
        bootstrap=np.zeros((chunks, best), dtype=np.bool_),
        before=np.empty((chunks, block.placed.shape[1])),
        users_before=np.empty((3, chunks if len(users.of_user) else 0, block.placed.shape[1])),
        jobs=np.zeros((chunks, 2), dtype=np.int64),
        numbers=np.empty((7, jobs), dtype=np.int64),
        figures=np.empty((2, jobs)),
    )
