"""How much of each chunk's input every storage endpoint holds.

A complete replica holds every file. Of a partial one, a file that the catalogue names is exactly where it is named; any
other file is there if it is among the first files of the dataset by file id, as many as are available. Source: PanDA
production brokerage, available files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, texts
from broker.domain.work import InputTable, ReplicaTable
from broker.work.catalogue import Catalogue, PlacedDatasets, is_asked, is_catalogued, is_distributed
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.datasets import scope_and_name
from broker.work.input_files import FileTable, unique_totals
from broker.work.tasks import DatasetTable

#: Dataset position and number of available files, to the file id of the last of so many files of the dataset.
RankLimits = dict[tuple[int, int], int]
#: Dataset position to file id to the endpoints at which the catalogue names that file.
NamedFiles = dict[int, dict[int, frozenset[str]]]


@dataclass(frozen=True)
class InputPlaces:
    """Inputs and replicas of all chunks, and for each replica row the files of the input that are there.

    ``held[row]`` is ``None`` when all of them are.
    """

    inputs: InputTable
    replicas: ReplicaTable
    held: tuple[Bools | None, ...]


def real_datasets(inputs: InputFiles) -> Ints:
    """The distinct datasets (positions) that have replicas: those that are not pseudo datasets."""
    real = [not use.pseudo for use in inputs.uses]
    return np.unique(inputs.dataset[np.array(real, dtype=np.bool_)]) if real else np.empty(0, dtype=np.int64)


def wanted_ranks(placed: PlacedDatasets, dataset_files: Floats) -> list[tuple[int, int]]:
    """For which (dataset, number of files) the id of the last file has to be known: the partial replicas.

    ``dataset_files``: by position of the dataset, see :func:`broker.work.catalogue.files_of_dids`.
    """
    partial = ~_whole(placed, dataset_files[placed.dataset]) & (placed.available > 0)
    pairs = zip(placed.dataset[partial].tolist(), placed.available[partial].tolist(), strict=True)
    return sorted({(dataset, int(count)) for dataset, count in pairs})


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

    For merging, any replica counts as holding every file. An endpoint known only from named files has its own row, with
    no total: it is no replica of the dataset, so it cannot be complete.
    """
    whole = _whole(placed, dataset_files[placed.dataset])
    table = _input_table(datasets, inputs, catalogue, did_of_dataset, dataset_files)
    rows = _Rows(placed, whole, limits, named)
    for position, use in enumerate(inputs.uses):
        if not use.pseudo:
            merging = bool(chunks.merging[inputs.chunk[position]])
            totals = (float(table.files[position]), float(table.bytes[position]))
            rows.add(position, int(inputs.dataset[position]), inputs.files_of(position), merging, totals)
    return InputPlaces(table, rows.table(), tuple(rows.held))


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
        asked=np.array([is_asked(catalogue, did, with_replicas) for did in dids], dtype=np.bool_),
    )


class _Rows:
    """Collects replica rows, input after input."""

    def __init__(self, placed: PlacedDatasets, whole: Bools, limits: RankLimits, named: NamedFiles) -> None:
        self._placed, self._whole, self._limits, self._named = placed, whole, limits, named
        self._rows: list[tuple[int, str, bool, bool, float, float, bool, bool, float, float]] = []
        self.held: list[Bools | None] = []

    def add(self, position: int, dataset: int, files: FileTable, merging: bool, totals: tuple[float, float]) -> None:
        """The rows of one input, whose distinct files and bytes are ``totals``."""
        placed = self._placed
        span = range(*np.searchsorted(placed.dataset, [dataset, dataset + 1]).tolist())
        named = self._named.get(dataset, {})
        is_named = np.array([fileid in named for fileid in files.fileid.tolist()] if named else [], dtype=np.bool_)
        for row in span:
            held = None
            if not (merging or self._whole[row]):
                held = self._held(row, dataset, files, is_named)
            sums = totals if held is None else unique_totals(files.rows(np.flatnonzero(held)))
            all_here = bool(self._whole[row] or merging)
            stats = (float(placed.found[row]), float(placed.total[row]), bool(placed.complete[row]), all_here)
            kind = (bool(placed.is_tape[row]), bool(placed.is_vp[row]))
            self._rows.append((position, str(placed.rse[row]), *kind, *stats, *sums))
            self.held.append(held)
        if named:
            self._add_named_only(position, files, named, {str(placed.rse[row]) for row in span})

    def _held(self, row: int, dataset: int, files: FileTable, is_named: Bools) -> Bools:
        count = self._placed.available[row]
        last = self._limits.get((dataset, int(count)), -1) if count > 0 else -1
        held: Bools = files.fileid <= last
        if len(is_named):
            held = np.where(is_named, self._at(dataset, files, str(self._placed.rse[row])), held)
        return held

    def _at(self, dataset: int, files: FileTable, rse: str) -> Bools:
        named = self._named[dataset]
        return np.array([rse in named.get(fileid, ()) for fileid in files.fileid.tolist()], dtype=np.bool_)

    def _add_named_only(
        self, position: int, files: FileTable, named: dict[int, frozenset[str]], known: set[str]
    ) -> None:
        places = {rse for fileid in files.fileid.tolist() for rse in named.get(fileid, ())} - known
        for rse in sorted(places):
            held = np.array([rse in named.get(fileid, ()) for fileid in files.fileid.tolist()], dtype=np.bool_)
            sums = unique_totals(files.rows(np.flatnonzero(held)))
            self._rows.append((position, rse, False, False, 0.0, float("nan"), False, False, *sums))
            self.held.append(held)

    def table(self) -> ReplicaTable:
        """All rows as columns."""
        rows = self._rows

        def numbers(column: int) -> Floats:
            return np.array([row[column] for row in rows], dtype=np.float64)

        def flags(column: int) -> Bools:
            return np.array([row[column] for row in rows], dtype=np.bool_)

        return ReplicaTable(
            input=np.array([row[0] for row in rows], dtype=np.int64),
            rse=texts(row[1] for row in rows),
            is_tape=flags(2),
            is_vp=flags(3),
            found=numbers(4),
            total=numbers(5),
            complete=flags(6),
            holds_all=flags(7),
            chunk_files=numbers(8),
            chunk_bytes=numbers(9),
        )
