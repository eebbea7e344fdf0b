"""A judged block as the compiled loop takes it, and room for what the loop writes."""

from __future__ import annotations

import numpy as np

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
    load, fixed = np.empty((5, len(queue))), np.empty((len(block.fixed), len(queue)))
    load[0] = facts.running_equivalent[chunk, queue]
    load[1:] = block.counts[:, chunk, queue]
    for at, factor in enumerate(block.fixed):
        fixed[at] = factor[chunk, queue]
    return FlatBlock(
        row=rows.start,
        offset=np.searchsorted(chunk, np.arange(len(feasible) + 1)).astype(np.int64),
        queue=queue.astype(np.int64),
        load=load,
        all_local=np.array(facts.all_local[chunk, queue], dtype=np.bool_),
        fixed=fixed,
        urgent=np.array(facts.urgent[:, 0], dtype=np.bool_),
        position=np.array(block.evaluation.reason, dtype=np.int16, order="C"),
        placed=state.placed,
        moved=state.moved,
    )


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
