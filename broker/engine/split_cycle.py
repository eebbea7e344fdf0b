"""Two cycles over the same chunks with different tuning, each deciding its own share of them, in one order.

What one places the other finds placed. Both judge all chunks; of each chunk the outcome of its own cycle counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.domain.arrays import AnyArray, Bools
from broker.domain.decisions import Outcome
from broker.engine.job_cycle import Block, ChunkResult, JobCycle
from broker.rules.contract import Load


class SplitCycle(JobCycle):
    """A job brokerage of which some chunks have a tuning of their own.

    Args:
        rest: the cycle for most chunks.
        chosen: the cycle for the others, over the same snapshot and chunks and with the same rules.
        rows: (T,) the chunks of ``chosen``.
    """

    moves_by_tag = False

    def __init__(self, rest: JobCycle, chosen: JobCycle, rows: Bools) -> None:
        self._rest, self._chosen, self._rows = rest, chosen, rows
        self.snapshot, self.work, self.tuning, self.chain = rest.snapshot, rest.work, rest.tuning, rest.chain
        self.published = rest.published
        # rules that could not be run are told of together
        self.faults = chosen.faults = rest.faults

    def _of(self, row: int) -> JobCycle:
        return self._chosen if self._rows[row] else self._rest

    def blocks(self) -> Iterator[Block]:
        """The blocks of the cycle for most chunks."""
        return self._rest.blocks()

    def judge(self, rows: slice) -> Block:
        """The block of the cycle for most chunks."""
        return self._rest.judge(rows)

    def results(self) -> Iterator[ChunkResult]:
        """The outcome chunk by chunk, each from its own cycle."""
        for one, other in zip(self._rest.results(), self._chosen.results(), strict=True):
            yield other if self._rows[one.row] else one

    def outcome(self, result: ChunkResult) -> Outcome:
        """As the chunk's own cycle says."""
        return self._of(result.row).outcome(result)

    def remarks(self, result: ChunkResult) -> tuple[str, ...]:
        """As the chunk's own cycle says."""
        return self._of(result.row).remarks(result)

    def load(self, block: Block, row: int, left: AnyArray) -> Load:
        """As the chunk's own cycle says."""
        return self._of(row).load(block, row, left)

    def room_depends_on(self, result: ChunkResult) -> tuple[AnyArray, ...]:
        """As the chunk's own cycle says."""
        return self._of(result.row).room_depends_on(result)

    def place(self, row: int, candidates: AnyArray, jobs: AnyArray) -> None:
        """Count the jobs of a chunk for the chunks that follow, whichever cycle they are of."""
        self._rest.place(row, candidates, jobs)
        self._chosen.place(row, candidates, jobs)

    def placed_before(self, row: int) -> dict[str, int]:
        """Jobs that both have placed so far for the tag of a chunk, by unified queue."""
        return self._rest.placed_before(row)

    def restore(self, row: int, placed: Mapping[str, int]) -> None:
        """Let both have placed exactly these jobs."""
        self._rest.restore(row, placed)
        self._chosen.restore(row, placed)

    def unknown_queues(self, row: int) -> tuple[str, ...]:
        """Pre-assigned names of a chunk that are no queue."""
        return self._rest.unknown_queues(row)
