"""Broker and cut chunks in the compiled loop, block by block; the result is bit for bit that of the loop in Python.

Chunks with figures that the loop would round differently are drawn and cut in Python, in their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from broker.brokerages.base import StageTimes
from broker.brokerages.job.assigned import AssignedChunk, LoopPart
from broker.brokerages.job.flat_work import ONE_WORD, flat_columns
from broker.engine.analysis.cycle import AnalysisCycle
from broker.engine.analysis.loop_parts import analysis_loop_parts
from broker.engine.compiled.columns import Columns, FlatBlock, Outcome, UserPairs
from broker.engine.compiled.loading import load_compiled_loop
from broker.engine.compiled.loop_parts import LoopParts, flat_block, loop_parts, room_for
from broker.engine.job.chunk_result import Block
from broker.engine.job.cycle import JobCycle
from broker.rules.production_job.cuts.cap import cap_of
from broker.work.assemble import CycleWork

PlaceAlone = Callable[[Block, int], AssignedChunk]


@dataclass(frozen=True)
class CompiledCycle:
    """A cycle that the compiled loop can run.

    Attributes:
        cycle: that judges the chunks.
        work: of the cycle.
        loop: the module with the loop.
        parts: its moving rules, and what it has placed.
        seed: of the draws.
        beside: another cycle over the same work, whose data is reused where it depends on the work alone.
    """

    cycle: JobCycle
    work: CycleWork
    loop: Any
    parts: LoopParts
    seed: int
    beside: CompiledCycle | None = None

    @cached_property
    def columns(self) -> Columns:
        """Columns of chunks, queues and files."""
        beside = None if self.beside is None else self.beside.columns
        return flat_columns(self.cycle, self.work, self.parts.state, beside)

    def begun(self, block: Block, flat: FlatBlock | None = None) -> BlockLoop:
        """A judged block, ready for the loop; its pairs are gathered unless they are given."""
        parts, chunks = self.parts, self.columns.chunks[block.rows]
        flat = flat_block(self.cycle, block, parts.state) if flat is None else flat
        # each job has at least one file of the master
        jobs = (chunks["stop"] - chunks["start"]) * chunks["by_loop"]
        spans = jobs * (chunks["uses_stop"] - chunks["uses"])
        factors = len(parts.moving.weights) + len(flat.factors)
        out = room_for(flat, factors, int(jobs.sum()), int(spans.sum()), parts.users)
        return BlockLoop(self, block, flat, parts.user_pairs(block, flat), out)

    def assigned(
        self, place_alone: PlaceAlone, times: StageTimes, clock: Callable[[], float]
    ) -> Iterator[AssignedChunk]:
        """The chunks in order.

        Args:
            place_alone: places one chunk of a block that the loop skips.
            times: filled with the seconds of the two stages; the loop also ranks, and counts as cutting.
            clock: measures them.
        """
        started = clock()
        # the loop ranks by rules that it knows and that cannot fail
        for block in map(self.cycle.evaluate_block, self.cycle.block_rows(ranked=False)):
            judged = clock()
            times.decide_s += judged - started
            yield from self._of_block(block, place_alone, times, clock)
            started = clock()
        times.decide_s += clock() - started

    def _of_block(
        self, block: Block, place_alone: PlaceAlone, times: StageTimes, clock: Callable[[], float]
    ) -> Iterator[AssignedChunk]:
        started = clock()
        run = self.begun(block)
        at, count = 0, block.rows.stop - block.rows.start
        while at < count:
            stop = run.placed_until(at)
            times.cut_s += clock() - started
            started = clock()
            figures = self.parts.figures(block, run.flat, run.out, range(at, stop))
            part = LoopPart(self.cycle, run.flat, run.out, range(at, stop), figures, self.columns.parts.listed)
            times.decide_s += clock() - started
            yield from part.chunks()
            started, at = clock(), stop
            if stop < count:
                yield place_alone(block, block.rows.start + stop)
                started, at = clock(), stop + 1


@dataclass(frozen=True)
class BlockLoop:
    """The loop over a block.

    Attributes:
        run: the cycle.
        block: the judged block.
        flat: its pairs.
        pairs: what the rules about users read of them.
        out: the output of the loop.
    """

    run: CompiledCycle
    block: Block
    flat: FlatBlock
    pairs: UserPairs
    out: Outcome

    def placed_until(self, at: int) -> int:
        """Place the chunks from ``at`` on; return the first that the loop skips, or the number of chunks."""
        run = self.run
        parts = run.parts
        stop: int = run.loop.placed_until(
            at, run.seed, parts.moving, self.flat, run.columns, parts.users, self.pairs, self.out
        )
        return stop


def compiled_cycle(cycle: JobCycle, work: CycleWork, seed: int) -> CompiledCycle | None:
    """The cycle in the form that the compiled loop runs; None if the loop cannot run it.

    That is the case if numba is missing, if loading the loop does not pay off yet or it is still being compiled, in a
    brokerage with its own steps, and for moving rules that the loop does not know, such as those of plugins.
    """
    parts = _parts(cycle) if abs(seed) < ONE_WORD else None
    if parts is None:
        return None
    loop = load_compiled_loop(len(work.work.chunks))
    return None if loop is None else CompiledCycle(cycle, work, loop, parts, abs(seed))


def _parts(cycle: JobCycle) -> LoopParts | None:
    """The loop's input of a cycle; None for derived classes, which may decide otherwise."""
    if type(cycle) is JobCycle:
        return loop_parts(cycle, cap_of(cycle.chain.cuts))
    if type(cycle) is AnalysisCycle:
        return analysis_loop_parts(cycle, cap_of(cycle.chain.cuts))
    return None
