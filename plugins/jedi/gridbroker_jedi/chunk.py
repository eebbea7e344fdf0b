"""One input chunk of JEDI's as the tables that gridbroker's engine works on. Pure: no database is read."""

from __future__ import annotations

import calendar
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from broker.domain.arrays import floats, texts
from broker.work.chunks import ChunkTable, InputFiles, uses_of
from broker.work.input_files import NULL_INTEGER, FileTable, joined
from broker.work.tasks import TASK_NUMBERS, TASK_TEXTS, DatasetTable, TaskTable

_DATASET_TEXTS = {"name": "datasetname", "type": "type", "status": "status", "state": "state", "site": "site"}
_DATASET_NUMBERS = ("nfiles", "nfilestobeused", "nfilesused", "nfileswaiting")
#: Fields of FileTable and the attributes of JEDI's file that they hold.
_FILE_FIELDS = {
    "fileid": "fileid",
    "fsize_bytes": "fsize",
    "nevents": "nevents",
    "startevent": "startevent",
    "endevent": "endevent",
    "boundaryid": "boundaryid",
    "lumiblocknr": "lumiblocknr",
    "ramcount_mb": "ramcount",
    "attemptnr": "attemptnr",
}


@dataclass(frozen=True)
class ChunkTables:
    """A task with one chunk: the first datasets of ``datasets`` are the chunk's, master first.

    Attributes:
        tasks: one row.
        datasets: the chunk's datasets, pseudo datasets included.
        chunks: one row.
        inputs: the files of each dataset, in JEDI's order.
    """

    tasks: TaskTable
    datasets: DatasetTable
    chunks: ChunkTable
    inputs: InputFiles


def tables_of(task_spec: Any, chunk: Any) -> ChunkTables:
    """The tables of a chunk that JEDI hands to its job broker.

    Args:
        task_spec: ``JediTaskSpec``.
        chunk: ``InputChunk`` with the files that were picked for it.
    """
    specs = chunk.getDatasets(includePseudo=True)
    datasets = _datasets(specs)
    files = [_files(spec.Files) for spec in specs]
    offsets = np.concatenate([[0], np.cumsum([len(table) for table in files])]).astype(np.int64)
    zero = np.zeros(1, dtype=np.int64)
    chunks = ChunkTable(
        task=zero,
        dataset=zero,
        ramcount_mb=floats([chunk.ramCount]),
        merging=np.array([bool(chunk.isMerging)]),
        scout=np.array([bool(chunk.useScout())]),
        jumbo=np.array([chunk.useJumbo is not None]),
    )
    inputs = InputFiles(
        chunk=np.zeros(len(specs), dtype=np.int64),
        dataset=np.arange(len(specs), dtype=np.int64),
        is_master=np.array([position == 0 for position in range(len(specs))], dtype=np.bool_),
        uses=uses_of(datasets),
        offsets=offsets,
        files=joined(files),
    )
    return ChunkTables(_task(task_spec), datasets, chunks, inputs)


def _columns(spec: Any) -> dict[str, Any]:
    """The attributes of one of JEDI's specs by the lower-case name of their column."""
    kind = type(spec)
    names: tuple[str, ...] = getattr(kind, "attributes", None) or kind._attributes
    return {name.lower(): getattr(spec, name, None) for name in names}


def _task(spec: Any) -> TaskTable:
    columns = _columns(spec)
    return TaskTable(
        np.array([columns["jeditaskid"]], dtype=np.int64),
        floats([columns["ramcount"]]),
        floats([_seconds(columns["frozentime"])]),
        {name: texts([columns.get(name)]) for name in TASK_TEXTS},
        {name: floats([columns.get(name)]) for name in TASK_NUMBERS},
    )


def _datasets(specs: Iterable[Any]) -> DatasetTable:
    rows = [_columns(spec) for spec in specs]
    numbers: dict[str, Any] = {name: floats([row.get(name) for row in rows]) for name in _DATASET_NUMBERS}
    named: dict[str, Any] = {field: texts(row.get(column) for row in rows) for field, column in _DATASET_TEXTS.items()}
    numbers["nfilesused"] = np.nan_to_num(numbers["nfilesused"])
    return DatasetTable(
        task=np.zeros(len(rows), dtype=np.int64),
        datasetid=np.array([row["datasetid"] for row in rows], dtype=np.int64),
        masterid=np.array([-1 if row["masterid"] is None else row["masterid"] for row in rows], dtype=np.int64),
        attributes=texts(row.get("attributes") for row in rows),
        creationtime_s=floats([_seconds(row.get("creationtime")) for row in rows]),
        modificationtime_s=floats([_seconds(row.get("modificationtime")) for row in rows]),
        **named,
        **numbers,
    )


def _files(specs: Iterable[Any]) -> FileTable:
    rows = [_columns(spec) for spec in specs]
    columns: dict[str, Any] = {
        field: np.array([_whole(row.get(column)) for row in rows], dtype=np.int64)
        for field, column in _FILE_FIELDS.items()
    }
    return FileTable(lfn_hash=np.array([_hash(str(row["lfn"])) for row in rows], dtype=np.int64), **columns)


def _whole(value: Any) -> int:
    return NULL_INTEGER if value is None else int(value)


def _hash(name: str) -> int:
    """Hash a name, to the same number in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def _seconds(moment: Any) -> float | None:
    """Convert a naive UTC time of PanDA's to seconds since 1970."""
    if not isinstance(moment, datetime):
        return None
    return calendar.timegm(moment.timetuple()) + moment.microsecond / 1e6
