"""A judged block in the flat form of the compiled loop, and arrays for the loop's output."""

from __future__ import annotations

from functools import reduce

import numpy as np

from broker.engine.compiled.columns import FlatBlock, MovingState, Outcome, UserState
from broker.engine.job.chunk_result import Block
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.surviving_pairs import PairsLeft


def flat_block(cycle: JobCycle, block: Block, state: MovingState) -> FlatBlock:
    """The pairs of a block that are left, without those of chunks that are blocked."""
    facts, rows = block.facts, block.rows
    feasible = block.evaluation.feasible
    closed = [at for at in range(len(feasible)) if cycle.blocked(rows.start + at)]
    if closed:
        feasible = feasible.copy()
        feasible[closed] = False
    left = PairsLeft.of_mask(feasible)
    load = np.empty((5, len(left)))
    load[0] = left.of(facts.by_kind("running_equivalent"))
    # those of other statuses are not asked for
    load[1:] = left.of(block.counts.of_table(block.counts.table[:4]))
    fixed = factors = np.empty((len(block.factors), len(left)))
    for at, factor in enumerate(block.factors):
        factors[at] = left.of(factor)
    if block.factors_first:
        fixed = reduce(np.multiply, factors, np.ones(len(left)))[None, :]
    return FlatBlock(
        row=rows.start,
        offset=np.searchsorted(left.chunk, np.arange(len(feasible) + 1)),
        queue=left.candidate,
        load=load,
        all_local=left.of(facts.by_kind("all_local")),
        fixed=fixed,
        factors=factors,
        urgent=np.array(facts.urgent[:, 0], dtype=np.bool_),
        best=cycle.best_of(rows),
        left=np.ones(len(left), dtype=np.bool_),
        position=np.array(block.evaluation.reason, dtype=np.int16, order="C"),
        placed=state.placed,
        moved=state.moved,
    )


def room_for(block: FlatBlock, factors: int, jobs: int, spans: int, users: UserState) -> Outcome:
    """Arrays for the outcome of a block, with ``factors`` factors in all and at most so many ``jobs`` and ``spans``."""
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
        span_of=np.zeros((chunks, 2), dtype=np.int64),
        spans=np.empty((spans, 2), dtype=np.int64),
    )
