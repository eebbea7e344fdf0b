"""Union of partial replicas, where none of them holds every file that the others do.

Replicas of which only numbers of files are known hold the first files of a dataset, one more than the other: the
largest has all. Where files are named, or belong to constituents of a container, each may hold what the other lacks.
Source: PanDA production brokerage, available files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Ints, Objects
from broker.domain.held_parts import HeldParts
from broker.work.chunks import InputFiles
from broker.work.input_files import stored_bytes


def parts_of_replicas(inputs: InputFiles, input_of: Ints, held: Sequence[Bools | None], mixed: set[int]) -> Objects:
    """(R,) the parts that each replica holds, None where the largest replica of an input has all that is anywhere.

    Args:
        inputs: the files.
        input_of: (R,) the input of each replica, ascending.
        held: (R,) which of the files of the input each holds, None: all of them.
        mixed: datasets of which a replica may hold other files than the first; mostly there is none.
    """
    found = np.full(len(held), None, dtype=np.object_)
    if not mixed:
        return found
    rows = np.flatnonzero(np.isin(inputs.dataset[input_of], sorted(mixed))).tolist()
    partial = np.array([row for row in rows if (mask := held[row]) is not None and mask.any()], dtype=np.int64)
    owner = input_of[partial]
    # an input with one partial replica has nothing to be put together
    several = np.flatnonzero(np.diff(owner, prepend=-1) == 0)
    for one in np.unique(owner[several]).tolist():
        first, stop = np.searchsorted(owner, (one, one + 1)).tolist()
        own = partial[first:stop].tolist()
        masks = np.array([held[row] for row in own])
        if not _nested(masks):
            for row, parts in zip(own, _parts(inputs, one, masks), strict=True):
                found[row] = parts
    return found


def _nested(masks: AnyArray) -> bool:
    """Whether each of the masks (N, F) has all files of those with fewer."""
    ascending = masks[np.argsort(masks.sum(axis=1), kind="stable")]
    return not (ascending[:-1] & ~ascending[1:]).any()


def _parts(inputs: InputFiles, position: int, masks: AnyArray) -> list[HeldParts]:
    """For each of the masks (N, F) of an input the parts that it holds; a file of several rows counts once."""
    files = inputs.files_of(position)
    names, first, name = np.unique(files.lfn_hash, return_index=True, return_inverse=True)
    by_name = np.zeros((len(masks), len(names)), dtype=np.bool_)
    for mask, row in zip(masks, by_name, strict=True):
        row[name[mask]] = True
    size = stored_bytes(files)[first].astype(np.float64)
    kinds, part = np.unique(by_name, axis=1, return_inverse=True)
    part = part.ravel()
    number = np.bincount(part, minlength=kinds.shape[1])
    total = np.bincount(part, weights=size, minlength=kinds.shape[1])
    return [
        HeldParts(tuple((at, float(number[at]), float(total[at])) for at in np.flatnonzero(row).tolist()))
        for row in kinds
    ]
