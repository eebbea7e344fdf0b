"""How the files of partial replicas are looked up: at each endpoint alone, or at all endpoints of a queue together.

:class:`InputLookup` is the step with its options. :func:`united_parts` adds up what the endpoints of a queue hold
together (bytes and files), where each holds files that others lack.

Source: ATLAS Production Job Brokerage, data availability; PanDA production brokerage, available files (every endpoint
of a queue counts).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Objects
from broker.rules.contract import Options, Step
from broker.snapshot.snapshot import Snapshot


class InputLookupOptions(Options):
    """How files are looked up.

    Attributes:
        files: of which endpoint a queue has a file: of every one that holds it, or of the first that does, by
            ``order_read`` and name. In the second case nothing is looked up while every queue holds a whole copy.
    """

    files: Literal["every_endpoint", "first_endpoint"] = "every_endpoint"


class InputLookup(Step):
    """Where the files of partial replicas are."""

    name = "input_lookup"
    title = "How the files of partial replicas are looked up"
    options: InputLookupOptions = InputLookupOptions()

    @property
    def first_endpoint_only(self) -> bool:
        """Whether a file is only at the first endpoint of a queue that holds it."""
        return self.options.files == "first_endpoint"


def endpoint_order(snapshot: Snapshot) -> Ints:
    """(L,): the place of each relation among those of its queue, by ``order_read`` and the name of the endpoint."""
    relations = snapshot.relations
    rank = np.nan_to_num(relations.order_read, nan=np.inf)
    order = np.lexsort((relations.storage, rank, relations.unified))
    place = np.empty(len(relations), dtype=np.int64)
    place[order] = np.arange(len(relations))
    return place


def of_first_endpoint(keys: Ints, place: Ints, values: Floats, on_tape: Bools, whole: Bools) -> tuple[Floats, Floats]:
    """Amounts on disk, and on disk or tape, of each group, counting a file at its first endpoint.

    The endpoints of a queue hold nested parts of a dataset: each adds what it holds beyond those before it. A whole
    copy counts whatever comes before it.

    Args:
        keys: (R,) the group of each copy: a dataset of a chunk and a queue.
        place: (R,) the order of the copies in a group.
        values: (R,) files or bytes of the chunk that the copy holds.
        on_tape: (R,) the copy is on tape.
        whole: (R,) the copy is known to be whole, without a look-up.
    """
    groups, group = np.unique(keys, return_inverse=True)
    disk, anywhere, before = np.zeros(len(groups)), np.zeros(len(groups)), np.zeros(len(groups))
    whole_disk = np.zeros(len(groups))
    np.maximum.at(whole_disk, group, np.where(whole & ~on_tape, values, 0.0))
    for row in np.lexsort((place, group)):
        own, value = group[row], values[row]
        added = max(0.0, value - before[own])
        disk[own] += 0.0 if on_tape[row] else added
        before[own] = max(before[own], value)
    np.maximum.at(anywhere, group, values)
    return np.maximum(disk, whole_disk), anywhere


#: On disk, and on disk or tape.
OnDiskAndAnywhere = tuple[Floats, Floats]


def united_parts(
    held_parts: Objects, group: Ints, on_tape: Bools, place: Ints | None, size: int
) -> tuple[OnDiskAndAnywhere, OnDiskAndAnywhere] | None:
    """Bytes and files that the copies of each group hold together; None where no copy holds parts.

    Two copies of a group, which hold files of 1, 2 and 2, 4 bytes, the second on tape:

    >>> from broker.domain.work import HeldParts
    >>> held = np.array([HeldParts(((0, 1, 1), (1, 1, 2))), HeldParts(((1, 1, 2), (2, 1, 4)))], dtype=object)
    >>> united = united_parts(held, np.array([0, 0]), np.array([False, True]), None, 1)
    >>> [[column.tolist() for column in both] for both in united]
    [[[3.0], [7.0]], [[2.0], [3.0]]]

    Args:
        held_parts: (R,) what each copy holds, None for a copy of nested files.
        group: (R,) the group of each copy: a dataset of a chunk and a queue.
        on_tape: (R,) the copy is on tape.
        place: (R,) the order of the copies of a group: a file is at the first that has it. Without an order, a file is
            on disk if any copy on disk has it.
        size: number of groups.
    """
    rows = np.flatnonzero(held_parts != np.array(None, dtype=np.object_))
    if not len(rows):
        return None
    columns = [(row, *part) for row in rows.tolist() for part in held_parts[row].parts]
    copy, number, files, sizes = np.array(columns, dtype=np.float64).T
    copy_row = copy.astype(np.int64)
    rank = on_tape[copy_row] if place is None else place[copy_row]
    order = np.lexsort((rank, number, group[copy_row]))
    own, part = group[copy_row][order], number[order]
    # the first copy of each part in a group decides where the part is
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (own[1:] != own[:-1]) | (part[1:] != part[:-1])
    chosen, own = order[first], own[first]
    disk = ~on_tape[copy_row[chosen]]

    def summed(values: Floats) -> OnDiskAndAnywhere:
        columns = (own[disk], values[chosen][disk]), (own, values[chosen])
        # without any parts, the sums would be integers
        on_disk, every = (
            np.bincount(groups, weights=of_parts, minlength=size).astype(np.float64) for groups, of_parts in columns
        )
        return on_disk, every

    return summed(sizes), summed(files)
