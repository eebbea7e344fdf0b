"""Which queues have a dataset of a chunk, and how: one sparse row for each dataset and queue that has anything of it.

Pairs of chunks and unified queues that have no row share one value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, Objects, RowsByKind, any_of, taken
from broker.domain.work import Work
from broker.engine.analysis.queue_attributes import readers_of
from broker.snapshot.snapshot import Snapshot

#: Properties of a replica, as bits: on a disk and real, by virtual placement, complete or not; and the last two again
#: for those that count as on disk for the chunk, and for those that are no virtual placement.
_REAL_DISK, _VP, _WHOLE, _PART, _DISK_WHOLE, _DISK_PART, _PLAIN_WHOLE, _PLAIN_PART = (1 << bit for bit in range(8))


@dataclass(frozen=True)
class Entries:
    """Replicas at queues: one row for each input, unified queue and endpoint."""

    at: Ints  # input
    unified: Ints
    complete: Bools
    tape: Bools
    vp: Bools
    bytes: Floats
    files: Floats
    whole: Bools  # every file of the input is there
    counted: Bools  # a file is there, in a container one of a constituent that is complete there
    held_parts: Objects  # see the replicas


def replicas_at_queues(work: Work, snapshot: Snapshot, storage: Ints, complete: Bools, able: Bools) -> Entries:
    """The replicas at the endpoints (R,) ``storage`` that queues read.

    Args:
        work: with the replicas.
        snapshot: the grid.
        storage: position of the endpoint of each, -1 unknown.
        complete: (R,) which are complete.
        able: (U,) the queues to consider.
    """
    replicas = work.replicas
    known = np.flatnonzero(storage >= 0)
    position, queue = readers_of(snapshot, storage[known])
    row = known[position]
    seen = able[queue]
    row, queue = row[seen], queue[seen]
    vp = replicas.is_vp[row]
    return Entries(
        at=replicas.input[row],
        unified=queue,
        complete=complete[row] | vp,
        tape=replicas.is_tape[row],
        vp=vp,
        bytes=replicas.chunk_bytes[row],
        files=replicas.chunk_files[row],
        whole=replicas.holds_all[row] | vp,
        counted=vp | (replicas.found[row] > 0) | ~work.inputs.is_container[replicas.input[row]],
        held_parts=replicas.held_parts[row],
    )


@dataclass(frozen=True)
class Places:
    """The queues that have a dataset among the candidates of its chunk, ordered by dataset, then by queue.

    Attributes:
        at: (N,) the input.
        unified: (N,) the queue.
        anywhere: (N,) it is there.
        disk: (N,) it is there on disk.
        without_vp: (N,) it is there without virtual placement.
        twice: (N,) a complete and an incomplete replica both count.
    """

    at: Ints
    unified: Ints
    anywhere: Bools
    disk: Bools
    without_vp: Bools
    twice: Bools

    def where(self, flags: Bools) -> Places:
        """The entries at which ``flags`` (N,) hold."""
        return taken(self, np.flatnonzero(flags))


def places_of(
    entries: Entries, chunk_of: Ints, candidates: RowsByKind, incomplete_allowed: Bools, uses_vp: Bools
) -> Places:
    """Where the inputs are.

    Args:
        entries: replicas at queues.
        chunk_of: (I,) the chunk of each input.
        candidates: (T, U) of the chunks.
        incomplete_allowed: (I,) incomplete replicas count alongside complete ones, if no place has these on disk.
        uses_vp: (I,) the chunk may use virtual placement.
    """
    span, size = max(1, candidates.table.shape[1]), len(chunk_of)
    cell, seen = _together(entries.at * span + entries.unified, _bits(entries, uses_vp))
    at, unified = cell // span, cell % span
    wanted = candidates.at(chunk_of[at], unified)
    at, unified, seen = at[wanted], unified[wanted], seen[wanted]
    on_disk_somewhere = any_of(at, seen & _REAL_DISK > 0, size)
    usable = (seen & _VP == 0) | ~on_disk_somewhere[at]
    joined = incomplete_allowed & ~on_disk_somewhere

    def having(whole: int, part: int) -> Bools:
        complete = usable & (seen & whole > 0)
        parts = joined | ~any_of(at, complete, size)
        return np.asarray(complete | (usable & (seen & part > 0) & parts[at]))

    return Places(
        at=at,
        unified=unified,
        anywhere=having(_WHOLE, _PART),
        disk=having(_DISK_WHOLE, _DISK_PART),
        without_vp=having(_PLAIN_WHOLE, _PLAIN_PART),
        twice=(seen & (_WHOLE | _PART) == _WHOLE | _PART) & usable & joined[at],
    )


def _bits(entries: Entries, uses_vp: Bools) -> AnyArray:
    """(N,): the properties of each replica as bits."""
    complete, plain, disk = entries.complete, ~entries.vp, ~entries.tape
    allowed = disk & (plain | uses_vp[entries.at])
    flags = (
        complete & plain & disk, entries.vp, complete, ~complete, complete & allowed, ~complete & allowed,
        complete & plain, ~complete & plain,
    )  # fmt: skip
    bits: AnyArray = np.packbits(np.array(flags), axis=0, bitorder="little")[0]
    return bits


def _together(keys: Ints, bits: AnyArray) -> tuple[Ints, AnyArray]:
    """The distinct keys, ascending, and all bits of each."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.bitwise_or.reduceat(bits[order], starts) if len(starts) else bits


@dataclass(frozen=True)
class PairValues:
    """A matrix (T, U) in which each chunk has one value nearly everywhere.

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
        matrix = np.empty((rows.stop - rows.start, self.count), dtype=self.value.dtype)
        matrix[:] = self.rest[rows, None]
        cells = (self.chunk[first:last] - rows.start) * self.count + self.unified[first:last]
        matrix.reshape(-1)[cells] = self.value[first:last]
        return matrix
