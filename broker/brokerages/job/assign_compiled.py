"""Chunks brokered and cut by the compiled loop, block by block; equal to the bit to what is done chunk by chunk.

Chunks whose input is not one dataset of runs of files are drawn and cut in Python, in their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from broker.brokerages.base import StageTimes
from broker.brokerages.job.assigned import CANDIDATES_FULL, AssignedChunk
from broker.brokerages.job.flat_work import ONE_WORD, flat_columns
from broker.domain.arrays import Ints
from broker.domain.counted_load import CountedLoad, QueueJobs
from broker.domain.decisions import Decision
from broker.domain.packed_candidates import ChosenCandidates
from broker.engine.compiled.columns import Columns, FlatBlock, Moving, MovingState, Outcome
from broker.engine.compiled.flat_block import flat_block, room_for
from broker.engine.compiled.loading import loop_for
from broker.engine.compiled.steps import moving_steps
from broker.engine.job.chunk_result import Block
from broker.engine.job.cycle import NO_CANDIDATES, JobCycle
from broker.engine.job.decision import decision_of_row
from broker.work.assemble import CycleWork
from broker.work.cut_jobs import CutJobs, no_jobs

PlaceAlone = Callable[[Block, int], AssignedChunk]


@dataclass(frozen=True)
class CompiledCycle:
    """A cycle that the compiled loop can run.

    Attributes:
        cycle: that judges the chunks.
        work: of the cycle.
        loop: the module with the loop.
        moving: the moving rules by number.
        state: what the cycle has placed, where it counts.
        seed: of the draws.
    """

    cycle: JobCycle
    work: CycleWork
    loop: Any
    moving: Moving
    state: MovingState
    seed: int

    @cached_property
    def columns(self) -> Columns:
        """Of chunks, queues and files."""
        return flat_columns(self.cycle, self.work, self.state)

    def assigned(
        self, place_alone: PlaceAlone, times: StageTimes, clock: Callable[[], float]
    ) -> Iterator[AssignedChunk]:
        """The chunks in order.

        Args:
            place_alone: places one chunk of a block that the loop leaves out.
            times: filled with the seconds of the two stages; the loop ranks, too, and counts as cutting.
            clock: measures them.
        """
        started = clock()
        for block in self.cycle.blocks():
            judged = clock()
            times.decide_s += judged - started
            yield from self._of_block(block, place_alone, times, clock)
            started = clock()
        times.decide_s += clock() - started

    def _of_block(
        self, block: Block, place_alone: PlaceAlone, times: StageTimes, clock: Callable[[], float]
    ) -> Iterator[AssignedChunk]:
        started = clock()
        columns = self.columns
        flat = flat_block(self.cycle, block, self.state)
        chunks = columns.chunks[block.rows]
        jobs = int(((chunks["stop"] - chunks["start"]) * chunks["simple"]).sum())
        out = room_for(flat, len(self.moving.weights) + len(flat.fixed), jobs)
        at, count = 0, block.rows.stop - block.rows.start
        while at < count:
            stop = self.loop.placed_until(at, self.seed, self.moving, flat, columns, out)
            times.cut_s += clock() - started
            made = _BlockOutcome(self.cycle, block, flat, out)
            for one in range(at, stop):
                started = clock()
                assigned = made.of(one)
                times.decide_s += clock() - started
                yield assigned
            started, at = clock(), stop
            if stop < count:
                yield place_alone(block, block.rows.start + stop)
                started, at = clock(), stop + 1


@dataclass(frozen=True)
class _BlockOutcome:
    """What the loop wrote for a block, as assigned chunks."""

    cycle: JobCycle
    block: Block
    flat: FlatBlock
    out: Outcome

    def of(self, at: int) -> AssignedChunk:
        """The chunk ``at`` of the block."""
        cycle, out, row = self.cycle, self.out, self.block.rows.start + at
        blocked = cycle.blocked(row)
        count = int(out.chosen[at])
        first, stop = out.jobs[at].tolist()
        reason = blocked or ("" if count else NO_CANDIDATES)
        ranked = not blocked and self.flat.offset[at] < self.flat.offset[at + 1]
        decision: Decision = decision_of_row(
            cycle, row, self.flat.position[at], reason, blocked, self._candidates(at, count) if ranked else None
        )
        if not reason and first == stop:
            decision = decision.pending(CANDIDATES_FULL)
        before = CountedLoad(QueueJobs(cycle.unified_names, out.before[at]))
        return AssignedChunk(row, decision, out.numbers[0, first:stop], self._jobs(first, stop), before)

    def _candidates(self, at: int, count: int) -> ChosenCandidates:
        out = self.out
        bootstrap = out.bootstrap[at, :count]
        return ChosenCandidates(
            legend=self.cycle.legend,
            place=out.place[at, :count],
            weight=np.where(bootstrap, 0.0, out.weight[at, :count]),
            factors=out.factors[at, :, :count],
            bootstrap=bootstrap,
        )

    def _jobs(self, first: int, stop: int) -> CutJobs:
        if first == stop:
            return no_jobs()
        _, begin, end, events, files, stored, disk_mb = self.out.numbers[:, first:stop]
        output_mb, walltime_s = self.out.figures[:, first:stop]
        none: Ints = np.empty(0, dtype=np.int64)
        extra = np.zeros(stop - first + 1, dtype=np.int64)
        return CutJobs(begin, end, events, files, stored, output_mb, disk_mb, walltime_s, none, extra)


def compiled_cycle(cycle: JobCycle, work: CycleWork, seed: int) -> CompiledCycle | None:
    """The cycle as one that the compiled loop runs; None where it does not.

    That is where numba is missing, where loading the loop does not pay so far or it is still being compiled, in a
    brokerage with steps of its own, and for moving rules that the loop does not know, such as those of plugins.
    """
    state = cycle.moving_state if type(cycle) is JobCycle else None
    moving = moving_steps(cycle.chain)
    if state is None or moving is None or not abs(seed) < ONE_WORD:
        return None
    loop = loop_for(len(work.work.chunks))
    return None if loop is None else CompiledCycle(cycle, work, loop, moving, state, abs(seed))
