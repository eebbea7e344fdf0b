"""Chunks with datasets and replicas for tests of the engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from broker.domain.arrays import texts
from broker.domain.work import InputTable, ReplicaTable, Work, WorkTable
from tests.rules.builders import make_tasks


@dataclass(frozen=True)
class Replica:
    """A replica of a dataset; by default it holds ``found`` of the chunk's files."""

    rse: str
    found: float = 10
    total: float = 10
    is_tape: bool = False
    is_vp: bool = False
    complete: bool | None = None
    holds_all: bool | None = None
    files: float | None = None


@dataclass(frozen=True)
class Dataset:
    """A dataset of 10 files of 100 bytes."""

    replicas: Sequence[Replica] = ()
    is_master: bool = True
    is_pseudo: bool = False
    distributed: bool = False
    catalogued: bool = True
    asked: bool = True
    is_container: bool = False
    files: float = 10
    more: dict[str, Any] = field(default_factory=dict)


def replica(rse: str, found: float = 10, total: float = 10, **columns: Any) -> Replica:
    """A replica, complete by default."""
    return Replica(rse, found, total, **columns)


def _replica_row(input_row: int, copy: Replica) -> dict[str, Any]:
    complete = copy.found == copy.total or copy.is_vp if copy.complete is None else copy.complete
    files = copy.found if copy.files is None else copy.files
    return {
        "input": input_row,
        "rse": copy.rse,
        "is_tape": copy.is_tape,
        "is_vp": copy.is_vp,
        "found": copy.found,
        "total": copy.total,
        "complete": complete,
        "holds_all": complete if copy.holds_all is None else copy.holds_all,
        "chunk_files": files,
        "chunk_bytes": 100.0 * files,
        "held_parts": None,
    }


def _input_row(chunk: int, number: int, dataset: Dataset) -> dict[str, Any]:
    return {
        "chunk": chunk,
        "datasetid": 100 * chunk + number,
        "scope": "mc23",
        "name": f"dataset.{chunk}.{number}",
        "is_master": dataset.is_master,
        "is_pseudo": dataset.is_pseudo,
        "distributed": dataset.distributed,
        "files": dataset.files,
        "bytes": 100.0 * dataset.files,
        "dataset_files": dataset.files,
        "catalogued": dataset.catalogued,
        "asked": dataset.asked,
        "is_container": dataset.is_container,
    }


def _table(kind: Any, rows: Sequence[Mapping[str, Any]]) -> Any:
    dtypes = {"Floats": np.float64, "Ints": np.int64, "Bools": np.bool_}
    columns = {}
    for column in dataclasses.fields(kind):
        values = [row[column.name] for row in rows]
        type_name = str(column.type)
        columns[column.name] = (
            texts(values) if type_name in ("Texts", "Objects") else np.array(values, dtype=dtypes[type_name])
        )
    return kind(**columns)


def chunk_table(count: int, **columns: Any) -> WorkTable:
    """Chunks as columns of shape (count,)."""
    table = make_tasks(count, **columns)
    return WorkTable(**{column.name: getattr(table, column.name).reshape(-1) for column in dataclasses.fields(table)})


def work_of(*datasets: Sequence[Dataset], chunks: Mapping[str, Any] | None = None) -> Work:
    """Work with one chunk for each list of datasets; pseudo datasets do not count towards the total sizes."""
    real = [[dataset for dataset in group if not dataset.is_pseudo] for group in datasets]
    files = [float(sum(dataset.files for dataset in group)) for group in real]
    columns: dict[str, Any] = {"total_files": files, "total_bytes": [100.0 * count for count in files]}
    columns["jeditaskid"] = list(range(1, len(datasets) + 1))
    inputs, replicas = [], []
    for chunk, group in enumerate(datasets):
        for number, dataset in enumerate(group):
            replicas.extend(_replica_row(len(inputs), copy) for copy in dataset.replicas)
            inputs.append(_input_row(chunk, number, dataset))
    table = chunk_table(len(datasets), **{**columns, **(chunks or {})})
    return Work(table, _table(InputTable, inputs), _table(ReplicaTable, replicas))
