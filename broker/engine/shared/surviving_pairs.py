"""Surviving pairs of a block of chunks and candidates, as a list that later filters judge."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Ints
from broker.domain.rows_by_kind import RowsByKind
from broker.rules.contract import AnyPairs

PairsT = TypeVar("PairsT", bound=AnyPairs)


class PairsLeft:
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
    def of_mask(cls, mask: Bools) -> PairsLeft:
        """The pairs at which a mask (T, Q) holds.

        >>> left = PairsLeft.of_mask(np.array([[True, False], [True, True]]))
        >>> left.cell.tolist(), left.chunk.tolist(), left.candidate.tolist()
        ([0, 2, 3], [0, 1, 1], [0, 0, 1])
        """
        cell = np.flatnonzero(mask)
        # repeated, not divided: that is many times faster
        first = np.repeat(np.arange(len(mask)) * mask.shape[1], of_chunk := np.count_nonzero(mask, axis=1))
        return cls(mask.shape, cell, np.repeat(np.arange(len(mask)), of_chunk), cell - first)

    def __len__(self) -> int:
        """Return N, the number of pairs."""
        return len(self.cell)

    def some(self, at: Ints) -> PairsLeft:
        """The pairs at these ascending positions in the list."""
        return PairsLeft(self.shape, self.cell.take(at), self.chunk.take(at), self.candidate.take(at))

    def among(self, position: Ints, count: int) -> PairsLeft:
        """The same pairs in a block of ``count`` chunks; ``position`` (T,) maps chunks to rows of that block."""
        chunk = position.take(self.chunk)
        return PairsLeft((count, self.shape[1]), chunk * self.shape[1] + self.candidate, chunk, self.candidate)

    def of(self, values: AnyArray | RowsByKind) -> AnyArray:
        """(N,): at each pair, of an array that broadcasts to (T, Q)."""
        if isinstance(values, RowsByKind):
            return values.at_pairs(self.chunk, self.candidate)
        values = np.atleast_2d(values)
        if values.shape == self.shape:
            return values.reshape(-1).take(self.cell)
        if values.shape[0] != 1:
            return values[:, 0].take(self.chunk)
        return values[0].take(self.candidate) if values.shape[1] != 1 else np.full(len(self), values[0, 0])

    def mask(self, held: Bools) -> Bools:
        """(T, Q): true at those pairs at which ``held`` (N,) is."""
        found = np.zeros(self.shape, dtype=np.bool_)
        found.reshape(-1)[self.cell] = held
        return found

    def listed(self, pairs: PairsT) -> PairsT:
        """The pairs of a block as a rule is asked about a list of them: columns and facts have the shape (N, 1)."""
        chunks, candidates = _Column(pairs.chunks, 0, self.chunk), _Column(pairs.candidates, 1, self.candidate)
        return type(pairs)(chunks, candidates, _Facts(pairs.facts, self), pairs.tuning)


class _Column:
    """A table whose columns lie along one axis of a block, taken at pairs when a rule asks for them."""

    def __init__(self, table: Any, axis: int, index: Ints) -> None:
        self._table, self._axis, self._index = table, axis, index

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._table, name)
        if isinstance(value, np.ndarray) and value.shape[self._axis] != 1:
            value = value.reshape(-1).take(self._index)[:, None]
        self.__dict__[name] = value
        return value


class _Facts:
    """Facts at pairs, each when a rule asks for it."""

    def __init__(self, facts: Any, left: PairsLeft) -> None:
        self._facts, self._left = facts, left

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = self._facts.at_pairs(name, self._left.chunk, self._left.candidate)
        return value
