"""Locations of datasets and of input files, computed row by row: the reference of the property tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from broker.work.catalogue import Catalogue, PlacedDatasets
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.input_files import unique_totals
from broker.work.locality import NamedFiles, RankLimits

Place = tuple[str, bool, bool, float, float, float, bool, tuple[tuple[int, int], ...] | None]


def plain_datasets(catalogue: Catalogue, dataset_ids: list[int], did_of: list[int]) -> list[tuple[Any, ...]]:
    """The rows of PlacedDatasets."""
    rows = [
        (dataset, *place) for dataset, did in zip(dataset_ids, did_of, strict=True) for place in _places(catalogue, did)
    ]
    return sorted(rows, key=lambda row: (row[0], row[1]))


def _places(catalogue: Catalogue, did: int) -> list[Place]:
    replicas = catalogue.replicas
    parts = catalogue.parts.get(did) or (did,)
    rows = [row for part in parts for row in np.flatnonzero(replicas.did == part).tolist()]
    is_whole = [
        bool(replicas.is_vp[row]) or replicas.available_files[row] == replicas.total_files[row]
        for row in range(len(replicas.did))
    ]
    if parts == (did,):
        return [
            (
                replicas.rse[row],
                bool(replicas.is_tape[row]),
                bool(replicas.is_vp[row]),
                float(replicas.available_files[row]),
                float(replicas.available_files[row]),
                float(replicas.total_files[row]),
                bool(is_whole[row]),
                None,
            )
            for row in rows
        ]
    total = 0.0
    bounds: dict[int, tuple[int, int]] = {}
    for part in parts:
        known_lengths = [length for length in replicas.total_files[replicas.did == part].tolist() if length == length]
        start = total
        total += max(known_lengths) if known_lengths else catalogue.lengths.get(part, 0.0)
        bounds[part] = int(start), int(total)
    places: list[Place] = []
    for rse in dict.fromkeys(replicas.rse[row] for row in rows):
        rows_here = [row for row in rows if replicas.rse[row] == rse]
        files = {row: float(np.nan_to_num(replicas.available_files[row])) for row in rows_here}
        places.append(
            (
                rse,
                all(bool(replicas.is_tape[row]) for row in rows_here),
                all(bool(replicas.is_vp[row]) for row in rows_here),
                sum(files.values(), 0.0),
                sum((files[row] for row in rows_here if is_whole[row]), 0.0),
                total,
                all(is_whole[row] for row in rows_here) and len(rows_here) == len(parts),
                tuple(bounds[int(replicas.did[row])] for row in rows_here if is_whole[row]),
            )
        )
    return places


def _ids_of_spans(spans: tuple[tuple[int, int], ...], dataset: int, limits: RankLimits) -> list[tuple[int, int]]:
    return [(limits.get((dataset, first), -1), limits.get((dataset, last), -1)) for first, last in spans]


def plain_replicas(
    chunks: ChunkTable,
    inputs: InputFiles,
    placed: PlacedDatasets,
    dataset_files: list[float],
    limits: RankLimits,
    named: NamedFiles,
) -> list[tuple[Any, ...]]:
    """The rows of the replica table; the last value marks the files at the replica (None: all files)."""
    rows: list[tuple[Any, ...]] = []
    for position, use in enumerate(inputs.uses):
        if use.pseudo:
            continue
        dataset, files = int(inputs.dataset[position]), inputs.files_of(position)
        ids, of_dataset = files.fileid.tolist(), named.get(dataset, {})
        everything = unique_totals(files)
        rows_here = np.flatnonzero(placed.dataset == dataset).tolist()
        for row in rows_here:
            total, size, rse = float(placed.total[row]), dataset_files[dataset], placed.rse[row]
            is_whole = bool(placed.is_vp[row]) or (bool(placed.complete[row]) and (size != size or total >= size))
            is_whole |= bool(chunks.merging[inputs.chunk[position]])
            count = float(placed.available[row])
            last = limits.get((dataset, int(count)), -1) if count > 0 else -1
            spans = (
                [(-(10**9), last)] if placed.spans[row] is None else _ids_of_spans(placed.spans[row], dataset, limits)
            )
            ids_there = {fileid for fileid in ids if any(start < fileid <= end for start, end in spans)}
            marks = [rse in of_dataset[fileid] if fileid in of_dataset else fileid in ids_there for fileid in ids]
            sums = everything if is_whole else unique_totals(files.rows(np.flatnonzero(marks)))
            kind = bool(placed.is_tape[row]), bool(placed.is_vp[row]), float(placed.in_whole_parts[row]), total
            rows.append(
                (position, rse, *kind, bool(placed.complete[row]), is_whole, *sums, None if is_whole else marks)
            )
        known_rses = {placed.rse[row] for row in rows_here}
        for rse in sorted({rse for fileid in ids for rse in of_dataset.get(fileid, ())} - known_rses):
            marks = [rse in of_dataset.get(fileid, ()) for fileid in ids]
            sums = unique_totals(files.rows(np.flatnonzero(marks)))
            rows.append((position, rse, False, False, 0.0, np.nan, False, False, *sums, marks))
    return rows
