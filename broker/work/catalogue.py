"""The replica catalogue's answer for the input datasets of a cycle, summed over the constituents of containers.

Source: PanDA production brokerage, dataset completeness and available files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from broker.domain.analysis import VP_ENDING
from broker.domain.arrays import Bools, Floats, Ints, Objects, Texts, distinct, floats, objects, taken, texts
from broker.domain.work import DroppedRow
from broker.work.input_files import scope_and_name
from broker.work.tasks import DatasetTable

#: State of a replica that is a virtual placement: any file can be read there, but none is stored.
VIRTUAL_PLACEMENT = "VP"
#: Groupings of replication rules that spread the files of a dataset, or the datasets of a container.
_SPREADING, _SPREADING_CONTAINER = frozenset({"NONE"}), frozenset({"NONE", "DATASET"})

Did = tuple[str, str]
#: Spans of ordered files: each from after one position to another.
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ReplicaRows:
    """Rows of ``dataset_replicas`` (length L). ``did`` points into the list of requested DIDs; NULL is NaN."""

    did: Ints
    rse: Texts
    is_tape: Bools
    is_vp: Bools
    available_files: Floats
    total_files: Floats


@dataclass(frozen=True)
class Catalogue:
    """Answers of the replica catalogue about ``dids``: replicas, metadata, and constituents of containers.

    ``groupings`` has an entry for each DID with metadata, ``lengths`` for each whose number of files is known.
    ``parts`` has the positions of the constituents of each container. ``unasked``: Rucio feeds the catalogue and has
    not answered for these yet. ``dropped_rows``: rows that cannot be used.
    """

    dids: tuple[Did, ...]
    replicas: ReplicaRows
    groupings: dict[int, tuple[str, ...]]
    lengths: dict[int, float]
    parts: dict[int, tuple[int, ...]]
    unasked: frozenset[int] = frozenset()
    dropped_rows: tuple[DroppedRow, ...] = ()


@dataclass(frozen=True)
class PlacedDatasets:
    """Where datasets are (length P), one row for a dataset (position in its table) and endpoint, sorted by both.

    ``available`` counts every file that is there. ``in_whole_parts`` counts, in a container, only the files of
    constituents that are complete there. ``total`` counts the files of the whole dataset or container. ``spans`` are
    those of a container, one for each of these constituents: from after which file to which file, in the order of all
    files of the dataset.
    """

    dataset: Ints
    rse: Texts
    is_tape: Bools
    is_vp: Bools
    available: Floats
    in_whole_parts: Floats
    total: Floats
    complete: Bools
    spans: Objects  # None for datasets that are not containers

    def of_whole_parts(self) -> PlacedDatasets:
        """The table with ``in_whole_parts`` as ``available``: a constituent held only in part counts as absent."""
        return replace(self, available=self.in_whole_parts)

    def of_first_files(self) -> PlacedDatasets:
        """The table without spans: an endpoint holds the first files, up to its number of available ones."""
        return replace(self, spans=np.full(len(self), None, dtype=np.object_))

    def __len__(self) -> int:
        return len(self.dataset)


def at_vp_endpoints(catalogue: Catalogue) -> Catalogue:
    """The catalogue without virtual placements at endpoints that are not meant for them."""
    replicas = catalogue.replicas
    is_one = np.array([str(rse).endswith(VP_ENDING) for rse in replicas.rse.tolist()], dtype=np.bool_)
    foreign = replicas.is_vp & ~is_one
    return replace(catalogue, replicas=taken(replicas, np.flatnonzero(~foreign))) if foreign.any() else catalogue


def distinct_dids(datasets: DatasetTable, wanted: Ints) -> tuple[tuple[Did, ...], Ints]:
    """The distinct DIDs of the datasets ``wanted``, and the position of each dataset's DID among them."""
    position: dict[Did, int] = {}
    codes = [position.setdefault(scope_and_name(datasets.name[d]), len(position)) for d in wanted.tolist()]
    return tuple(position), np.array(codes, dtype=np.int64)


def is_distributed(catalogue: Catalogue, did: int, with_replicas: frozenset[int]) -> bool:
    """Whether no rule keeps the dataset together; true for a DID that the catalogue does not know.

    A dataset with replicas but without metadata is kept together.
    """
    groupings = catalogue.groupings.get(did)
    if groupings is None:
        return not is_catalogued(catalogue, did, with_replicas)
    spreading = _SPREADING_CONTAINER if did in catalogue.parts else _SPREADING
    return all(grouping in spreading for grouping in groupings)


def is_catalogued(catalogue: Catalogue, did: int, with_replicas: frozenset[int]) -> bool:
    """Whether the catalogue knows the dataset: its metadata, a replica, or a constituent."""
    if did in catalogue.groupings or did in with_replicas:
        return True
    return any(is_catalogued(catalogue, part, with_replicas) for part in catalogue.parts.get(did, ()) if part != did)


def has_answer(catalogue: Catalogue, did: int, with_replicas: frozenset[int]) -> bool:
    """Whether the catalogue's answer is final: Rucio has answered for the dataset and its constituents."""
    if did in catalogue.unasked and did not in catalogue.groupings and did not in with_replicas:
        return did in catalogue.parts and _parts_have_answers(catalogue, did, with_replicas)
    return _parts_have_answers(catalogue, did, with_replicas)


def _parts_have_answers(catalogue: Catalogue, did: int, with_replicas: frozenset[int]) -> bool:
    return all(has_answer(catalogue, part, with_replicas) for part in catalogue.parts.get(did, ()) if part != did)


def files_of_dids(catalogue: Catalogue, did_of: Ints, nfiles: Floats) -> Floats:
    """Number of files of each dataset by DID; NaN where unknown.

    The catalogue's length; for a container without one, the sum over its constituents if all of them have one; else the
    count of JEDI (``nfiles``).
    """
    lengths = (_length(catalogue, did) for did in did_of.tolist())
    return floats(jedi if length is None else length for length, jedi in zip(lengths, nfiles.tolist(), strict=True))


def _length(catalogue: Catalogue, did: int) -> float | None:
    own = catalogue.lengths.get(did)
    parts = catalogue.parts.get(did)
    if own is not None or not parts:
        return own
    known = [catalogue.lengths[part] for part in parts if part in catalogue.lengths]
    return sum(known) if len(known) == len(parts) else None


def place_datasets(catalogue: Catalogue, wanted: Ints, did_of: Ints) -> PlacedDatasets:
    """Sum the replicas of each dataset ``wanted`` (whose DID is ``did_of``) by endpoint."""
    containers = [did for did, parts in catalogue.parts.items() if parts and parts != (did,)]
    whole = ~np.isin(did_of, np.array(containers, dtype=np.int64))
    plain = _place_plain(catalogue.replicas, wanted[whole], did_of[whole])
    placed = plain if whole.all() else _with_containers(catalogue, plain, wanted[~whole], did_of[~whole])
    endpoints, code = distinct(placed.rse)
    rank = {rse: at for at, rse in enumerate(sorted(endpoints))}
    by_name = np.array([rank[rse] for rse in endpoints], dtype=np.int64)[code]
    return taken(placed, np.lexsort((by_name, placed.dataset)))


def _place_plain(replicas: ReplicaRows, wanted: Ints, did_of: Ints) -> PlacedDatasets:
    """The replicas of datasets that are not containers, dataset by dataset, in the order in which they were read."""
    by_did = np.argsort(replicas.did, kind="stable")
    dids = replicas.did[by_did]
    first = np.searchsorted(dids, did_of, side="left")
    number = np.searchsorted(dids, did_of, side="right") - first
    before = np.cumsum(number) - number
    row = by_did[np.arange(number.sum()) - np.repeat(before - first, number)]
    available, total, is_vp = replicas.available_files[row], replicas.total_files[row], replicas.is_vp[row]
    return PlacedDatasets(
        dataset=np.repeat(wanted, number),
        rse=replicas.rse[row],
        is_tape=replicas.is_tape[row],
        is_vp=is_vp,
        available=available,
        in_whole_parts=available,
        total=total,
        complete=is_vp | (available == total),
        spans=np.full(len(row), None, dtype=np.object_),
    )


def _with_containers(catalogue: Catalogue, plain: PlacedDatasets, wanted: Ints, did_of: Ints) -> PlacedDatasets:
    """``plain``, then the containers ``wanted`` at each endpoint that has some of their constituents."""
    rows_of: dict[int, list[int]] = {}
    for row, did in enumerate(catalogue.replicas.did.tolist()):
        rows_of.setdefault(did, []).append(row)
    sums = {did: _place_container(catalogue, rows_of, catalogue.parts[did]) for did in dict.fromkeys(did_of.tolist())}
    rows = [(at, *row) for at, did in zip(wanted.tolist(), did_of.tolist(), strict=True) for row in sums[did]]
    dataset, rse, is_tape, is_vp, available, in_whole_parts, total, complete, spans = (
        zip(*rows, strict=True) if rows else [()] * 9
    )
    return PlacedDatasets(
        np.append(plain.dataset, np.array(dataset, dtype=np.int64)),
        np.append(plain.rse, texts(rse)),
        np.append(plain.is_tape, np.array(is_tape, dtype=np.bool_)),
        np.append(plain.is_vp, np.array(is_vp, dtype=np.bool_)),
        np.append(plain.available, floats(available)),
        np.append(plain.in_whole_parts, floats(in_whole_parts)),
        np.append(plain.total, floats(total)),
        np.append(plain.complete, np.array(complete, dtype=np.bool_)),
        np.append(plain.spans, objects(spans)),
    )


def _place_container(
    catalogue: Catalogue, rows_of: dict[int, list[int]], parts: tuple[int, ...]
) -> list[tuple[str, bool, bool, float, float, float, bool, Spans]]:
    replicas = catalogue.replicas
    total = 0.0
    rows: list[int] = []
    span_of: dict[int, tuple[int, int]] = {}
    for part in parts:
        own = rows_of.get(part, [])
        rows += own
        known = [float(replicas.total_files[row]) for row in own if not np.isnan(replicas.total_files[row])]
        size = max(known) if known else catalogue.lengths.get(part, 0.0)
        span_of |= dict.fromkeys(own, (int(total), int(total + size)))
        total += size
    endpoints, code = distinct(replicas.rse[rows])
    result = []
    for position, rse in enumerate(endpoints):
        here = np.array(rows, dtype=np.int64)[code == position]
        available = np.nan_to_num(replicas.available_files[here])
        whole = replicas.is_vp[here] | (replicas.available_files[here] == replicas.total_files[here])
        result.append(
            (
                str(rse),
                bool(replicas.is_tape[here].all()),
                bool(replicas.is_vp[here].all()),
                float(available.sum()),
                float(available[whole].sum()),
                total,
                bool(whole.all() and len(here) == len(parts)),
                tuple(span_of[row] for row in here[whole].tolist()),
            )
        )
    return result
