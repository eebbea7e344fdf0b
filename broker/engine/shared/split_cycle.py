"""Two cycles over the same chunks with different tuning, each deciding its own share of them, in one order.

Each cycle counts the jobs that the other places. Both judge all chunks; for each chunk, the outcome of its own cycle
counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.domain.arrays import AnyArray, Bools, Floats, Ints
from broker.domain.counted_load import ChunkPlan, CountedLoad
from broker.domain.decisions import Outcome
from broker.engine.job.chunk_result import Block, ChunkResult
from broker.engine.job.cycle import JobCycle
from broker.engine.job.steps import RefusedNames
from broker.engine.shared.filter_cache import BlockCache
from broker.gdpconfig import Tuning
from broker.rules.contract import Load


class SplitCycle(JobCycle):
    """A job brokerage in which some chunks have a tuning of their own.

    Args:
        rest: the cycle for most chunks.
        chosen: the cycle for the others, over the same snapshot and chunks and with the same rules.
        rows: (T,) the chunks of ``chosen``.
    """

    def __init__(self, rest: JobCycle, chosen: JobCycle, rows: Bools) -> None:
        self._rest, self._chosen, self._rows = rest, chosen, rows
        self.snapshot, self.work, self.tuning, self.chain = rest.snapshot, rest.work, rest.tuning, rest.chain
        self.published = rest.published
        self.remark, self.figure_names = rest.remark, rest.figure_names  # type: ignore[misc]  # of this one object
        # rules that could not be run are reported together
        self.faults = chosen.faults = rest.faults

    def _of(self, row: int) -> JobCycle:
        return self._chosen if self._rows[row] else self._rest

    def tuning_of(self, row: int) -> Tuning:
        """The tuning of the chunk's own cycle."""
        return self._of(row).tuning

    def blocks(self) -> Iterator[Block]:
        """The blocks of the cycle for most chunks."""
        return self._rest.blocks()

    def evaluate_block(self, rows: slice, cache: BlockCache | None = None) -> Block:
        """The block of the cycle for most chunks."""
        return self._rest.evaluate_block(rows, cache)

    def results(self) -> Iterator[ChunkResult]:
        """The outcome chunk by chunk, each from its own cycle."""
        for one, other in zip(self._rest.results(), self._chosen.results(), strict=True):
            yield other if self._rows[one.row] else one

    def outcome(self, row: int, reason: str) -> Outcome:
        """The outcome of the chunk's own cycle."""
        return self._of(row).outcome(row, reason)

    def remarks(self, row: int, plan: ChunkPlan | None = None) -> tuple[str, ...]:
        """The remarks of the chunk's own cycle."""
        return self._of(row).remarks(row, plan)

    def figures_of(self, result: ChunkResult) -> tuple[Ints, Floats] | None:
        """The figures of the chunk's own cycle."""
        return self._of(result.row).figures_of(result)

    def jobs_at_a_time(self, row: int) -> Ints:
        """The numbers of the chunk's own cycle."""
        return self._of(row).jobs_at_a_time(row)

    def load(self, block: Block, row: int, feasible: AnyArray) -> Load:
        """The load of the chunk's own cycle."""
        return self._of(row).load(block, row, feasible)

    def room_depends_on(self, result: ChunkResult) -> tuple[AnyArray, ...]:
        """The dependencies of the chunk's own cycle."""
        return self._of(result.row).room_depends_on(result)

    def moves_alike(self, other: JobCycle) -> bool:
        """Return False: two tunings are in use."""
        return False

    def add_load(self, row: int, candidates: AnyArray, jobs: AnyArray) -> None:
        """Count the jobs of a chunk for later chunks of either cycle."""
        self._rest.add_load(row, candidates, jobs)
        self._chosen.add_load(row, candidates, jobs)

    def load_before(self, row: int) -> CountedLoad:
        """The load that both cycles have counted so far for a chunk."""
        return self._rest.load_before(row)

    def set_load(self, row: int, load: CountedLoad) -> None:
        """Set the load that both cycles have counted to exactly this."""
        self._rest.set_load(row, load)
        self._chosen.set_load(row, load)

    def refused_names(self, row: int) -> RefusedNames:
        """Pre-assigned names of a chunk that yield no candidate, each with the reason."""
        return self._rest.refused_names(row)
