"""Short builders of files, datasets and tasks for the tests of this package."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from broker.domain.arrays import floats, texts
from broker.work.chunks import InputFiles
from broker.work.input_files import NULL_INTEGER, DatasetUse, FileTable, joined
from broker.work.tasks import TASK_NUMBERS, TASK_TEXTS, DatasetTable, TaskTable

COLUMNS = ("fileid", "lfn", "size", "nevents", "start", "end", "boundary", "lumi", "ram", "attempt")
MB = 1024 * 1024


def file_table(rows: Iterable[dict[str, int | None]]) -> FileTable:
    """Files from partial rows. Defaults: name = position, 1 MB, no events, ramcount 0."""
    defaults: dict[str, int | None] = {"size": MB, "ram": 0, "attempt": 0}
    filled = [defaults | {"fileid": position + 1, "lfn": position + 1} | row for position, row in enumerate(rows)]
    columns = [
        np.array([NULL_INTEGER if row.get(name) is None else row[name] for row in filled], dtype=np.int64)
        for name in COLUMNS
    ]
    return FileTable(*columns)


def plain_files(count: int, **values: int | None) -> FileTable:
    """``count`` equal files."""
    return file_table([dict(values) for _ in range(count)])


def one_chunk(*parts: tuple[FileTable, DatasetUse]) -> InputFiles:
    """The inputs of one chunk, master first."""
    sizes = [len(files) for files, _ in parts]
    return InputFiles(
        np.zeros(len(parts), dtype=np.int64),
        np.arange(len(parts)),
        np.arange(len(parts)) == 0,
        tuple(use for _, use in parts),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        joined([files for files, _ in parts]),
    )


def task_table(rows: list[dict[str, Any]]) -> TaskTable:
    """Tasks from rows; a missing column is NULL."""
    return TaskTable(
        np.array([row.get("jeditaskid", position + 1) for position, row in enumerate(rows)], dtype=np.int64),
        floats(row.get("ramcount") for row in rows),
        floats(row.get("frozentime") for row in rows),
        {name: texts(row.get(name) for row in rows) for name in TASK_TEXTS},
        {name: floats(row.get(name) for row in rows) for name in TASK_NUMBERS},
    )


def dataset_table(rows: list[dict[str, Any]]) -> DatasetTable:
    """Datasets from rows; a ready master of type input with 10 unused files unless the row says otherwise."""
    defaults: dict[str, Any] = {
        "type": "input",
        "status": "ready",
        "nfiles": 10,
        "nfilestobeused": 10,
        "nfilesused": 0,
        "masterid": -1,
        "task": 0,
    }
    filled = [
        defaults | {"datasetid": 100 + position, "name": f"s:ds{position}"} | row for position, row in enumerate(rows)
    ]

    def integers(name: str) -> Any:
        return np.array([row[name] for row in filled], dtype=np.int64)

    return DatasetTable(
        integers("task"),
        integers("datasetid"),
        integers("masterid"),
        *(texts(row.get(name) for row in filled) for name in ("name", "type", "status", "state", "site", "attributes")),
        *(
            floats(row.get(name) for row in filled)
            for name in ("nfiles", "nfilestobeused", "nfilesused", "nfileswaiting", "creationtime", "modificationtime")
        ),
    )
