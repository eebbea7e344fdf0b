"""How the files of partial replicas are looked up: for each endpoint, or one look-up for all queues together.

Source: ATLAS Production Job Brokerage, data availability; PanDA production brokerage, available files.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
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

    The endpoints of a queue hold nested parts of a dataset: one adds what it holds beyond those in front of it. A whole
    copy is there whatever stands in front of it.

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
        of, value = group[row], values[row]
        added = max(0.0, value - before[of])
        disk[of] += 0.0 if on_tape[row] else added
        before[of] = max(before[of], value)
    np.maximum.at(anywhere, group, values)
    return np.maximum(disk, whole_disk), anywhere
