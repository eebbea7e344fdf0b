"""The state of each pair of a block while its filters run: on the whole block first, then on a list of live pairs.

:class:`BlockState` holds the whole block (T, Q), :class:`SurvivingPairs` the N pairs that later filters still evaluate.

Three chunks and four queues, after filter 0 has rejected all but three pairs for good. The list has N = 3 pairs:

    alive (T, Q)     left.cell  left.chunk  left.candidate     filter 1 keeps     reason (T, Q)
    0 1 0 0          1          0           1                  1                   0 -1  0  0
    0 0 0 1          7          1           3                  0                   0  0  0  1
    1 0 0 0          8          2           0                  1                  -1  0  0  0

Filter 1 sees columns of shape (3, 1) instead of (3, 4). Reasons of dropped pairs are final and stay in the block.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from broker.codec.packed_reasons import UndecidedPair
from broker.domain.arrays import AnyArray, Bools, Ints, RowsByKind
from broker.engine.shared.filter_cache import FilterAnswer, Mask
from broker.rules.contract import AnyPairs

PairsT = TypeVar("PairsT", bound=AnyPairs)


class SurvivingPairs:
    """N pairs of a block of T chunks and Q candidates, in the order of the block.

    Attributes:
        shape: (T, Q).
        cell: (N,) the position of each pair in the flattened block.
        chunk: (N,) the chunk of each.
        candidate: (N,) the candidate of each.
    """

    def __init__(self, shape: tuple[int, ...], cell: Ints, chunk: Ints, candidate: Ints) -> None:
        self.shape, self.cell, self.chunk, self.candidate = shape, cell, chunk, candidate

    @classmethod
    def of_mask(cls, mask: Bools) -> SurvivingPairs:
        """The pairs at which a mask (T, Q) holds.

        >>> surviving = SurvivingPairs.of_mask(np.array([[True, False], [True, True]]))
        >>> surviving.cell.tolist(), surviving.chunk.tolist(), surviving.candidate.tolist()
        ([0, 2, 3], [0, 1, 1], [0, 0, 1])
        """
        cell = np.flatnonzero(mask)
        # repeating is many times faster than dividing
        first = np.repeat(np.arange(len(mask)) * mask.shape[1], of_chunk := np.count_nonzero(mask, axis=1))
        return cls(mask.shape, cell, np.repeat(np.arange(len(mask)), of_chunk), cell - first)

    def __len__(self) -> int:
        """Return N, the number of pairs."""
        return len(self.cell)

    def some(self, at: Ints) -> SurvivingPairs:
        """The pairs at these ascending positions in the list."""
        return SurvivingPairs(self.shape, self.cell.take(at), self.chunk.take(at), self.candidate.take(at))

    def among(self, position: Ints, count: int) -> SurvivingPairs:
        """The same pairs in a block of ``count`` chunks; ``position`` (T,) maps chunks to rows of that block."""
        chunk = position.take(self.chunk)
        return SurvivingPairs((count, self.shape[1]), chunk * self.shape[1] + self.candidate, chunk, self.candidate)

    def of(self, values: AnyArray | RowsByKind) -> AnyArray:
        """(N,): the value at each pair of an array that broadcasts to (T, Q)."""
        if isinstance(values, RowsByKind):
            return values.at_pairs(self.chunk, self.candidate)
        values = np.atleast_2d(values)
        if values.shape == self.shape:
            return values.reshape(-1).take(self.cell)
        if values.shape[0] != 1:
            return values[:, 0].take(self.chunk)
        return values[0].take(self.candidate) if values.shape[1] != 1 else np.full(len(self), values[0, 0])

    def mask(self, held: Bools) -> Bools:
        """(T, Q): true at the pairs at which ``held`` (N,) is true."""
        result = np.zeros(self.shape, dtype=np.bool_)
        result.reshape(-1)[self.cell] = held
        return result

    def listed(self, pairs: PairsT) -> PairsT:
        """The pairs of a block in the form of a list: columns and facts have the shape (N, 1)."""
        chunks, candidates = _Column(pairs.chunks, 0, self.chunk), _Column(pairs.candidates, 1, self.candidate)
        return type(pairs)(chunks, candidates, _Facts(pairs.facts, self), pairs.tuning)


class _Column:
    """A table whose columns lie along one axis of a block, taken at pairs when a rule reads them."""

    def __init__(self, table: Any, axis: int, index: Ints) -> None:
        self._table, self._axis, self._index = table, axis, index

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._table, name)
        if isinstance(value, np.ndarray) and value.shape[self._axis] != 1:
            value = value.reshape(-1).take(self._index)[:, None]
        self.__dict__[name] = value
        return value


class _Facts:
    """Facts at pairs, each taken when a rule reads it."""

    def __init__(self, facts: Any, surviving: SurvivingPairs) -> None:
        self._facts, self._surviving = facts, surviving

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = self._facts.at_pairs(name, self._surviving.chunk, self._surviving.candidate)
        return value


FEASIBLE, NOT_A_CANDIDATE = UndecidedPair.FEASIBLE, UndecidedPair.NOT_A_CANDIDATE

#: A list of pairs is made when at most one in so many of the block remains, and again when half of a list does.
PAIRS_OF_BLOCK = 8
#: No list is made of smaller blocks: it would take longer than it saves.
LEAST_PAIRS = 4096


class BlockState:
    """The state of each pair of a block while its filters run: alive or not, and the deciding rule.

    Args:
        pairs: of the block, T chunks and Q candidates.
        count: of filters.

    Attributes:
        shape: (T, Q).
        left: the list of N pairs still to be judged; None while all are. The state of the others is final.
    """

    def __init__(self, pairs: AnyPairs, count: int) -> None:
        self._pairs, self._count = pairs, count
        self._alive: Bools = pairs.facts.initial.copy()  # (T, Q), then (N, 1)
        self.shape = self._alive.shape
        self.surviving: SurvivingPairs | None = None
        # the smallest type that holds twice the indices of the filters
        kind = np.min_scalar_type(-2 * max(1, count))
        self._reason: AnyArray = self._alive.astype(kind) + kind.type(NOT_A_CANDIDATE)
        self._change = np.empty_like(self._reason)
        self._of_block = self._reason
        self._fewer = True
        self._listed: dict[bytes, tuple[Ints | None, AnyPairs]] = {}

    def drop_skipped(self) -> None:
        """Keep pairs that a rule has skipped for now from the rules that follow."""
        self._alive &= self._reason == FEASIBLE
        self._fewer = True

    def narrow(self) -> None:
        """Continue with a list of the remaining pairs, if that is worthwhile."""
        if not self._fewer or math.prod(self.shape) < LEAST_PAIRS:
            return
        self._fewer = False
        fewest = len(self.surviving) // 2 if self.surviving is not None else self._alive.size // PAIRS_OF_BLOCK
        if np.count_nonzero(self._alive) <= fewest:
            self._narrow()

    def _narrow(self) -> None:
        if self.surviving is None:
            self.surviving = SurvivingPairs.of_mask(self._alive)
        else:
            self._note()
            self.surviving = self.surviving.some(np.flatnonzero(self._alive))
        self._alive = np.ones((len(self.surviving), 1), dtype=np.bool_)
        self._reason = self.surviving.of(self._of_block)[:, None]
        self._change = np.empty_like(self._reason)
        self._listed = {}

    def _note(self) -> None:
        """Copy the reasons of the listed pairs into the block."""
        if self.surviving is not None:
            self._of_block.reshape(-1)[self.surviving.cell] = self._reason[:, 0]

    def listed(self, applies: Bools | None) -> tuple[Ints | None, AnyPairs]:
        """The remaining pairs of chunks that a rule ``applies`` (T, 1) to, None for all; and their places in the list.

        Rules that apply to the same chunks share the columns and facts taken for them.

        Raises:
            RuntimeError: there is no list.
        """
        if self.surviving is None:
            raise RuntimeError("the pairs are not in a list; ask about the block")
        key = b"" if applies is None else applies.tobytes()
        if key not in self._listed:
            at = None if applies is None else np.flatnonzero(self.surviving.of(applies))
            surviving = self.surviving if at is None or len(at) == len(self.surviving) else self.surviving.some(at)
            self._listed[key] = None if surviving is self.surviving else at, surviving.listed(self._pairs)
        return self._listed[key]

    def alive_of_block(self) -> Bools:
        """(T, Q): the pairs that no rule has rejected for good."""
        return self._alive if self.surviving is None else self.surviving.mask(self._alive[:, 0])

    def evaluation(self) -> tuple[Bools, AnyArray]:
        """(T, Q) twice: the pairs that nothing has rejected, and the index of the rule that decides each."""
        self._note()
        surviving = self._alive & (self._reason == FEASIBLE)
        return surviving if self.surviving is None else self.surviving.mask(surviving[:, 0]), self._of_block

    def unknown(self, index: int, rejects: bool, applies: Bools | None, removes: bool) -> None:
        """Record that a rule could not judge; ``rejects``: the pairs that it would have judged are rejected."""
        if not rejects:
            return
        if applies is not None and self.surviving is not None:
            applies = self.surviving.of(applies)[:, None]
        self._mark(index + self._count, self._alive.copy() if applies is None else self._alive & applies, removes)

    def apply(self, index: int, rejects_unknown: bool, answer: FilterAnswer, removes: bool) -> None:
        """Apply the answer of a rule about chunks of the block, or pairs of the list."""
        keep, unknown = answer.keep, answer.unknown
        if unknown is None:
            if not (keep.table if isinstance(keep, RowsByKind) else keep).all():
                self._mark(index, np.logical_and(self._alive, self._at(answer, _negated(keep))), removes)
            return
        not_known = self._alive & self._at(answer, unknown)
        hit = self._alive & self._at(answer, _negated(keep))
        self._mark(index, hit & ~not_known, removes)
        if rejects_unknown:
            self._mark(index + self._count, not_known, removes)

    def _at(self, answer: FilterAnswer, mask: Mask) -> Bools:
        """Expand a mask over the judged rows or pairs to one over all current pairs, False elsewhere."""
        rows = answer.rows
        if self.surviving is not None and not answer.of_pairs:
            return self._of_chunks(self.surviving, rows, mask)[:, None]
        judged = mask.every if isinstance(mask, RowsByKind) else mask
        if rows is None:
            return judged
        every = np.zeros((len(self._alive), judged.shape[1]), dtype=np.bool_)
        every[rows] = judged
        return every

    def _of_chunks(self, surviving: SurvivingPairs, rows: AnyArray | None, mask: Mask) -> Bools:
        """(N,): a mask over some chunks of the block at the pairs of the list."""
        if rows is None:
            return surviving.of(mask)
        inside = np.full(self.shape[0], -1)
        inside[rows] = np.arange(len(rows))
        at = np.flatnonzero(inside.take(surviving.chunk) >= 0)
        result = np.zeros(len(surviving), dtype=np.bool_)
        result[at] = surviving.some(at).among(inside, len(rows)).of(mask)
        return result

    def _mark(self, value: int, hit: Bools, removes: bool) -> None:
        if not hit.any():
            return
        # reason += hit * (value - reason), modulo 2**8: arithmetic is many times faster than a masked assignment
        np.subtract(self._reason.dtype.type(value), self._reason, out=self._change)
        np.multiply(self._change, hit.view(np.int8), out=self._change)
        np.add(self._reason, self._change, out=self._reason)
        if removes:
            np.greater(self._alive, hit, out=self._alive)
            self._fewer = True


def _negated(mask: Mask) -> Mask:
    return mask.of_table(~mask.table) if isinstance(mask, RowsByKind) else ~mask
