"""Union of a dataset's parts at several endpoints of a queue, each holding files that others lack.

Source: PanDA production brokerage, available files: every endpoint of a queue counts.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Objects

#: On disk, and on disk or tape.
OnDiskAndAnywhere = tuple[Floats, Floats]


def united_parts(
    held_parts: Objects, group: Ints, on_tape: Bools, place: Ints | None, size: int
) -> tuple[OnDiskAndAnywhere, OnDiskAndAnywhere] | None:
    """Bytes and files that the copies of each of so many groups hold together; None where no copy holds parts.

    Two copies of a group, which hold files of 1, 2 and 2, 4 bytes, the second on tape:

    >>> from broker.domain.held_parts import HeldParts
    >>> held = np.array([HeldParts(((0, 1, 1), (1, 1, 2))), HeldParts(((1, 1, 2), (2, 1, 4)))], dtype=object)
    >>> united = united_parts(held, np.array([0, 0]), np.array([False, True]), None, 1)
    >>> [[column.tolist() for column in both] for both in united]
    [[[3.0], [7.0]], [[2.0], [3.0]]]

    Args:
        held_parts: (R,) what each copy holds, None for a copy of nested files.
        group: (R,) the group of each copy: a dataset of a chunk and a queue.
        on_tape: (R,) the copy is on tape.
        place: (R,) the order of the copies of a group: a file is at the first that has it. Without, it is on disk if it
            is at any copy on disk.
        size: number of groups.
    """
    rows = np.flatnonzero(held_parts != np.array(None, dtype=np.object_))
    if not len(rows):
        return None
    columns = [(row, *part) for row in rows.tolist() for part in held_parts[row].parts]
    copy, number, files, sizes = np.array(columns, dtype=np.float64).T
    of = copy.astype(np.int64)
    rank = on_tape[of] if place is None else place[of]
    order = np.lexsort((rank, number, group[of]))
    own, part = group[of][order], number[order]
    # of each part in a group the copy that comes first says where it is
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (own[1:] != own[:-1]) | (part[1:] != part[:-1])
    chosen, own = order[first], own[first]
    disk = ~on_tape[of[chosen]]

    def summed(values: Floats) -> OnDiskAndAnywhere:
        columns = (own[disk], values[chosen][disk]), (own, values[chosen])
        # of no parts at all it would be whole numbers
        on_disk, every = (
            np.bincount(at, weights=of_parts, minlength=size).astype(np.float64) for at, of_parts in columns
        )
        return on_disk, every

    return summed(sizes), summed(files)
