"""Files of input datasets as rows: copied in batches as they come, so that a million of them are never in memory.

Source: PanDA data model, datasets and files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import Names
from broker.tasks.model.task import InputFile

FILES_OF_A_BATCH = 20_000
_NEXT_FILE_IDS = "SELECT nextval('broker.pseudo_file_seq') FROM generate_series(1, %s)"
_COLUMNS = (
    "jeditaskid, datasetid, fileid, lfn, guid, type, status, proc_status, creationdate, fsize, checksum, scope, "
    "nevents, firstevent, attemptnr, maxattempt, failedattempt, maxfailure, keeptrack"
)
_COPY = f"COPY {{panda}}.jedi_dataset_contents ({_COLUMNS}) FROM STDIN"
_COUNT = """
UPDATE {panda}.jedi_datasets
SET nfiles = coalesce(nfiles, 0) + :files, nfilestobeused = coalesce(nfilestobeused, 0) + :files,
    nevents = coalesce(nevents, 0) + :events, neventstobeused = coalesce(neventstobeused, 0) + :events,
    status = 'ready', state = :state, modificationtime = :now
WHERE jeditaskid = :task AND datasetid = :dataset"""


@dataclass(frozen=True)
class FileTerms:
    """What all files of a dataset have in common.

    Attributes:
        jeditaskid: the task.
        datasetid: the dataset.
        type: input or pseudo_input.
        maxattempt: attempts at each file; None for a secondary dataset, whose files no counter includes.
        maxfailure: failures of each file; None: without a limit.
        first_event: number of the first event of the first file.
    """

    jeditaskid: int
    datasetid: int
    type: str
    maxattempt: int | None = None
    maxfailure: int | None = None
    first_event: int = 0


@dataclass(frozen=True)
class AddedFiles:
    """Files that were added, and their events."""

    files: int
    events: int


def add_files(
    connection: sa.Connection, names: Names, terms: FileTerms, files: Iterable[InputFile], now: datetime, *, state: str
) -> AddedFiles:
    """Add ready files to a dataset and count them there, in the caller's transaction.

    Args:
        connection: the caller's.
        names: the names of the schemas.
        terms: what all files have in common.
        files: read batch by batch; between the batches the connection is free.
        now: naive UTC.
        state: the state of the dataset from now on: closed, or mutable while files may come.
    """
    count, events = 0, 0
    remaining = iter(files)
    raw = Database.raw(connection)
    while batch := list(islice(remaining, FILES_OF_A_BATCH)):
        with raw.cursor() as cursor:
            ids = [row[0] for row in cursor.execute(_NEXT_FILE_IDS, (len(batch),)).fetchall()]
            with cursor.copy(names.sql(_COPY).encode()) as copy:
                for row in _rows(terms, batch, ids, terms.first_event + events, now):
                    copy.write_row(row)
        count += len(batch)
        events += sum(file.nevents or 0 for file in batch)
    values = {"files": count, "events": events, "state": state, "now": now}
    connection.execute(sa.text(names.sql(_COUNT)), {**values, "task": terms.jeditaskid, "dataset": terms.datasetid})
    return AddedFiles(count, events)


def _rows(
    terms: FileTerms, batch: list[InputFile], ids: list[int], first_event: int, now: datetime
) -> Iterator[tuple[Any, ...]]:
    task, dataset, kind, attempts, failures = (
        terms.jeditaskid,
        terms.datasetid,
        terms.type,
        terms.maxattempt,
        terms.maxfailure,
    )
    failed = None if attempts is None else 0
    for one, file_id in zip(batch, ids, strict=True):
        yield (
            task, dataset, file_id, one.lfn, one.guid, kind, "ready", "ready", now, one.fsize, one.checksum, one.scope,
            one.nevents, first_event, 0, attempts, failed, failures, 1,
        )  # fmt: skip
        first_event += one.nevents or 0
