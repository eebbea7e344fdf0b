"""Where the input of analysis is, and which queues may take the chunk because of it.

Source: ATLAS Analysis Job Brokerage, input data locality; PanDA analysis brokerage, data availability and locality.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from broker.domain.analysis import AnalysisWork
from broker.domain.arrays import Bools, Floats, Ints, RowsByKind, any_of, codes_of, taken
from broker.domain.work import InputTable, Work
from broker.engine.analysis.dataset_places import Entries, PairValues, Places, places_of, replicas_at_queues
from broker.engine.analysis.steps import Locality
from broker.engine.job.data_facts import InputLimits
from broker.engine.job.input_lookup import united_parts
from broker.snapshot.snapshot import Snapshot

#: Datasets that are kept together although no rule says so.
NEVER_DISTRIBUTED = "ddo"
#: Weight of a dataset that is not on a disk of the queue.
OFF_DISK_WEIGHT = 0.001
GIB = 2.0**30
#: GB on the disks of a queue that double its weight.
GB_OF_WEIGHT = 10.0
NO_COMPLETE_REPLICA = "no_complete_replica"
#: The weights of more datasets than this are summed as numpy sums long columns, not one after the other.
_FEW = 8


@dataclass(frozen=True)
class AnalysisData:
    """Input by chunk (T,) and unified queue (T, U)."""

    has_input: PairValues  # (T, U) what the locality check keeps
    without_vp: PairValues  # (T, U) the input is there without virtual placement
    datasets_weight: PairValues  # (T, U) number of datasets on disk, 0.001 for each that is not
    disk_gb: PairValues  # (T, U) GiB on disks of the queue, each copy by itself
    big: Bools  # (T,) the whole input is at least 1 GiB
    real: Bools  # (T,) there is real input
    union: Bools  # (T,) no queue has all datasets
    distributed: Bools  # (T,)
    remote_source: Bools  # (T,)
    lost: Bools  # (T,) a dataset has no complete replica
    lacks_files: RowsByKind  # (T, U) a queue for local data only lacks files of a dataset that is kept together
    lacks_parts: RowsByKind  # (T, U) the same for distributed datasets


def gather_analysis_data(
    work: Work,
    request: AnalysisWork,
    initial: RowsByKind,
    snapshot: Snapshot,
    limits: InputLimits,
    reading: tuple[Locality, Bools | None] | None = None,
) -> AnalysisData:
    """Facts about the replicas of a block; ``initial`` (T, U) are the candidates of each chunk.

    ``reading``: how locality is read, and (T,) the chunks of tasks that name their queue.
    """
    locality, named = reading or (Locality(), None)
    inputs, chunks, real = work.inputs, work.chunks, ~work.inputs.is_pseudo
    count = len(chunks)
    storage = codes_of(work.replicas.rse, list(snapshot.storages.name))
    always = locality.options.containers == "always_distributed"
    seen = _with_placements_as_files(work) if always else work
    enough, truly = _completeness(seen, limits)
    flags = _seen(seen, snapshot, storage, (enough, truly))
    able = snapshot.unified.runs_analysis | initial.table.any(axis=0)
    # MAX_MISSING_INPUT_FILES decides whether a dataset exists complete at all, not whether a queue has it
    entries = replicas_at_queues(work, snapshot, storage, truly, able)
    there = _counted(replicas_at_queues(seen, snapshot, storage, truly, able)) if always else entries
    distributed = real & _distributed(there, inputs, always)
    lost = real & ~flags["disk"] & ~flags["tape"] & ~distributed & ~request.allow_incomplete[inputs.chunk]
    no_vp = chunks.merging | request.avoid_vp | chunks.scout | chunks.use_local_io
    by_chunk = locality.options.distributed == "chunk"
    scattered = any_of(inputs.chunk, distributed, count)[inputs.chunk] if by_chunk else distributed
    uses_vp = ~no_vp[inputs.chunk] & ~scattered
    places = places_of(there, inputs.chunk, initial, distributed | ~flags["truly"], uses_vp)
    required = real & flags["truly"] & ~distributed, real & flags["truly"] & distributed
    input_bytes = np.bincount(inputs.chunk, weights=np.where(real, inputs.bytes, 0.0), minlength=count)
    holders = _InputHolders(places.where(real[places.at]), inputs.chunk, real, count, len(snapshot.unified))
    has_input, union = holders.input_at(named if locality.options.named == "any_part" else None)
    lacks_files, lacks_parts = _lacking(entries, inputs.chunk, inputs.files, required, _only_local(snapshot), count)
    return AnalysisData(
        has_input=has_input,
        without_vp=holders.without_vp(union),
        datasets_weight=holders.datasets_weight(locality.options.twice),
        disk_gb=_disk_gb(entries, (inputs.is_master, uses_vp), inputs.chunk, (count, len(snapshot.unified))),
        big=input_bytes >= GIB,
        real=any_of(inputs.chunk, real, count),
        union=union,
        distributed=any_of(inputs.chunk, distributed, count),
        remote_source=~any_of(inputs.chunk, real & ~distributed & ~flags["wan"], count),
        lost=any_of(inputs.chunk, lost, count),
        lacks_files=lacks_files,
        lacks_parts=lacks_parts,
    )


def _counted(entries: Entries) -> Entries:
    return taken(entries, np.flatnonzero(entries.counted))


def _distributed(there: Entries, inputs: InputTable, always: bool) -> Bools:
    """(I,): inputs that no queue needs to have as a whole; ``always``: containers among them, whatever their rules."""
    size = len(inputs)
    placed, whole = any_of(there.at, there.counted, size), any_of(there.at, there.complete, size)
    never = np.array([str(name).startswith(NEVER_DISTRIBUTED) for name in inputs.name.tolist()], dtype=np.bool_)
    scattered = inputs.distributed & ~whole
    return np.asarray(placed & ~never & (scattered | inputs.is_container if always else scattered))


def _with_placements_as_files(work: Work) -> Work:
    """The work in which a virtual placement of a constituent is a real copy of one file of its container."""
    replicas = work.replicas
    counted = replicas.is_vp & work.inputs.is_container[replicas.input]
    files = np.where(counted, 1.0, replicas.found)
    return replace(work, replicas=replace(replicas, is_vp=replicas.is_vp & ~counted, found=files))


def _completeness(work: Work, limits: InputLimits) -> tuple[Bools, Bools]:
    """(R,) twice: regarded as complete, and truly complete."""
    replicas = work.replicas
    missing = replicas.total - replicas.found
    with np.errstate(divide="ignore", invalid="ignore"):
        share = replicas.found / replicas.total * 100.0
    truly = (missing == 0) & ~replicas.is_vp
    some = (replicas.total > 0) & (replicas.found > 0)
    close = some & ((missing <= limits.max_missing_files) | (share >= limits.min_completeness_percent))
    return np.asarray((truly | close) & ~replicas.is_vp), np.asarray(truly)


def _readable(snapshot: Snapshot, storage: Ints) -> tuple[Bools, Bools]:
    if len(snapshot.storages) == 0:
        return np.ones(len(storage), np.bool_), np.ones(len(storage), np.bool_)
    known, index = storage >= 0, np.maximum(storage, 0)
    return ~known | snapshot.storages.open_read_lan[index], ~known | snapshot.storages.open_read_wan[index]


def _seen(work: Work, snapshot: Snapshot, storage: Ints, complete: tuple[Bools, Bools]) -> dict[str, Bools]:
    """(I,) each: which replicas of an input can be read, and how."""
    size, (enough, truly) = len(work.inputs), complete
    lan, wan = _readable(snapshot, storage)
    seen = lan | wan
    disk = ~work.replicas.is_tape
    return {
        "disk": any_of(work.replicas.input, enough & disk & seen, size),
        "truly": any_of(work.replicas.input, truly & disk & seen, size),
        "tape": any_of(work.replicas.input, enough & ~disk & seen, size),
        "wan": any_of(work.replicas.input, enough & wan, size),
    }


class _InputHolders:
    """The queues that have anything of the real input of chunks, and how many of its datasets.

    Args:
        places: of real datasets.
        chunk_of: (I,) the chunk of each input; those of a chunk are neighbours.
        real: (I,) which are real.
        count: T.
        queues: U.
    """

    def __init__(self, places: Places, chunk_of: Ints, real: Bools, count: int, queues: int) -> None:
        self._places, self._real, self._queues = places, real, queues
        self._owner = chunk_of[real]
        self._numbers = np.flatnonzero(real)
        span = max(1, queues)
        pairs, self._pair = np.unique(chunk_of[places.at] * span + places.unified, return_inverse=True)
        self._chunk, self._unified = pairs // span, pairs % span
        self._datasets = np.bincount(self._owner, minlength=count)
        self._datasets_of_pair = self._datasets[self._chunk]
        self._nothing: Bools = self._datasets == 0

    def _summed(self, values: Floats | Bools) -> Floats:
        """(P,): amounts at places, summed by chunk and queue."""
        # without any pairs, the sums would be integers
        return np.bincount(self._pair, weights=values, minlength=len(self._chunk)).astype(np.float64, copy=False)

    def _at_pairs(self, value: Floats | Bools, rest: Floats | Bools) -> PairValues:
        return PairValues(self._chunk, self._unified, value, rest, self._queues)

    def input_at(self, named: Bools | None) -> tuple[PairValues, Bools]:
        """(T, U) queues that have the input, and (T,) whether that is only a part of the datasets.

        First those with all datasets on disk, else with all anywhere, else with any on disk, else with any. Any part is
        enough for chunks of tasks that name their queue (T,).
        """
        on_disk, anywhere = self._summed(self._places.disk), self._summed(self._places.anywhere)
        left = np.ones(len(self._datasets), dtype=np.bool_)
        mask = np.zeros(len(self._chunk), dtype=np.bool_)
        union = ~self._nothing
        for all_datasets, choice in (
            (True, on_disk == self._datasets_of_pair),
            (True, anywhere == self._datasets_of_pair),
            (False, on_disk > 0),
            (False, anywhere > 0),
        ):
            mask |= choice & left[self._chunk]
            chosen = any_of(self._chunk, choice, len(left))
            left &= ~chosen
            if all_datasets:
                union &= ~chosen
        if named is None:
            return self._at_pairs(mask, self._nothing), union
        mask = np.where(named[self._chunk], anywhere > 0, mask)
        return self._at_pairs(mask, self._nothing & ~named), union & ~named

    def without_vp(self, union: Bools) -> PairValues:
        """(T, U): queues with all datasets in other places than virtual placement, with any where a part is enough."""
        held = self._summed(self._places.without_vp)
        return self._at_pairs((held == self._datasets_of_pair) | (union[self._chunk] & (held > 0)), self._nothing)

    def datasets_weight(self, twice: bool) -> PairValues:
        """(T, U): the number of datasets; those not on disk count less; ``twice`` for two kinds of copies."""
        places, owner = self._places, self._owner
        each = np.where(places.disk, 1.0, np.where(places.anywhere, OFF_DISK_WEIGHT, 0.0))
        if twice:
            each = each * (1.0 + places.twice)
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        firsts = np.zeros(len(self._real), dtype=np.bool_)
        firsts[self._numbers[starts]] = True
        first = firsts[places.at]
        # as numpy sums a column: the first is added to the sum of the others
        weight = self._summed(np.where(first, 0.0, each))
        weight[self._pair[first]] += each[first]
        for start in starts[self._datasets[owner[starts]] > _FEW].tolist():
            at = self._numbers[start : start + self._datasets[owner[start]]]
            # datasets and pairs of a chunk are neighbours
            own = slice(*np.searchsorted(places.at, (at[0], at[-1] + 1)).tolist())
            table = np.zeros((len(at), self._queues))
            table[np.searchsorted(at, places.at[own]), places.unified[own]] = each[own]
            pairs = slice(*np.searchsorted(self._chunk, (owner[start], owner[start] + 1)).tolist())
            weight[pairs] = np.add.reduceat(table, [0], axis=0)[0, self._unified[pairs]]
        return self._at_pairs(weight, np.zeros(len(self._datasets)))


def _disk_gb(entries: Entries, flags: tuple[Bools, Bools], chunk_of: Ints, shape: tuple[int, int]) -> PairValues:
    """(T, U) GiB of the chunk on the disks of the queue; of a secondary dataset only whole copies count.

    ``flags``: (I,) the master datasets, and those of chunks that may use virtual placement; for others it is no disk.
    """
    (count, queues), (is_master, uses_vp) = shape, flags
    counted = (is_master[entries.at] | entries.whole) & (uses_vp[entries.at] | ~entries.vp)
    rows = np.flatnonzero(~entries.tape & (entries.bytes > 0) & counted)
    span = max(1, queues)
    pairs, pair = np.unique(chunk_of[entries.at[rows]] * span + entries.unified[rows], return_inverse=True)
    there = np.bincount(pair, weights=entries.bytes[rows], minlength=len(pairs)).astype(np.float64, copy=False)
    # only whole GiB at a queue count
    return PairValues(pairs // span, pairs % span, np.floor(there / GIB), np.zeros(count), queues)


def _only_local(snapshot: Snapshot) -> Bools:
    """(U,): queues that read nothing from elsewhere."""
    only = np.zeros(len(snapshot.unified), dtype=np.bool_)
    only[snapshot.queues.unified[snapshot.queues.use_only_local_data]] = True
    return only


def _files_together(entries: Entries) -> Floats:
    """(N,): the files that the endpoints of the queue hold together, those on disk and those on tape each."""
    if not (entries.held_parts != np.array(None, dtype=np.object_)).any():
        return entries.files
    span = 1 + int(entries.unified.max(initial=0))
    kinds = (entries.at * span + entries.unified) * 2 + entries.tape
    groups, group = np.unique(kinds, return_inverse=True)
    united = united_parts(entries.held_parts, group, np.zeros(len(group), dtype=np.bool_), None, len(groups))
    return entries.files if united is None else np.maximum(entries.files, united[1][1][group])


def _lacking(
    entries: Entries, chunk_of: Ints, files: Floats, required: tuple[Bools, Bools], only: Bools, count: int
) -> tuple[RowsByKind, RowsByKind]:
    """(T, U) twice: queues ``only`` for local data that lack files of a ``required`` input, on disk or on tape."""
    queues = np.flatnonzero(only)
    # one column for each of them, and one for all others
    column = np.full(len(only), len(queues), dtype=np.int64)
    column[queues] = np.arange(len(queues))
    has_all = np.zeros((len(files), len(queues) + 1), dtype=np.bool_)
    has_all[:, len(queues)] = True
    # every queue has all files of an input without files
    has_all[files <= 0] = True
    rows = np.flatnonzero(only[entries.unified])
    rows = rows[_files_together(taken(entries, rows)) >= files[entries.at[rows]]]
    has_all[entries.at[rows], column[entries.unified[rows]]] = True
    tables = []
    for flags in required:
        lacks = np.zeros((count, len(queues) + 1), dtype=np.bool_)
        at, queue = (flags[:, None] & ~has_all).nonzero()
        lacks[chunk_of[at], queue] = True
        tables.append(RowsByKind(lacks, column=column))
    return tables[0], tables[1]
