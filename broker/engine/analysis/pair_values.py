"""Values of the few pairs of chunks and unified queues at which there is anything to say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import AnyArray, Ints


@dataclass(frozen=True)
class PairValues:
    """A matrix (T, U) of which each chunk has one value nearly everywhere.

    Attributes:
        chunk: (P,) of each pair, ascending.
        unified: (P,) its unified queue.
        value: (P,) at the pair.
        rest: (T,) the value of a chunk at all other queues.
        count: U.

    Two chunks and three queues:

    >>> one = np.array([1])
    >>> PairValues(one, np.array([2]), np.array([7]), np.array([0, 5]), count=3).every.tolist()
    [[0, 0, 0], [5, 5, 7]]
    """

    chunk: Ints
    unified: Ints
    value: AnyArray
    rest: AnyArray
    count: int

    @property
    def every(self) -> AnyArray:
        """(T, U): the value of every chunk at every unified queue."""
        return self.of(slice(0, len(self.rest)))

    def of(self, rows: slice) -> AnyArray:
        """(T, U) of the chunks ``rows``."""
        first, last = np.searchsorted(self.chunk, (rows.start, rows.stop)).tolist()
        found = np.empty((rows.stop - rows.start, self.count), dtype=self.value.dtype)
        found[:] = self.rest[rows, None]
        cells = (self.chunk[first:last] - rows.start) * self.count + self.unified[first:last]
        found.reshape(-1)[cells] = self.value[first:last]
        return found
