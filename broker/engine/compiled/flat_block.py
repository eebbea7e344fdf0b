"""A judged block as the compiled loop takes it, and room for what the loop writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from broker.domain.arrays import AnyArray, Ints
from broker.engine.compiled.columns import FlatBlock, MovingState, Outcome
from broker.engine.job.chunk_result import Block
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.rank import BEST


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
    load, fixed = np.empty((5, len(queue))), np.empty((len(block.factors), len(queue)))
    load[0] = left.of(facts.running_equivalent)
    cell = left.row_of(block.counts.kind) + queue
    for at in range(4):
        block.counts.table[at].take(cell, out=load[1 + at], mode="clip")
    for at, factor in enumerate(block.factors):
        fixed[at] = left.of(factor)
    return FlatBlock(
        row=rows.start,
        offset=np.searchsorted(chunk, np.arange(len(feasible) + 1)).astype(np.int64),
        queue=queue.astype(np.int64),
        load=load,
        all_local=left.of(facts.all_local),
        fixed=fixed,
        urgent=np.array(facts.urgent[:, 0], dtype=np.bool_),
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


def room_for(block: FlatBlock, factors: int, jobs: int) -> Outcome:
    """Arrays for the outcome of a block, with ``factors`` factors in all and at most so many ``jobs``."""
    chunks = len(block.urgent)
    return Outcome(
        chosen=np.zeros(chunks, dtype=np.int64),
        place=np.zeros((chunks, BEST), dtype=np.int64),
        pair=np.zeros((chunks, BEST), dtype=np.int64),
        weight=np.zeros((chunks, BEST)),
        factors=np.zeros((chunks, factors, BEST)),
        bootstrap=np.zeros((chunks, BEST), dtype=np.bool_),
        before=np.empty((chunks, block.placed.shape[1])),
        jobs=np.zeros((chunks, 2), dtype=np.int64),
        numbers=np.empty((7, jobs), dtype=np.int64),
        figures=np.empty((2, jobs)),
    )
