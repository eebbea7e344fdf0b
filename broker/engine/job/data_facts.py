"""The location of the input of chunks: how much each unified queue has, and whether it can be read from elsewhere.

:func:`gather_data` computes sparse rows for all chunks of a cycle (:class:`DataFacts`); :class:`BlockInput` takes those
of a block on first access.

Three chunks of 10 files, four queues A to D. A and B read DISK_A, B also TAPE_B, C reads DISK_C, D reads nothing.
Chunk 0 lies on DISK_A, chunk 1 on DISK_C (its second dataset only in part), chunk 2 on TAPE_B and 6 files on DISK_A.
Only pairs with some of the input have a row:

    chunk       0  0  1  2  2       here_chunk    0 0      (chunk 0 is complete at A and B)
    unified     A  B  C  A  B       here_unified  A B
    disk_files  10 10 10 6  6       no_locations  0 1 0    (no endpoint has all of chunk 1)
    any_files   10 10 10 6 10       fault         0 2 0    (its second dataset has no complete replica)

Source: ATLAS Production Job Brokerage, data availability; PanDA production brokerage, dataset completeness and
available files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from broker.domain.arrays import Bools, Floats, IdentityCache, Ints, RowsByKind, any_of, codes_of, distinct, texts
from broker.domain.facts import Later
from broker.domain.work import Work, WorkTable
from broker.engine.job.input_lookup import InputLookup, endpoint_order, of_first_endpoint, united_parts
from broker.snapshot.snapshot import Snapshot

DATADISK = "DATADISK"
BY_EVERY_ENDPOINT = InputLookup()
#: By whether only DATADISK endpoints count: the relations through which queues of the last snapshots read input.
_reading = IdentityCache[dict[bool, tuple[Ints, Ints]]]()


@dataclass(frozen=True)
class InputLimits:
    """gdpconfig limits for input data: which replicas are complete, and when only complete ones count.

    ``max_missing_files`` files or ``min_completeness_percent`` of them make a replica complete enough; above
    ``io_intensity_cutoff_kbps`` a part of a dataset is not looked up file by file.
    """

    max_missing_files: float
    min_completeness_percent: float
    io_intensity_cutoff_kbps: float


@dataclass(frozen=True)
class DataFacts:
    """Sparse availability, one row a chunk and unified queue, sorted by chunk; and the fault of each chunk.

    ``here`` marks pairs where the queue holds a complete replica of every dataset; ``no_locations`` marks chunks
    without a known location, for which no location can be required.
    """

    chunk: Ints
    unified: Ints
    disk_bytes: Floats
    disk_files: Floats
    any_bytes: Floats
    any_files: Floats
    here_chunk: Ints
    here_unified: Ints
    no_locations: Bools  # (T,)
    remote_source: Bools  # (T,)
    fault: Ints  # (T,) index into INPUT_FAULTS


class DataFactsLater(DataFacts):
    """Like :class:`DataFacts`, computed on first access: for brokerages whose rules rarely read it.

    Args:
        remote_source: the column that is known in advance.
        make: computes all columns.
    """

    def __init__(self, remote_source: Bools, make: Callable[[], DataFacts]) -> None:
        vars(self).update(remote_source=remote_source, _make=make)

    if not TYPE_CHECKING:  # the type checker shall report a name that is no column

        def __getattr__(self, name: str) -> Any:
            """Compute all columns on first access."""
            if name not in {field.name for field in dataclasses.fields(DataFacts)}:
                raise AttributeError(f"{type(self).__name__} has no column {name}")
            # a failed computation is retried on the next access, and raises the same error
            if (make := vars(self).get("_make")) is not None:
                vars(self).update(vars(make()) | vars(self))
                vars(self).pop("_make", None)
            return vars(self)[name]


def gather_data(
    work: Work,
    snapshot: Snapshot,
    limits: InputLimits,
    *,
    files_wanted: bool = True,
    lookup: InputLookup = BY_EVERY_ENDPOINT,
) -> DataFacts:
    """Gather facts about the replicas of a cycle's inputs, for its chunks and the snapshot's queues.

    Args:
        work: the chunks with their input.
        snapshot: the grid.
        limits: the limits for completeness.
        files_wanted: whether the files of every dataset are looked up, so that the catalogue must know each dataset;
            the dry run of the task brokerage looks up none.
        lookup: how the files of partial copies are looked up.
    """
    replicas = work.replicas
    names, place = distinct(replicas.rse)
    storage_of = codes_of(texts(names), list(snapshot.storages.name))
    storage = storage_of[place]
    complete_enough = _complete_enough(work, limits)
    fault, remote_source = _completeness(work, snapshot, storage, complete_enough, files_wanted)
    lan, wan = _readable(snapshot, storage)
    located = complete_enough & (lan | wan)
    here_chunk, here_unified, no_locations = _complete_everywhere(work, snapshot, place, storage_of, located)
    rows = _availability(work, snapshot, storage, limits, lookup)
    return DataFacts(*rows, here_chunk, here_unified, no_locations, remote_source, fault)


def _complete_enough(work: Work, limits: InputLimits) -> Bools:
    replicas = work.replicas
    missing = replicas.total - replicas.found
    with np.errstate(divide="ignore", invalid="ignore"):
        share = replicas.found / replicas.total * 100.0
    unknown_both = np.isnan(replicas.total) & np.isnan(replicas.found)
    close = (missing <= limits.max_missing_files) | (share >= limits.min_completeness_percent)
    # a replica without files is no copy, however few files the dataset has; a dataset without files is everywhere
    close &= (replicas.found > 0) | (replicas.total == 0)
    return np.asarray((replicas.complete | unknown_both | close) & ~replicas.is_vp)


def _readable(snapshot: Snapshot, storage: Ints) -> tuple[Bools, Bools]:
    # an endpoint that is not on record is not known to be closed
    known = storage >= 0
    if len(snapshot.storages) == 0:
        return np.ones(len(storage), np.bool_), np.ones(len(storage), np.bool_)
    index = np.maximum(storage, 0)
    return ~known | snapshot.storages.read_lan[index], ~known | snapshot.storages.read_wan[index]


def _completeness(
    work: Work, snapshot: Snapshot, storage: Ints, enough: Bools, files_wanted: bool
) -> tuple[Ints, Bools]:
    inputs, chunks = work.inputs, work.chunks
    lan, wan = _readable(snapshot, storage)
    counted = enough & (lan | wan)
    complete = any_of(work.replicas.input, enough, len(inputs))
    readable = any_of(work.replicas.input, counted, len(inputs))
    remote = any_of(work.replicas.input, enough & wan, len(inputs))
    staged = chunks.input_prestaging[inputs.chunk]
    checked = ~inputs.is_pseudo & ~inputs.distributed & ~staged
    unknown = ~inputs.is_pseudo & ~inputs.catalogued
    fault = np.zeros(len(chunks), dtype=np.int64)
    for code, bad in (
        (3, checked & complete & ~readable),
        (2, checked & ~complete),
        (1, unknown & files_wanted),
        (4, ~inputs.is_pseudo & ~inputs.asked & files_wanted),
    ):
        fault[inputs.chunk[bad]] = code
    remote_source = ~any_of(inputs.chunk, checked & readable & ~remote, len(chunks))
    return fault, remote_source


def _complete_everywhere(
    work: Work, snapshot: Snapshot, place: Ints, storage_of: Ints, located: Bools
) -> tuple[Ints, Ints, Bools]:
    """Chunks and queues with a readable, complete replica of every dataset; and the chunks without any such place.

    Endpoints that are not on record are places too, though no queue reads them.

    Args:
        work: the chunks with their input.
        snapshot: the grid.
        place: (R,) of each replica.
        storage_of: by place, the endpoint on record, -1 for none.
        located: (R,) complete replicas that can be read.
    """
    inputs, queues = work.inputs, max(1, len(snapshot.unified))
    counted = ~inputs.is_pseudo & ~inputs.distributed
    wanted = np.bincount(inputs.chunk[counted], minlength=len(work.chunks))
    rows = located & counted[work.replicas.input]
    span = max(1, len(storage_of))
    # one entry a dataset and endpoint, so that the count below counts datasets
    pairs = np.unique(work.replicas.input[rows] * span + place[rows])
    keys, counts = np.unique(inputs.chunk[pairs // span] * span + pairs % span, return_counts=True)
    whole = keys[counts == wanted[keys // span]]
    no_locations = np.ones(len(work.chunks), dtype=np.bool_)
    no_locations[whole // span] = False
    whole = whole[storage_of[whole % span] >= 0]
    position, unified, _ = _queues_reading(snapshot, storage_of[whole % span], datadisk_only=True)
    pair = np.unique((whole // span)[position] * queues + unified)
    return pair // queues, pair % queues, no_locations


def _queues_reading(snapshot: Snapshot, storage: Ints, *, datadisk_only: bool = False) -> tuple[Ints, Ints, Ints]:
    """For each storage of a list, the unified queues that read it: position in the list, unified queue, relation.

    Queues 0 and 3 read storage 5, queue 0 also storage 2; no queue reads storage 9:

    >>> from types import SimpleNamespace as Table
    >>> flags = {"is_input": np.ones(3, dtype=bool), "of_default_scope": np.ones(3, dtype=bool)}
    >>> relations = Table(storage=np.array([2, 5, 5]), unified=np.array([0, 0, 3]), **flags)
    >>> grid = Table(relations=relations, storages=None)
    >>> [part.tolist() for part in _queues_reading(grid, np.array([5, 9, 2]))]
    [[0, 0, 2], [0, 3, 0], [1, 2, 0]]
    """
    relations = snapshot.relations
    known = _reading.of((relations, snapshot.storages), dict)
    if datadisk_only not in known:
        known[datadisk_only] = _read_relations(snapshot, datadisk_only)
    reading, sorted_storage = known[datadisk_only]
    first = np.searchsorted(sorted_storage, storage, side="left")
    count = np.searchsorted(sorted_storage, storage, side="right") - first
    position = np.repeat(np.arange(len(storage)), count)
    offset = np.arange(len(position)) - np.repeat(np.cumsum(count) - count, count)
    relation = reading[first[position] + offset]
    return position, relations.unified[relation], relation


def _read_relations(snapshot: Snapshot, datadisk_only: bool) -> tuple[Ints, Ints]:
    """The relations through which queues read input, by storage; and the storage of each."""
    relations = snapshot.relations
    wanted = relations.is_input & relations.of_default_scope
    if datadisk_only and len(snapshot.storages):
        wanted &= (snapshot.storages.type == DATADISK)[relations.storage]
    reading = np.flatnonzero(wanted)
    reading = reading[np.argsort(relations.storage[reading], kind="stable")]
    return reading, relations.storage[reading]


def _on_tape(work: Work, snapshot: Snapshot, storage: Ints) -> Bools:
    """(R,): the replica's own flag; for an endpoint known only from named files, the endpoint's."""
    replicas = work.replicas
    if len(snapshot.storages) == 0:
        return replicas.is_tape
    files_only = np.isnan(replicas.total) & (replicas.found == 0) & (storage >= 0)
    return np.asarray(replicas.is_tape | (files_only & snapshot.storages.is_tape[np.maximum(storage, 0)]))


def _largest(groups: Ints, values: Floats, size: int) -> Floats:
    """(size,): the largest value of each group, 0 for a group without any.

    Parts of 1 and 2 files of one dataset at two endpoints of a queue are nested, so the queue has 2 and not 3 of them:

    >>> _largest(np.array([0, 0, 2]), np.array([1.0, 2.0, 5.0]), size=3).tolist()
    [2.0, 0.0, 5.0]
    """
    largest = np.zeros(size)
    np.maximum.at(largest, groups, values)
    return largest


def _availability(
    work: Work, snapshot: Snapshot, storage: Ints, limits: InputLimits, lookup: InputLookup
) -> tuple[Ints, Ints, Floats, Floats, Floats, Floats]:
    """The first six columns of :class:`DataFacts`, in their order.

    A pair (dataset, queue) is one number, ``dataset * span + queue``, so that equal pairs are found by ``np.unique``;
    then the same with (chunk, queue), over which the datasets of a chunk are added up.
    """
    replicas, inputs, chunks = work.replicas, work.inputs, work.chunks
    chunk_of = inputs.chunk[replicas.input]
    intensity = chunks.iointensity[chunk_of]
    whole_only = ~inputs.is_master[replicas.input] | (
        (intensity > limits.io_intensity_cutoff_kbps) & ~chunks.input_prestaging[chunk_of]
    )
    usable = (storage >= 0) & (replicas.holds_all | ~whole_only) & (replicas.chunk_files > 0)
    rows = np.flatnonzero(usable)
    position, unified, relation = _queues_reading(snapshot, storage[rows])
    row = rows[position]
    span = max(1, len(snapshot.unified))
    on_tape = _on_tape(work, snapshot, storage)[row]
    # where the endpoints of one queue hold nested parts of a dataset, the largest part is their union
    keys, inverse = np.unique(replicas.input[row] * span + unified, return_inverse=True)
    inverse = inverse.ravel()
    stats = []
    place = endpoint_order(snapshot)[relation] if lookup.first_endpoint_only else None
    for values in (replicas.chunk_bytes[row], replicas.chunk_files[row]):
        if place is not None:
            whole = replicas.holds_all[row]
            stats.append(of_first_endpoint(inverse, place, values, on_tape, whole))
            continue
        on_disk = np.where(on_tape, 0.0, values)
        stats.append((_largest(inverse, on_disk, len(keys)), _largest(inverse, values, len(keys))))
    united = united_parts(replicas.held_parts[row], inverse, on_tape, place, len(keys))
    if united is not None:
        stats = [
            (np.maximum(disk, united_disk), np.maximum(every, united_every))
            for (disk, every), (united_disk, united_every) in zip(stats, united, strict=True)
        ]
    pairs, group = np.unique(inputs.chunk[keys // span] * span + keys % span, return_inverse=True)
    summed: list[Floats] = [
        np.bincount(group, weights=column, minlength=len(pairs)).astype(np.float64) for both in stats for column in both
    ]
    # a file in two datasets is one file: no queue holds more than the total
    most_bytes, most_files = chunks.total_bytes[pairs // span], chunks.total_files[pairs // span]
    disk_bytes, any_bytes, disk_files, any_files = (
        np.minimum(column, most)
        for column, most in zip(summed, (most_bytes, most_bytes, most_files, most_files), strict=True)
    )
    return pairs // span, pairs % span, disk_bytes, disk_files, any_bytes, any_files


@dataclass(frozen=True)
class BlockInput:
    """The input of the chunks ``rows`` at candidates of the unified queues ``unified`` (Q,), of which there are U."""

    work: WorkTable
    rows: slice
    data: DataFacts
    unified: Ints
    count: int

    def facts(self) -> dict[str, Later]:
        """The fields of ``JobFacts`` that depend on the input alone."""
        return {
            "available_bytes": partial(self._available, "disk_bytes"),
            "available_files": partial(self._available, "disk_files"),
            "available_tape_bytes": partial(self._available, "any_bytes"),
            "available_tape_files": partial(self._available, "any_files"),
            "all_local": self._all_local,
        }

    def complete(self) -> RowsByKind:
        """Whether a complete replica of every dataset is there, or no location can be required."""
        data, rows = self.data, self.rows
        first, last = np.searchsorted(data.here_chunk, (rows.start, rows.stop))
        mask: Bools = np.zeros((rows.stop - rows.start, self.count), dtype=np.bool_)
        mask[data.here_chunk[first:last] - rows.start, data.here_unified[first:last]] = True
        mask[data.no_locations[rows]] = True
        return RowsByKind(mask, column=self.unified)

    @cached_property
    def _cells(self) -> tuple[slice, tuple[Ints, Ints]]:
        """Rows of the availability data, and their positions in a block by unified queue."""
        data, rows = self.data, self.rows
        first, last = np.searchsorted(data.chunk, (rows.start, rows.stop))
        of_block = slice(int(first), int(last))
        return of_block, (data.chunk[of_block] - rows.start, data.unified[of_block])

    def _available(self, column: str) -> RowsByKind:
        of_block, cells = self._cells
        values: Floats = getattr(self.data, column)
        amounts = np.zeros((self.rows.stop - self.rows.start, self.count))
        amounts[cells] = values[of_block]
        return RowsByKind(amounts, column=self.unified)

    def _all_local(self) -> RowsByKind:
        """Whether there is no input, or all of it is on disk at the queue."""
        there = self._available("disk_bytes")
        total = self.work.total_bytes[self.rows, None]
        return there.of_table((total == 0) | (there.table >= total))
