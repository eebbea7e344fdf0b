"""Blocks of a side decided by the compiled loop: outcomes, candidates and jobs of all its chunks at once.

The result is bit for bit the same as chunk by chunk. Chunks that the loop skips are decided one by one, in their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from broker.brokerages.job.assign_compiled import CompiledCycle
from broker.brokerages.job.assigned import CANDIDATES_FULL
from broker.domain.arrays import AnyArray, Ints
from broker.engine.compiled.columns import FlatBlock, Outcome
from broker.engine.compiled.loop_parts import NO_NEW_WEIGHT, LoopParts
from broker.engine.job.chunk_result import Block
from broker.engine.job.cycle import NO_CANDIDATES


@dataclass(frozen=True)
class BlockRows:
    """The loop's decisions on a block.

    Attributes:
        by_loop: positions in the block of the chunks that it decided.
        position: (B, Q) index of the code that decides about each candidate, as in a side.
        chosen: (B,) number of chosen candidates.
        place: (B, K) their positions, best first.
        cell: positions in the flattened block (B, Q) of the candidates that got jobs, ascending.
        count: jobs of each of them.
    """

    by_loop: Ints
    position: AnyArray
    chosen: Ints
    place: Ints
    cell: Ints
    count: Ints

    @property
    def all_by_loop(self) -> bool:
        """Whether the loop decided all chunks."""
        return len(self.by_loop) == len(self.position)

    @property
    def jobs(self) -> AnyArray:
        """(B, Q) jobs at each candidate; built on each access, because rows are kept as long as their side."""
        jobs = np.zeros(self.position.size, dtype=np.int32)
        jobs[self.cell] = self.count
        return jobs.reshape(self.position.shape)

    @cached_property
    def _ends(self) -> list[int]:
        """(B + 1,) where the cells of each chunk begin, and where the last ones end."""
        chunks, candidates = self.position.shape
        ends: list[int] = np.searchsorted(self.cell, np.arange(chunks + 1) * candidates).tolist()
        return ends

    def given(self, at: int) -> tuple[Ints, Ints]:
        """The candidates at which a chunk got jobs, ascending, and how many it got at each."""
        own = slice(self._ends[at], self._ends[at + 1])
        return self.cell[own] - at * self.position.shape[1], self.count[own]

    def chosen_pairs(self) -> tuple[Ints, Ints]:
        """The pairs of a chunk of the block and a candidate that it chose, as two columns."""
        inside = np.arange(self.place.shape[1]) < self.chosen[:, None]
        return inside.nonzero()[0], self.place[inside]

    def reasons(self, blocked: Sequence[str]) -> list[str]:
        """For each chunk, why it gets no jobs; empty if it gets some.

        Args:
            blocked: for each chunk, why it cannot be brokered whatever the queues are; empty if it can.
        """
        each = zip(blocked, self.chosen.tolist(), pairwise(self._ends), strict=True)
        return [
            why or (("" if stop > first else CANDIDATES_FULL) if chosen else NO_CANDIDATES)
            for why, chosen, (first, stop) in each
        ]


class CompiledBlocks:
    """Decides blocks of a cycle, and can undo what a block placed.

    Args:
        compiled: the cycle as the loop takes it.
        beside: the blocks of another cycle, which decides each block ahead of this one; the flat form of blocks that
            were judged and weighed alike is reused.
    """

    def __init__(self, compiled: CompiledCycle, beside: CompiledBlocks | None = None) -> None:
        self._compiled, self._beside = compiled, beside
        self._last: tuple[Block, FlatBlock] | None = None
        self._before = [counts.copy() for counts in _placed_in(compiled.parts)]

    def decide(self, block: Block, alone: Callable[[int], None]) -> BlockRows:
        """Decide all chunks of a block in order, and count what they place.

        Args:
            block: the next one.
            alone: decides the chunk of a row that the loop skips, and counts what it places.
        """
        compiled = self._compiled
        self._before = [counts.copy() for counts in _placed_in(compiled.parts)]
        run = compiled.begun(block, self._known_pairs(block))
        flat, out = run.flat, run.out
        self._last = block, flat
        at, count, by_loop = 0, block.rows.stop - block.rows.start, np.ones(len(flat.urgent), dtype=np.bool_)
        while at < count:
            stop = run.placed_until(at)
            if stop < count:
                by_loop[stop] = False
                alone(block.rows.start + stop)
            at = stop + 1
        return _rows(flat, out, np.flatnonzero(by_loop))

    def _known_pairs(self, block: Block) -> FlatBlock | None:
        """The pairs of a block as taken from the other cycle; None where they may differ."""
        last = None if self._beside is None else self._beside._last
        if self._beside is None or last is None or not _same_pairs(last[0], block):
            return None
        compiled, other = self._compiled, self._beside._compiled
        rows = range(block.rows.start, block.rows.stop)
        if any(bool(compiled.cycle.blocked(row)) != bool(other.cycle.blocked(row)) for row in rows):
            return None
        # the loop continues with the moving weights
        if compiled.parts.moving.new_weight != NO_NEW_WEIGHT:
            return None
        state, flat = compiled.parts.state, last[1]
        # the loop writes into these
        return flat._replace(
            left=np.ones_like(flat.left),
            position=np.array(block.evaluation.reason, dtype=np.int16, order="C"),
            placed=state.placed,
            moved=state.moved,
        )

    def take_back(self) -> None:
        """Undo what the last block placed."""
        for now, before in zip(_placed_in(self._compiled.parts), self._before, strict=True):
            now[...] = before


def _placed_in(parts: LoopParts) -> tuple[AnyArray, ...]:
    """The arrays that count placed work."""
    state, users = parts.state, parts.users
    return state.placed, state.moved, users.of_user, users.of_type, users.new_users, users.present


def _same_pairs(one: Block, other: Block) -> bool:
    """Whether two blocks were judged and weighed together, so that their remaining and known pairs are the same."""
    shared = (one.evaluation, other.evaluation), (one.facts, other.facts), (one.counts, other.counts)
    return (
        one.rows == other.rows
        and len(one.factors) == len(other.factors)
        and all(mine is theirs for mine, theirs in (*shared, *zip(one.factors, other.factors, strict=True)))
    )


def _rows(flat: FlatBlock, out: Outcome, by_loop: Ints) -> BlockRows:
    lengths = out.jobs[:, 1] - out.jobs[:, 0]
    first_cell = np.arange(len(lengths)) * flat.position.shape[1]
    cells = np.repeat(first_cell, lengths)
    cells += out.numbers[0, : len(cells)]
    cell, count = np.unique(cells, return_counts=True)
    return BlockRows(by_loop, flat.position, out.chosen, out.place, cell, count)
