"""A judged block as the compiled loop takes it, and room for what the loop writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.domain.rows_by_kind import RowsByKind
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
    left = _Left(feasible)
    load = np.empty((5, left.count))
    load[:1] = left.of_kinds(facts.by_kind("running_equivalent"))
    load[1:] = left.of_kinds(block.counts)[:4]
    fixed = factors = _at_pairs(left, block.factors)
    if len(block.factors) != len(block.fixed):
        fixed = _at_pairs(left, block.fixed)
    return FlatBlock(
        row=rows.start,
        offset=np.concatenate([[0], np.cumsum(left.of_chunk)]).astype(np.int64),
        queue=left.queue,
        load=load,
        all_local=left.of_kinds(facts.by_kind("all_local"))[0],
        fixed=fixed,
        factors=factors,
        urgent=np.array(facts.urgent[:, 0], dtype=np.bool_),
        best=cycle.best_of(rows),
        left=np.ones(left.count, dtype=np.bool_),
        position=np.array(block.evaluation.reason, dtype=np.int16, order="C"),
        placed=state.placed,
        moved=state.moved,
    )


class _Left:
    """The pairs that are left of a block (T, Q), N in all, and what arrays say of them.

    Attributes:
        cell: (N,) the position of each pair in the flattened block.
        of_chunk: (T,) how many each chunk has.
        queue: (N,) the candidate of each.
    """

    def __init__(self, feasible: Bools) -> None:
        self._shape = feasible.shape
        self.cell: Ints = np.flatnonzero(feasible)
        self.of_chunk: Ints = np.count_nonzero(feasible, axis=1)
        self.queue: Ints = self.cell - self.each(np.arange(len(feasible)) * feasible.shape[1])

    @property
    def count(self) -> int:
        """N."""
        return len(self.cell)

    def each(self, of_chunk: AnyArray) -> AnyArray:
        """(N,): of a column (T,) of chunks."""
        return np.repeat(of_chunk, self.of_chunk)

    def of(self, values: AnyArray) -> AnyArray:
        """(N,): the values of the pairs, from an array that broadcasts to the block."""
        values = np.atleast_2d(values)
        if values.shape == self._shape:
            return values.reshape(-1).take(self.cell)
        if values.shape[0] == 1:
            return values[0].take(self.queue) if values.shape[1] > 1 else np.full(self.count, values[0, 0])
        return self.each(values[:, 0])

    def of_kinds(self, figures: RowsByKind) -> AnyArray:
        """(..., N): the same of figures by kind, in layers or one."""
        rows, columns = figures.table.shape[-2:]
        column = self.queue if figures.column is None else figures.column[self.queue]
        cell = self.each(figures.kinds * columns) + column
        return figures.table.reshape(-1, rows * columns).take(cell, axis=1)


def _at_pairs(left: _Left, factors: Sequence[Floats]) -> Floats:
    """(F, N)."""
    found = np.empty((len(factors), left.count))
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
