"""The input chunks of the tasks of a cycle: master datasets, their ready files by memory, and the secondaries.

Two pure steps around one reading of files: :func:`plan_masters` and :func:`plan_secondaries` decide which files are
wanted, :func:`form_chunks` makes chunks of the files that were read. Source: ATLAS production brokerage, input chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.work.file_sums import FileSums
from broker.work.input_files import (
    NULL_INTEGER,
    PSEUDO_NAMES,
    DatasetUse,
    FileTable,
    joined,
    name_without_scope,
    parse_attributes,
)
from broker.work.tasks import DatasetTable, SplitRules, TaskTable

#: Families of types of input datasets: a secondary belongs to its master's family.
INPUT_FAMILIES = {"input": 0, "pseudo_input": 0, "pp_input": 1, "trn_log": 2, "trn_output": 2}
_MERGE_FAMILY = 2

#: Files taken from a secondary that every job uses as a whole, or by a ratio of events.
WHOLE_SECONDARY_FILES = 10_000

#: Ready files that one cycle takes from a master dataset.
FILES_OF_A_DATASET = 5_000


@dataclass(frozen=True)
class FileRequests:
    """Files wanted from the datasets (length M), in the order in which chunks are brokered.

    ``limit`` is the number of files: for a master over all its ramcounts, for a secondary (``is_master`` false) per
    ramcount when ``by_ramcount``. ``by_lumi`` orders by lumi block and name instead of file id.
    """

    dataset: Ints
    limit: Ints
    by_lumi: Bools
    is_master: Bools
    by_ramcount: Bools

    def __len__(self) -> int:
        return len(self.dataset)


@dataclass(frozen=True)
class ReadFiles:
    """Files read for the first ``len(offsets) - 1`` requests; request ``m`` has ``offsets[m]:offsets[m + 1]``.

    ``has_zero`` (M,): some ready file of the dataset has ramcount 0, so that NULL counts as 0.
    """

    files: FileTable
    offsets: Ints
    has_zero: Bools

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class ChunkTable:
    """Chunks (length T) in brokerage order: positions of task and master dataset, and the kind of chunk."""

    task: Ints
    dataset: Ints
    ramcount_mb: Floats
    merging: Bools
    scout: Bools
    jumbo: Bools

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True)
class InputFiles:
    """Datasets of the chunks (length I, master first) and their files: ``offsets[i]:offsets[i + 1]`` for input i."""

    chunk: Ints
    dataset: Ints
    is_master: Bools
    uses: tuple[DatasetUse, ...]
    offsets: Ints
    files: FileTable

    def __len__(self) -> int:
        return len(self.chunk)

    def inputs_of(self, chunk: int) -> range:
        """Positions of the datasets of ``chunk``, master first."""
        bounds = self._bounds
        return range(bounds[chunk], bounds[chunk + 1]) if chunk + 1 < len(bounds) else range(0)

    @cached_property
    def _bounds(self) -> list[int]:
        """Where the datasets of each chunk begin, and where those of the last one end."""
        chunks = int(self.chunk[-1]) + 1 if len(self.chunk) else 0
        bounds: list[int] = np.searchsorted(self.chunk, np.arange(chunks + 1)).tolist()
        return bounds

    @cached_property
    def sums(self) -> FileSums:
        """Sums over the files, computed once for all jobs cut out of them."""
        return FileSums(self.files, self.offsets)

    def files_of(self, position: int) -> FileTable:
        """The files of the input at ``position``, in the order in which they are used."""
        return self.files.rows(slice(int(self.offsets[position]), int(self.offsets[position + 1])))


def _families(datasets: DatasetTable) -> Ints:
    return np.array([INPUT_FAMILIES.get(kind, -1) for kind in datasets.type], dtype=np.int64)


def master_mask(datasets: DatasetTable) -> Bools:
    """(D,): the datasets that are masters with files still to be used."""
    usable = np.array([status is not None and status != "removed" for status in datasets.status], dtype=np.bool_)
    more = datasets.nfilestobeused > datasets.nfilesused  # NaN (NULL) is never more
    return np.asarray((_families(datasets) >= 0) & (datasets.masterid == -1) & usable & more)


def _planned_files(tasks: TaskTable, datasets: DatasetTable, masters: Ints, per_dataset: int) -> Ints:
    """The largest number of files to take from each master."""
    planned = datasets.nfilestobeused[masters] - datasets.nfilesused[masters]
    jumbo = tasks.texts["usejumbo"][datasets.task[masters]]
    waiting = np.nan_to_num(datasets.nfileswaiting[masters])
    full = (jumbo == "R") | (jumbo == "P")
    limit = np.minimum(planned, per_dataset) - np.where(full, waiting, 0.0)
    limit = np.where(jumbo == "L", np.minimum(limit, 1.0), limit)
    return np.asarray(np.maximum(limit, 0.0), dtype=np.int64)


def plan_masters(
    tasks: TaskTable, datasets: DatasetTable, rules: SplitRules, per_dataset: int = FILES_OF_A_DATASET
) -> FileRequests:
    """The master datasets to read, task by task: those to be merged first (the later dataset before the earlier)."""
    masters = np.flatnonzero(master_mask(datasets))
    family = _families(datasets)[masters]
    merging = family == _MERGE_FAMILY
    rank = np.where(merging, -datasets.datasetid[masters], datasets.datasetid[masters])
    masters = masters[np.lexsort((rank, ~merging, datasets.task[masters]))]
    by_lumi = (rules.present("RL") | rules.present("OL"))[datasets.task[masters]]
    ones = np.ones(len(masters), dtype=np.bool_)
    return FileRequests(masters, _planned_files(tasks, datasets, masters, per_dataset), by_lumi, ones, ones)


def uses_of(datasets: DatasetTable) -> tuple[DatasetUse, ...]:
    """How the files of each dataset are used, from its attributes, name and type."""
    known: dict[tuple[str | None, str, str | None], DatasetUse] = {}
    uses = []
    for attributes, name, type_ in zip(datasets.attributes, datasets.name, datasets.type, strict=True):
        # names of other datasets do not matter
        short = name_without_scope(name)
        key = attributes, short if short in PSEUDO_NAMES else "", type_
        if key not in known:
            known[key] = parse_attributes(*key)
        uses.append(known[key])
    return tuple(uses)


def secondary_limit(use: DatasetUse, master_limit: int) -> int:
    """Files of a secondary dataset that go with at most ``master_limit`` files of the master."""
    if use.nosplit or use.event_ratio is not None:
        return WHOLE_SECONDARY_FILES
    if use.files_per_job is not None:
        return use.files_per_job * master_limit
    return math.ceil(use.ratio * master_limit)


def plan_secondaries(
    datasets: DatasetTable, uses: tuple[DatasetUse, ...], masters: FileRequests, served: int
) -> FileRequests:
    """The secondaries of the first ``served`` masters, by master and dataset id."""
    family = _families(datasets)
    eligible = (datasets.masterid != -1) & (datasets.nfilestobeused >= datasets.nfilesused) & (family >= 0)
    groups: dict[tuple[int, int, int], list[int]] = {}
    for d in np.flatnonzero(eligible).tolist():
        groups.setdefault((int(datasets.task[d]), int(datasets.masterid[d]), int(family[d])), []).append(d)
    chosen: list[tuple[int, int, bool]] = []
    for m in range(served):
        master = int(masters.dataset[m])
        key = (int(datasets.task[master]), int(datasets.datasetid[master]), int(family[master]))
        for d in sorted(groups.get(key, []), key=lambda position: int(datasets.datasetid[position])):
            chosen.append((d, secondary_limit(uses[d], int(masters.limit[m])), bool(masters.by_lumi[m])))
    return FileRequests(
        np.array([row[0] for row in chosen], dtype=np.int64),
        np.array([row[1] for row in chosen], dtype=np.int64),
        np.array([row[2] for row in chosen], dtype=np.bool_),
        np.zeros(len(chosen), dtype=np.bool_),
        np.array([uses[row[0]].splits_by_ramcount for row in chosen], dtype=np.bool_),
    )


def scout_mask(datasets: DatasetTable, rules: SplitRules, masters: Ints) -> Bools:
    """Which of the datasets ``masters`` yield scout jobs.

    Those of scouting tasks do, unless all master input of the task is already to be used and the master cannot grow.
    """
    is_input = (_families(datasets) == 0) & (datasets.masterid == -1)
    held_back = np.nan_to_num(datasets.nfiles) - np.nan_to_num(datasets.nfilestobeused)
    size = len(rules.code)
    sums = np.bincount(datasets.task[is_input], weights=held_back[is_input], minlength=size)
    task = datasets.task[masters]
    mutable = np.asarray(datasets.state[masters] == "mutable", dtype=np.bool_)
    return np.asarray((rules.values("US")[task] == 2) & ~((sums[task] == 0) & ~mutable))


def _ramcount_keys(files: FileTable) -> Ints:
    return np.where(files.ramcount_mb == NULL_INTEGER, 0, files.ramcount_mb).astype(np.int64)


def _group_starts(keys: Ints, offsets: Ints) -> Ints:
    """First position of each run of equal keys inside the requests."""
    if not len(keys):
        return np.empty(0, dtype=np.int64)
    starts = np.concatenate([[True], keys[1:] != keys[:-1]])
    starts[offsets[:-1][offsets[:-1] < len(keys)]] = True
    return np.flatnonzero(starts)


def form_chunks(
    tasks: TaskTable,
    datasets: DatasetTable,
    rules: SplitRules,
    uses: tuple[DatasetUse, ...],
    masters: FileRequests,
    master_files: ReadFiles,
    secondaries: FileRequests,
    secondary_files: ReadFiles,
) -> tuple[ChunkTable, InputFiles]:
    """Chunks in brokerage order, one for each ramcount of the ready files of a master, with the files they use."""
    keys = _ramcount_keys(master_files.files)
    starts = _group_starts(keys, master_files.offsets)
    stops = np.append(starts[1:], len(keys)).astype(np.int64)
    request = np.searchsorted(master_files.offsets, starts, side="right") - 1
    usejumbo = tasks.texts["usejumbo"][datasets.task[masters.dataset[request]]].astype(str)
    first_of_master = np.concatenate([[True], request[1:] != request[:-1]]) if len(request) else usejumbo == "R"
    # the first chunk of a master is the jumbo one, the others stay unchanged; a lacking task takes one file
    jumbo = np.isin(usejumbo, ["R", "P", "L"]) & first_of_master
    is_chunk = (usejumbo != "L") | first_of_master
    starts, stops, request, jumbo = starts[is_chunk], stops[is_chunk], request[is_chunk], jumbo[is_chunk]
    dataset = masters.dataset[request]
    ramcount = keys[starts].astype(np.float64)
    ramcount[(keys[starts] == 0) & ~master_files.has_zero[request]] = np.nan
    table = ChunkTable(
        datasets.task[dataset],
        dataset,
        ramcount,
        _families(datasets)[dataset] == _MERGE_FAMILY,
        scout_mask(datasets, rules, dataset),
        jumbo,
    )
    pool = joined([master_files.files, secondary_files.files])
    spans = [(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]
    gatherer = _Gatherer(datasets, uses, secondaries, secondary_files, len(keys))
    left = masters.limit[request] - (starts - master_files.offsets[request])
    for chunk, span in enumerate(spans):
        gatherer.add_chunk(chunk, int(dataset[chunk]), span, int(keys[span[0]]), int(left[chunk]))
    return table, gatherer.result(pool)


class _Gatherer:
    """Collects the inputs of chunk after chunk as positions in one pool of files (masters first, then secondaries)."""

    def __init__(
        self,
        datasets: DatasetTable,
        uses: tuple[DatasetUse, ...],
        requests: FileRequests,
        read: ReadFiles,
        first_secondary: int,
    ) -> None:
        self._uses = uses
        self._read = read
        self._keys = _ramcount_keys(read.files)
        self._first_secondary = first_secondary
        self._requests: dict[tuple[int, int], list[int]] = {}
        for position, d in enumerate(requests.dataset.tolist()):
            self._requests.setdefault((int(datasets.task[d]), int(datasets.masterid[d])), []).append(position)
        self._dataset_of = requests.dataset
        self._datasets = datasets
        self._rows: list[tuple[int, int, bool]] = []
        self._index: list[Ints] = []

    def add_chunk(self, chunk: int, master: int, span: tuple[int, int], key: int, master_limit: int) -> None:
        """Add the master's files ``span`` with the matching files of its secondaries."""
        self._add(chunk, master, True, np.arange(*span, dtype=np.int64))
        wanted = (int(self._datasets.task[master]), int(self._datasets.datasetid[master]))
        family = INPUT_FAMILIES[str(self._datasets.type[master])]
        for position in self._requests.get(wanted, []):
            dataset = int(self._dataset_of[position])
            if INPUT_FAMILIES[str(self._datasets.type[dataset])] != family:
                continue
            use = self._uses[dataset]
            index = np.arange(self._read.offsets[position], self._read.offsets[position + 1], dtype=np.int64)
            if use.splits_by_ramcount:
                index = index[self._keys[index] == key]
            index = index[: secondary_limit(use, master_limit)]
            self._add(chunk, dataset, False, index + self._first_secondary)
            if not len(index):
                return  # the datasets after an empty one are not read

    def _add(self, chunk: int, dataset: int, is_master: bool, index: Ints) -> None:
        self._rows.append((chunk, dataset, is_master))
        self._index.append(index)

    def result(self, pool: FileTable) -> InputFiles:
        """The inputs of all chunks."""
        sizes = [len(index) for index in self._index]
        whole = np.concatenate(self._index) if self._index else np.empty(0, dtype=np.int64)
        return InputFiles(
            np.array([row[0] for row in self._rows], dtype=np.int64),
            np.array([row[1] for row in self._rows], dtype=np.int64),
            np.array([row[2] for row in self._rows], dtype=np.bool_),
            tuple(self._uses[row[1]] for row in self._rows),
            np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))]).astype(np.int64),
            pool.rows(whole),
        )
