"""The decisions of one brokerage in one cycle as columns: one side of a comparison, with the jobs drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from broker.brokerages.replayed_columns import OutcomeColumns
from broker.domain.arrays import AnyArray, Bools, Ints, Texts, texts
from broker.engine.shared.pair_state import FEASIBLE, NOT_A_CANDIDATE
from broker.whatif.model.compiled_blocks import BlockRows

NOBODY = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class DrawnJobs:
    """The jobs of a chunk, and everything that decided about them apart from what both sides share.

    Attributes:
        by: the candidates, their weights and their room; equal bytes give equal jobs.
        at: positions of the candidates that got jobs.
        jobs: how many each of them got.
    """

    by: bytes
    at: Ints
    jobs: Ints


class DrawnRows:
    """The jobs of each chunk; those of chunks that the compiled loop placed are looked up on access."""

    def __init__(self, size: int) -> None:
        self._rows: list[DrawnJobs | None] = [DrawnJobs(b"", NOBODY, NOBODY)] * size
        self._blocks: dict[int, tuple[BlockRows, int]] = {}

    def __getitem__(self, row: int) -> DrawnJobs:
        drawn = self._rows[row]
        if drawn is None:
            block, first = self._blocks[row]
            drawn = self._rows[row] = DrawnJobs(b"", *block.given(row - first))
        return drawn

    def __setitem__(self, row: int, drawn: DrawnJobs) -> None:
        self._rows[row] = drawn

    def put_block(self, rows: slice, block: BlockRows) -> None:
        """Add the chunks of a block that the compiled loop placed; what decided about their jobs is not kept."""
        for at in block.by_loop.tolist():
            self._rows[rows.start + at], self._blocks[rows.start + at] = None, (block, rows.start)


@dataclass(frozen=True)
class Side(OutcomeColumns):
    """The outcomes on one side of a comparison."""

    def over(self, names: Texts, every: AnyArray) -> Side:
        """The same side over more candidates; the added ones count as no candidates here.

        Args:
            names: (Q,) of the candidates.
            every: (E,) sorted names that include all of ``names``.
        """
        at = np.searchsorted(every, names.astype(np.str_))
        shape = (len(self.outcome), len(every))
        chosen, jobs = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=self.jobs.dtype)
        position = np.full(shape, NOT_A_CANDIDATE, dtype=self.position.dtype)
        chosen[:, at], jobs[:, at], position[:, at] = self.chosen, self.jobs, self.position
        return replace(self, chosen=chosen, jobs=jobs, position=position)

    def rejections(self) -> dict[str, int]:
        """Rejected pairs of work and candidate by code, summed over all work."""
        # the counts of pairs that nothing rejected come first, and are cut off
        lowest = int(self.position.min(initial=0))
        counts = np.bincount((self.position - lowest).ravel(), minlength=len(self.codes) - lowest)[-lowest:]
        counts_by_code: dict[str, int] = {}
        for code, count in zip(self.codes, counts.tolist(), strict=True):
            if count:
                counts_by_code[code] = counts_by_code.get(code, 0) + count  # two rules may have one code
        # candidates that the rules left for work that could not be brokered at all count by the reason of the work
        passed_over = np.greater(self.position == FEASIBLE, self.chosen)
        for row in np.flatnonzero(passed_over.any(axis=1)).tolist():
            reason = str(self.reason[row])
            counts_by_code[reason] = counts_by_code.get(reason, 0) + int(np.count_nonzero(passed_over[row]))
        return counts_by_code


class SideRows:
    """A side under construction, one piece of work after the other.

    Args:
        size: number of pieces of work, T.
        candidates: number of candidates, Q.
        codes: of everything that may reject, by index.
    """

    def __init__(self, size: int, candidates: int, codes: tuple[str, ...]) -> None:
        shape = size, candidates
        self._chosen, self._jobs = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.int32)
        self._position = np.empty(shape, dtype=np.int16)
        self._outcome, self._reason = [""] * size, [""] * size
        self._codes = codes
        self._places: dict[tuple[str, ...], AnyArray] = {}

    def put(
        self, row: int, what: tuple[str, str], position: AnyArray, chosen: Ints, jobs: tuple[Ints, AnyArray]
    ) -> None:
        """Add one piece of work.

        Args:
            row: its position.
            what: outcome as in a decision, and why there are no candidates; empty if there are.
            position: (Q,) as in :class:`Side`.
            chosen: positions of the candidates.
            jobs: positions of the candidates that got jobs, and how many each got.
        """
        self._position[row] = position
        self._chosen[row], self._jobs[row] = False, 0
        self._chosen[row, chosen] = True
        self._jobs[row, jobs[0]] = jobs[1]
        self._outcome[row], self._reason[row] = what

    def put_block(self, first: int, block: BlockRows, what: Sequence[tuple[str, str]]) -> None:
        """Add the chunks of a block that the compiled loop decided.

        Args:
            first: position of the first chunk of the block.
            block: the decided rows.
            what: outcome and reason of each chunk of the block.
        """
        if block.all_by_loop:
            # a slice of rows is written many times faster than single ones
            every = slice(first, first + len(block.position))
            self._position[every], self._jobs[every], self._chosen[every] = block.position, block.jobs, False
        else:
            rows = block.by_loop + first
            self._position[rows], self._jobs[rows] = block.position[block.by_loop], block.jobs[block.by_loop]
            self._chosen[rows] = False
        for at in block.by_loop.tolist():
            self._outcome[first + at], self._reason[first + at] = what[at]
        chunk, candidate = block.chosen_pairs()
        self._chosen[chunk + first, candidate] = True

    def copy(self, row: int, other: SideRows, feasible: Bools) -> None:
        """Copy one piece of work from another side over the same work and candidates.

        Args:
            row: its position.
            other: that side.
            feasible: (Q,) the candidates that were left on both sides when ranking began; all others were rejected
                before, by the same index on both.
        """
        position = other._position[row]
        if self._codes != other._codes:
            # the other side has other filters, so the codes after them have other indices
            position = np.where(feasible, self._places_of(other._codes)[position], position)
        self._position[row], self._chosen[row] = position, other._chosen[row]
        self._jobs[row] = other._jobs[row]
        self._outcome[row], self._reason[row] = other._outcome[row], other._reason[row]

    def _places_of(self, codes: tuple[str, ...]) -> AnyArray:
        """The indices here of another side's codes, followed by the markers of pairs without a code."""
        if codes not in self._places:
            place = {code: at for at, code in enumerate(self._codes)}
            places = [*(place.get(code, NOT_A_CANDIDATE) for code in codes), NOT_A_CANDIDATE, FEASIBLE]
            self._places[codes] = np.array(places, dtype=np.int16)
        return self._places[codes]

    def other_jobs(self, rows: slice, other: SideRows) -> Ints:
        """The rows among ``rows`` whose jobs differ from those on another side."""
        differ: Ints = rows.start + np.flatnonzero((self._jobs[rows] != other._jobs[rows]).any(axis=1))
        return differ

    def whole(self) -> Side:
        """All rows, as one side of a comparison."""
        outcome, reason = texts(self._outcome), texts(self._reason)
        return Side(outcome, reason, self._chosen, self._jobs, self._position, self._codes)


@dataclass(frozen=True)
class CycleComparison:
    """Two sides of one cycle over the same work and candidates.

    Attributes:
        brokerage: its name.
        jeditaskid: (T,) the task of each piece of work.
        names: (Q,) of the candidates: pseudo-queues or nuclei.
        before: with the tuning and rules of the cycle.
        after: with the proposed ones.
    """

    brokerage: str
    jeditaskid: Ints
    names: Texts
    before: Side
    after: Side
