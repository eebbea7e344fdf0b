"""How many files and bytes of each chunk's input every storage endpoint holds, from complete and partial replicas.

A complete replica holds every file. For partial ones, a file that the catalogue names is exactly where it is named; any
other file is there if it is among the first files of the dataset by file id, up to the number available. For analysis,
the files of a container belong to its constituents in their order, each with its total number of files; a constituent
is at a place as a whole or not at all.

The union of partial replicas is what several endpoints hold together. Replicas known only by numbers of files hold the
first files of a dataset, so the largest has all of the union. Where files are named, or belong to constituents of a
container, each replica may hold files that the other lacks.

Source: PanDA production brokerage, available files; PanDA analysis brokerage, files of a container.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from broker.domain.arrays import AnyArray, Bools, Floats, Ints, Objects, Texts, objects, taken, texts
from broker.domain.work import DroppedRow, HeldParts, InputTable, ReplicaTable
from broker.work.catalogue import Catalogue, PlacedDatasets, has_answer, is_catalogued, is_distributed
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.input_files import scope_and_name, stored_bytes, unique_totals
from broker.work.tasks import DatasetTable


def parts_of_replicas(inputs: InputFiles, input_of: Ints, held: Sequence[Bools | None], mixed: set[int]) -> Objects:
    """(R,) the parts that each replica holds, None where the largest replica of an input has all available files.

    Args:
        inputs: the files.
        input_of: (R,) the input of each replica, ascending.
        held: (R,) which files of the input each holds, None for all.
        mixed: datasets with replicas that may hold other files than the first; mostly none.
    """
    parts_of = np.full(len(held), None, dtype=np.object_)
    if not mixed:
        return parts_of
    rows = np.flatnonzero(np.isin(inputs.dataset[input_of], sorted(mixed))).tolist()
    partial = np.array([row for row in rows if (mask := held[row]) is not None and mask.any()], dtype=np.int64)
    owner = input_of[partial]
    # an input with a single partial replica needs no union
    several = np.flatnonzero(np.diff(owner, prepend=-1) == 0)
    for position in np.unique(owner[several]).tolist():
        first, stop = np.searchsorted(owner, (position, position + 1)).tolist()
        own = partial[first:stop].tolist()
        masks = np.array([held[row] for row in own])
        if not _nested(masks):
            for row, parts in zip(own, _parts_of_files(inputs, position, masks), strict=True):
                parts_of[row] = parts
    return parts_of


def _nested(masks: AnyArray) -> bool:
    """Whether each of the masks (N, F) has all files of the smaller ones."""
    ascending = masks[np.argsort(masks.sum(axis=1), kind="stable")]
    return not (ascending[:-1] & ~ascending[1:]).any()


def _parts_of_files(inputs: InputFiles, position: int, masks: AnyArray) -> list[HeldParts]:
    """The parts that each of the masks (N, F) of an input holds; a file with several rows counts once."""
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


class FilesOfInputs:
    """The files of inputs, one input after another (length F); the same input may come several times.

    Args:
        inputs: of the cycle.
        of: (N,) positions of inputs.

    Attributes:
        inputs: of the cycle.
        marked: (F,) the marked files; none at first.
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
        """Mark only the files of each input whose file id is not above ``last`` (N,)."""
        self.marked = self._fileid <= last[self._owner]

    def mark_spans(self, one: int, spans: Sequence[tuple[int, ...]]) -> None:
        """Mark only the files in spans of file ids, in the input with number ``one``.

        Each span excludes its first id and includes its last one.
        """
        part = slice(int(self._bounds[one]), int(self._bounds[one + 1]))
        fileid, marked = self._fileid[part], np.zeros(part.stop - part.start, dtype=np.bool_)
        for behind, last in spans:
            marked |= (fileid > behind) & (fileid <= last)
        self.marked[part] = marked

    def of(self, one: int) -> Iterator[tuple[int, int]]:
        """Positions in ``marked`` and ids of the files of the input with number ``one``."""
        part = slice(int(self._bounds[one]), int(self._bounds[one + 1]))
        return enumerate(self._fileid[part].tolist(), part.start)

    def masks(self) -> list[Bools]:
        """(N,) the marks of the files of each input."""
        bounds = self._bounds.tolist()
        return [self.marked[first:stop] for first, stop in pairwise(bounds)]

    def distinct_totals(self) -> Floats:
        """(N, 2) the number of distinct marked files of each input, and the sum of their sizes in bytes."""
        files = self.inputs.files
        position, owner = self._position[self.marked], self._owner[self.marked]
        name = files.lfn_hash[position]
        # if the rows of a name are neighbours, so are its marked ones
        new = np.ones(len(position), dtype=np.bool_)
        new[1:] = (name[1:] != name[:-1]) | (owner[1:] != owner[:-1])
        totals = np.zeros((len(self._of), 2), dtype=np.int64)
        bounds = np.searchsorted(owner, np.arange(len(self._of) + 1))
        for at, column in enumerate((new, np.where(new, stored_bytes(files)[position], 0))):
            # the total sum may wrap around; the difference of two sums is exact nevertheless
            sums = np.concatenate([[0], np.cumsum(column, dtype=np.int64)])
            totals[:, at] = sums[bounds[1:]] - sums[bounds[:-1]]
        for number in np.flatnonzero(~self.inputs.sums.in_one_run[self._of]).tolist():
            totals[number] = unique_totals(files.rows(position[bounds[number] : bounds[number + 1]]))
        return totals.astype(np.float64)


#: From dataset position and number of available files to the file id of the last of that many files of the dataset.
RankLimits = dict[tuple[int, int], int]
#: From dataset position and file id to the endpoints at which the catalogue names that file.
NamedFiles = dict[int, dict[int, frozenset[str]]]

#: Files of partial replicas processed together: meanwhile, a file takes some 50 bytes per endpoint.
FILES_AT_ONCE = 500_000


@dataclass(frozen=True)
class InputPlaces:
    """Inputs and replicas of all chunks, and for each replica row the files of the input that are there.

    ``held[row]`` is ``None`` when all of them are. ``dropped_rows``: rows of the catalogue that cannot be used.
    """

    inputs: InputTable
    replicas: ReplicaTable
    held: tuple[Bools | None, ...]
    dropped_rows: tuple[DroppedRow, ...] = ()


def real_datasets(inputs: InputFiles) -> Ints:
    """The distinct datasets (positions) that have replicas: those that are not pseudo datasets."""
    real = [not use.pseudo for use in inputs.uses]
    return np.unique(inputs.dataset[np.array(real, dtype=np.bool_)]) if real else np.empty(0, dtype=np.int64)


def wanted_ranks(placed: PlacedDatasets, dataset_files: Floats) -> list[tuple[int, int]]:
    """The (dataset, number of files) pairs whose last file id is needed: the partial replicas.

    ``dataset_files``: by position of the dataset, see :func:`broker.work.catalogue.files_of_dids`.
    """
    partial = ~_whole(placed, dataset_files[placed.dataset]) & (placed.available > 0)
    columns = placed.dataset, placed.available, placed.spans
    wanted: set[tuple[int, int]] = set()
    for dataset, count, spans in zip(*(column[partial].tolist() for column in columns), strict=True):
        # no file precedes the first
        ranks = [int(count)] if spans is None else [rank for span in spans for rank in span if rank]
        wanted |= {(dataset, rank) for rank in ranks}
    return sorted(wanted)


def _whole(placed: PlacedDatasets, dataset_files: Floats) -> Bools:
    enough = np.isnan(dataset_files) | (placed.total >= dataset_files)
    return np.asarray(placed.is_vp | (placed.complete & enough))


def place_inputs(
    chunks: ChunkTable,
    datasets: DatasetTable,
    inputs: InputFiles,
    catalogue: Catalogue,
    did_of_dataset: dict[int, int],
    placed: PlacedDatasets,
    dataset_files: Floats,
    limits: RankLimits,
    named: NamedFiles,
) -> InputPlaces:
    """The input and replica tables of the chunks.

    For merging, any replica counts as holding every file. An endpoint known only from named files has its own row
    without a total: it is no replica of the dataset, so it cannot be complete.
    """
    table = _input_table(datasets, inputs, catalogue, did_of_dataset, dataset_files)
    rows = _replica_rows(chunks, inputs, placed, _whole(placed, dataset_files[placed.dataset]), named)
    partial = np.flatnonzero(~rows.holds_all)
    sums = np.column_stack([table.files, table.bytes])[rows.input]
    held: list[Bools | None] = [None] * len(rows.input)
    for some in _parts(partial, inputs.offsets[rows.input[partial] + 1] - inputs.offsets[rows.input[partial]]):
        files = FilesOfInputs(inputs, rows.input[some])
        _mark(files, rows, some, placed, limits, named)
        sums[some] = files.distinct_totals()
        for row, mask in zip(some.tolist(), files.masks(), strict=True):
            held[row] = mask
    at, there = np.maximum(rows.placed, 0), rows.placed >= 0
    # an endpoint that is known from named files alone has no row in ``placed``, which may have none at all
    known = placed if len(placed) else _NOWHERE
    replicas = ReplicaTable(
        input=rows.input,
        rse=rows.rse,
        is_tape=known.is_tape[at] & there,
        is_vp=known.is_vp[at] & there,
        found=np.where(there, known.in_whole_parts[at], 0.0),
        total=np.where(there, known.total[at], np.nan),
        complete=known.complete[at] & there,
        holds_all=rows.holds_all,
        chunk_files=sums[:, 0],
        chunk_bytes=sums[:, 1],
        held_parts=parts_of_replicas(inputs, rows.input, held, _mixed(placed, named)),
    )
    return InputPlaces(table, replicas, tuple(held), catalogue.dropped_rows)


def _mixed(placed: PlacedDatasets, named: NamedFiles) -> set[int]:
    """The datasets with replicas that may hold other files than the first ones."""
    of_parts = placed.spans != np.array(None, dtype=np.object_)
    return set(named) | set(placed.dataset[of_parts].tolist())


def _parts(rows: Ints, files: Ints) -> list[Ints]:
    """Split the rows (P,), with ``files`` (P,) files each, into parts of about ``FILES_AT_ONCE`` files."""
    so_far = np.cumsum(files)
    most = int(so_far[-1]) if len(files) else 0
    return np.split(rows, np.searchsorted(so_far, np.arange(FILES_AT_ONCE, most, FILES_AT_ONCE)))


def _input_table(
    datasets: DatasetTable,
    inputs: InputFiles,
    catalogue: Catalogue,
    did_of_dataset: dict[int, int],
    dataset_files: Floats,
) -> InputTable:
    dids = [did_of_dataset.get(d, -1) for d in inputs.dataset.tolist()]
    names = [scope_and_name(datasets.name[d]) for d in inputs.dataset.tolist()]
    totals = np.array(inputs.sums.distinct_totals, dtype=np.float64).reshape(-1, 2)
    with_replicas = frozenset(catalogue.replicas.did.tolist())
    known = {did: is_catalogued(catalogue, did, with_replicas) for did in set(dids) if did >= 0}
    spread = {did: is_distributed(catalogue, did, with_replicas) for did in set(dids) if did >= 0}
    return InputTable(
        chunk=inputs.chunk,
        datasetid=datasets.datasetid[inputs.dataset],
        scope=texts(scope for scope, _ in names),
        name=texts(name for _, name in names),
        is_master=inputs.is_master,
        is_pseudo=np.array([use.pseudo for use in inputs.uses], dtype=np.bool_),
        distributed=np.array([spread.get(did, True) for did in dids], dtype=np.bool_),
        files=totals[:, 0],
        bytes=totals[:, 1],
        dataset_files=dataset_files[inputs.dataset],
        catalogued=np.array([known.get(did, False) for did in dids], dtype=np.bool_),
        asked=np.array([has_answer(catalogue, did, with_replicas) for did in dids], dtype=np.bool_),
        is_container=np.array([did in catalogue.parts for did in dids], dtype=np.bool_),
    )


_NO = np.zeros(1, dtype=np.bool_)
_NOTHING = np.zeros(1)
_NOWHERE = PlacedDatasets(
    np.zeros(1, dtype=np.int64), texts([""]), _NO, _NO, _NOTHING, _NOTHING, _NOTHING, _NO, objects([None])
)


@dataclass(frozen=True)
class _ReplicaRows:
    """Rows of the replica table (length R), input after input.

    ``placed``: the row of PlacedDatasets, -1 for an endpoint known only from named files; ``holds_all``: every
    file of the input is there.
    """

    input: Ints
    placed: Ints
    rse: Texts
    holds_all: Bools


def _replica_rows(
    chunks: ChunkTable, inputs: InputFiles, placed: PlacedDatasets, whole: Bools, named: NamedFiles
) -> _ReplicaRows:
    """Where each input is: the endpoints of its dataset by name, then those at which only some files are named."""
    real = np.flatnonzero([not use.pseudo for use in inputs.uses])
    first = np.searchsorted(placed.dataset, inputs.dataset[real], side="left")
    number = np.searchsorted(placed.dataset, inputs.dataset[real], side="right") - first
    at = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number - first, number)
    position = np.repeat(real, number)
    rows = _ReplicaRows(position, at, placed.rse[at], whole[at] | chunks.merging[inputs.chunk[position]])
    more = [(one, rse) for one in real.tolist() for rse in _named_only(inputs, one, placed, named)]
    if not more:
        return rows
    rows = _ReplicaRows(
        np.append(rows.input, np.array([one for one, _ in more], dtype=np.int64)),
        np.append(rows.placed, np.full(len(more), -1, dtype=np.int64)),
        np.append(rows.rse, texts(rse for _, rse in more)),
        np.append(rows.holds_all, np.zeros(len(more), dtype=np.bool_)),
    )
    return taken(rows, np.argsort(rows.input, kind="stable"))


def _named_only(inputs: InputFiles, position: int, placed: PlacedDatasets, named: NamedFiles) -> list[str]:
    """The endpoints at which a file of the input is named, but that have no replica of its dataset."""
    dataset = int(inputs.dataset[position])
    if not (of_dataset := named.get(dataset)):
        return []
    first, stop = np.searchsorted(placed.dataset, [dataset, dataset + 1]).tolist()
    known = set(placed.rse[first:stop].tolist())
    files = inputs.files_of(position).fileid.tolist()
    return sorted({rse for fileid in files for rse in of_dataset.get(fileid, ())} - known)


def _mark(
    files: FilesOfInputs,
    rows: _ReplicaRows,
    partial: Ints,
    placed: PlacedDatasets,
    limits: RankLimits,
    named: NamedFiles,
) -> None:
    """Mark the present ones among ``files``, for each of the rows ``partial`` to which they belong."""
    datasets = files.inputs.dataset[rows.input[partial]].tolist()
    counts = [float(placed.available[at]) if at >= 0 else 0.0 for at in rows.placed[partial].tolist()]
    last = [
        limits.get((dataset, int(count)), -1) if count > 0 else -1
        for dataset, count in zip(datasets, counts, strict=True)
    ]
    files.mark_up_to(np.array(last, dtype=np.int64))
    for one, (dataset, at) in enumerate(zip(datasets, rows.placed[partial].tolist(), strict=True)):
        if at >= 0 and (spans := placed.spans[at]) is not None:
            files.mark_spans(one, [tuple(limits.get((dataset, rank), -1) for rank in span) for span in spans])
    for one, (row, dataset) in enumerate(zip(partial.tolist(), datasets, strict=True)):
        if of_dataset := named.get(dataset):
            rse, alone = rows.rse[row], rows.placed[row] < 0
            for at, fileid in files.of(one):
                if alone or fileid in of_dataset:
                    files.marked[at] = rse in of_dataset.get(fileid, ())
