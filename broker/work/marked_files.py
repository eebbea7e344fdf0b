"""Marked subsets of the files of inputs, counted for many inputs at once.

With a thousand chunks of a few dozen files, whose datasets are partly at several endpoints each, that is much less work
than to go through the files of one input after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.work.chunks import InputFiles
from broker.work.input_files import stored_bytes, unique_totals


class FilesOfInputs:
    """The files of inputs, one input after another (length F); the same input may come several times.

    Args:
        inputs: of the cycle.
        of: (N,) positions of inputs.

    Attributes:
        inputs: of the cycle.
        marked: (F,) the files that are meant; none at first.
    """

    def __init__(self, inputs: InputFiles, of: Ints) -> None:
        self.inputs = inputs
        self._of = of
        first, size = inputs.offsets[of], inputs.offsets[of + 1] - inputs.offsets[of]
        self._bounds = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        self._owner = np.repeat(np.arange(len(of)), size)
        self._position = np.arange(self._bounds[-1]) - np.repeat(self._bounds[:-1] - first, size)
        self._fileid = inputs.files.fileid[self._position]
        self.marked: Bools = np.zeros(len(self._position), dtype=np.bool_)

    def mark_up_to(self, last: Ints) -> None:
        """Mark, and no others, the files of each input whose file id is not above ``last`` (N,)."""
        self.marked = self._fileid <= last[self._owner]

    def mark_spans(self, one: int, spans: Sequence[tuple[int, ...]]) -> None:
        """Mark the files of spans of file ids in the input with number ``one``, and no others.

        Each span begins behind its first id, and its last one is in it.
        """
        part = slice(int(self._bounds[one]), int(self._bounds[one + 1]))
        fileid, marked = self._fileid[part], np.zeros(part.stop - part.start, dtype=np.bool_)
        for behind, last in spans:
            marked |= (fileid > behind) & (fileid <= last)
        self.marked[part] = marked

    def of(self, one: int) -> Iterator[tuple[int, int]]:
        """Positions in ``marked`` and ids of the files of the input that comes as number ``one``."""
        part = slice(int(self._bounds[one]), int(self._bounds[one + 1]))
        return enumerate(self._fileid[part].tolist(), part.start)

    def marks(self) -> list[Bools]:
        """(N,) the marks of the files of each."""
        bounds = self._bounds.tolist()
        return [self.marked[first:stop] for first, stop in pairwise(bounds)]

    def distinct_totals(self) -> Floats:
        """(N, 2) the number of distinct files among the marked ones of each, and the sum of their sizes in bytes."""
        files = self.inputs.files
        position, owner = self._position[self.marked], self._owner[self.marked]
        name = files.lfn_hash[position]
        # where the rows of a name come one after another, so do those of them that are marked
        new = np.ones(len(position), dtype=np.bool_)
        new[1:] = (name[1:] != name[:-1]) | (owner[1:] != owner[:-1])
        totals = np.zeros((len(self._of), 2), dtype=np.int64)
        bounds = np.searchsorted(owner, np.arange(len(self._of) + 1))
        for at, column in enumerate((new, np.where(new, stored_bytes(files)[position], 0))):
            # the sum of everything may wrap around; the difference of two sums is exact all the same
            sums = np.concatenate([[0], np.cumsum(column, dtype=np.int64)])
            totals[:, at] = sums[bounds[1:]] - sums[bounds[:-1]]
        for one in np.flatnonzero(~self.inputs.sums.in_one_run[self._of]).tolist():
            totals[one] = unique_totals(files.rows(position[bounds[one] : bounds[one + 1]]))
        return totals.astype(np.float64)
