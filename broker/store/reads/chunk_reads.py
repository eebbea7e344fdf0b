"""Reading the work of a cycle: tasks, their input datasets, and the ready files of these datasets.

Everything is read for all tasks at once, in the caller's transaction. The files of each dataset come as one packed
table of integers, so that half a million of them become columns without creating Python objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from broker.domain.arrays import Floats, Ints, Texts, floats, texts
from broker.store.connection.array_transfer import array_of, tables_of
from broker.store.connection.database import Database
from broker.store.connection.panda_columns import PandaColumns
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.task_states import ShareOfTasks
from broker.work.chunks import FILES_OF_A_DATASET, INPUT_FAMILIES, FileRequests, ReadFiles
from broker.work.input_files import NULL_INTEGER, FileTable
from broker.work.tasks import TASK_NUMBERS, TASK_TEXTS, DatasetTable, TaskTable

#: Statuses of tasks for which jobs are created.
TASK_STATUSES = ("ready", "running", "scouting", "topreprocess", "preprocessing")
#: Status of tasks that wait until they are brokered again; ``oldstatus`` is their previous one.
WAITING = "pending"
#: Labels of analysis tasks; any other label is production.
ANALYSIS_LABELS = ("user", "panda")
#: Largest number of files that one cycle reads.
FILES_OF_A_CYCLE = 500_000
#: Number of datasets whose files are read at once: enough to keep the server busy, few enough to bound memory.
_DATASETS_AT_ONCE = 200


@dataclass(frozen=True)
class WorkSelection:
    """The tasks to read.

    Attributes:
        vo: virtual organisation; None for any.
        labels: values of ``prodsourcelabel`` to include or, with ``labels_excluded``, to exclude.
        labels_excluded: whether ``labels`` are excluded; a task without a label is then included.
        statuses: statuses of tasks.
        task_ids: only these tasks, whatever their number; None for all.
        shares: only tasks with one of these pairs of global share and work queue; None for all.
        with_nucleus: only tasks that have a nucleus.
        waiting: also waiting tasks, with their previous status.
        files_of_a_dataset: largest number of ready files to take from one master dataset.
        files_of_a_cycle: largest number of ready files to take from all master datasets.
        whole_constituents: whether container files count at an endpoint only if their constituent is complete there.
    """

    vo: str | None = None
    labels: tuple[str, ...] = ANALYSIS_LABELS
    labels_excluded: bool = True
    statuses: tuple[str, ...] = TASK_STATUSES
    task_ids: tuple[int, ...] | None = None
    shares: tuple[ShareOfTasks, ...] | None = None
    with_nucleus: bool = False
    waiting: bool = False
    files_of_a_dataset: int = FILES_OF_A_DATASET
    files_of_a_cycle: int = FILES_OF_A_CYCLE
    whole_constituents: bool = False


_OF_SHARES = """AND EXISTS (
    SELECT FROM unnest(CAST(:shares AS text[]), CAST(:work_queues AS bigint[])) AS taken (gshare, workqueue_id)
    WHERE taken.gshare IS NOT DISTINCT FROM t.gshare AND taken.workqueue_id IS NOT DISTINCT FROM t.workqueue_id)"""
_TASK_COLUMNS = ("jeditaskid", "ramcount", "frozentime", *TASK_TEXTS, *TASK_NUMBERS)
_PICKED = {
    "frozentime": "extract(epoch FROM frozentime)::float8",
    "status": f"CASE WHEN status = '{WAITING}' AND :waiting THEN oldstatus ELSE status END",
}
_DATASET_COLUMNS = (
    "jeditaskid",
    "datasetid",
    "masterid",
    "datasetname",
    "type",
    "status",
    "state",
    "site",
    "attributes",
    "nfiles",
    "nfilestobeused",
    "nfilesused",
    "nfileswaiting",
    "creationtime",
    "modificationtime",
)
_FILE_COLUMNS = (
    "jeditaskid",
    "datasetid",
    "fileid",
    "lfn",
    "status",
    "fsize",
    "nevents",
    "startevent",
    "endevent",
    "boundaryid",
    "lumiblocknr",
    "ramcount",
    "attemptnr",
    "maxattempt",
    "failedattempt",
    "maxfailure",
)
TASK_ROWS = PandaColumns("jedi_tasks", (*_TASK_COLUMNS, "oldstatus"))
DATASET_ROWS = PandaColumns("jedi_datasets", _DATASET_COLUMNS)
FILE_ROWS = PandaColumns("jedi_dataset_contents", _FILE_COLUMNS)
#: The packed columns, in the order of the fields of FileTable.
_PACKED = (
    "fileid",
    "lfn_hash",
    "fsize",
    "nevents",
    "startevent",
    "endevent",
    "boundaryid",
    "lumiblocknr",
    "ramcount",
    "attemptnr",
)


def _columns(rows: Sequence[Sequence[Any]], number: int) -> list[tuple[Any, ...]]:
    """Transpose rows that have ``number`` columns."""
    return list(zip(*rows, strict=True)) or [()] * number


def read_tasks(connection: sa.Connection, catalogue: TableCatalogue, selection: WorkSelection) -> TaskTable:
    """The selected tasks in brokerage order: priority descending (without one last), then task id."""
    source = catalogue.needed(TASK_ROWS)
    expressions = [_PICKED.get(name, name) for name in _TASK_COLUMNS]
    # only names of columns are inserted; every value is a parameter
    query = (
        f"SELECT {', '.join(expressions)} FROM {source} AS t "  # noqa: S608
        "WHERE (status = ANY(:statuses) OR (:waiting AND status = :waits AND oldstatus = ANY(:statuses))) "
        "AND (CAST(:vo AS text) IS NULL OR vo = :vo) "
        "AND coalesce(prodsourcelabel = ANY(:labels), false) <> :excluded "
        "AND (CAST(:ids AS bigint[]) IS NULL OR jeditaskid = ANY(:ids)) "
        "AND (nucleus IS NOT NULL OR NOT :with_nucleus) "
        f"{'' if selection.shares is None else _OF_SHARES} "
        "ORDER BY currentpriority DESC NULLS LAST, jeditaskid"
    )
    values: dict[str, object] = {
        "statuses": list(selection.statuses),
        "vo": selection.vo,
        "labels": list(selection.labels),
        "excluded": selection.labels_excluded,
        "ids": None if selection.task_ids is None else array_of(selection.task_ids),
        "with_nucleus": selection.with_nucleus,
        "waiting": selection.waiting,
        "waits": WAITING,
    }
    if selection.shares is not None:
        values["shares"] = [share.gshare for share in selection.shares]
        values["work_queues"] = [share.workqueue_id for share in selection.shares]
    columns = _columns(connection.execute(sa.text(query), values).all(), len(_TASK_COLUMNS))
    first_number = 3 + len(TASK_TEXTS)
    return TaskTable(
        np.array(columns[0], dtype=np.int64),
        floats(columns[1]),
        floats(columns[2]),
        {name: texts(columns[3 + index]) for index, name in enumerate(TASK_TEXTS)},
        {name: floats(columns[first_number + index]) for index, name in enumerate(TASK_NUMBERS)},
    )


def read_input_datasets(connection: sa.Connection, catalogue: TableCatalogue, tasks: TaskTable) -> DatasetTable:
    """All input datasets of the tasks, ordered by task and dataset id."""
    source = catalogue.needed(DATASET_ROWS)
    timed = {"creationtime", "modificationtime"}
    expressions = [f"extract(epoch FROM d.{c})::float8" if c in timed else f"d.{c}" for c in _DATASET_COLUMNS[1:]]
    query = (
        f"SELECT t.position - 1, {', '.join(expressions)} "  # noqa: S608
        "FROM unnest(CAST(:ids AS bigint[])) WITH ORDINALITY AS t (jeditaskid, position) "
        f"JOIN {source} AS d ON d.jeditaskid = t.jeditaskid "
        "WHERE d.type = ANY(:types) ORDER BY t.position, d.datasetid"
    )
    values = {"ids": array_of(tasks.jeditaskid.tolist()), "types": list(INPUT_FAMILIES)}
    columns = _columns(connection.execute(sa.text(query), values).all(), len(_DATASET_COLUMNS))

    def text(position: int) -> Texts:
        return texts(columns[position])

    def number(position: int) -> Floats:
        return floats(columns[position])

    masters = [-1 if value is None else value for value in columns[2]]
    return DatasetTable(
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.int64),
        np.array(masters, dtype=np.int64),
        name=text(3),
        type=text(4),
        status=text(5),
        state=text(6),
        site=text(7),
        attributes=text(8),
        nfiles=number(9),
        nfilestobeused=number(10),
        nfilesused=np.nan_to_num(number(11)),  # a counter that was never written has counted nothing
        nfileswaiting=number(12),
        creationtime_s=number(13),
        modificationtime_s=number(14),
    )


def read_ready_files(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    tasks: TaskTable,
    datasets: DatasetTable,
    requests: FileRequests,
    files_in_all: int | None = None,
) -> ReadFiles:
    """The ready files of the requests, in order, up to ``files_in_all`` in total (``None``: all).

    The last request that is served may get fewer files than requested; later ones are not served.
    """
    tables: list[NDArray[np.int64]] = []
    sizes: list[Ints] = []
    zeros: list[bool] = []
    left = files_in_all
    with Database.raw(connection).cursor(binary=True) as cursor:
        for start in range(0, len(requests), _DATASETS_AT_ONCE):
            if left is not None and left <= 0:
                break
            chosen = slice(start, start + _DATASETS_AT_ONCE)
            lumi = bool(requests.by_lumi[chosen].any())
            split = bool((requests.by_ramcount[chosen] & ~requests.is_master[chosen]).any())
            query = _files_query(catalogue, lumi=lumi, split=split)
            rows = cursor.execute(query, _request_values(tasks, datasets, requests, chosen)).fetchall()
            table, size = tables_of([row[1] for row in rows], len(_PACKED))
            if left is not None:
                size = _served(size, left)
                left -= int(size.sum())
            tables.append(table[: size.sum()])
            sizes.append(size)
            zeros += [bool(row[0]) for row in rows[: len(size)]]
    offsets = np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *sizes]))
    whole = np.concatenate([np.empty((0, len(_PACKED)), dtype=np.int64), *tables])
    return ReadFiles(FileTable(*np.ascontiguousarray(whole.T)), offsets, np.array(zeros, dtype=np.bool_))


def _served(size: Ints, left: int) -> Ints:
    """The number of files for each request that is served, given that ``left`` files (more than none) may be taken.

    >>> _served(np.array([3, 4, 0, 5]), 5).tolist()
    [3, 2]
    """
    before = np.cumsum(size) - size
    served: Ints = np.minimum(size, left - before)[before < left]
    return served


def _request_values(tasks: TaskTable, datasets: DatasetTable, requests: FileRequests, chosen: slice) -> dict[str, str]:
    dataset = requests.dataset[chosen]
    return {
        "tasks": array_of(tasks.jeditaskid[datasets.task[dataset]].tolist()),
        "datasets": array_of(datasets.datasetid[dataset].tolist()),
        "limits": array_of(requests.limit[chosen].tolist()),
        "lumi": array_of(requests.by_lumi[chosen].tolist()),
        "masters": array_of(requests.is_master[chosen].tolist()),
        "by_ramcount": array_of(requests.by_ramcount[chosen].tolist()),
    }


def _files_query(catalogue: TableCatalogue, *, lumi: bool, split: bool) -> bytes:
    """The query for one row per request: whether ramcount 0 occurs, and its files in order as a packed table.

    The file name is hashed on the server, because only the equality of names matters here.

    Args:
        catalogue: the tables of the database.
        lumi: whether some request orders by lumi block and name.
        split: whether some request limits the files of each ramcount, so that they have to be numbered.
    """
    source = catalogue.needed(FILE_ROWS)
    packed = ", ".join(f"coalesce(CAST({name} AS bigint), {NULL_INTEGER + 1} - 1)" for name in _PACKED)
    ram = "CASE WHEN r.by_ramcount THEN coalesce(f.ramcount, 0) ELSE 0 END"
    names = 'CASE WHEN r.lumi THEN f.lumiblocknr END NULLS FIRST, CASE WHEN r.lumi THEN f.lfn END COLLATE "C",'
    order = f"{ram}, {names if lumi else ''} f.fileid"
    ready = f"""
        SELECT f.*, coalesce(hashtextextended(f.lfn, 0), f.fileid) AS lfn_hash
        FROM {source} AS f
        WHERE f.jeditaskid = r.jeditaskid AND f.datasetid = r.datasetid AND f.status = 'ready'
          AND (f.maxattempt IS NULL OR f.attemptnr < f.maxattempt)
          AND (f.maxfailure IS NULL OR f.failedattempt < f.maxfailure)
    """  # noqa: S608
    taken = f"SELECT f.* FROM ({ready}) AS f ORDER BY {order} LIMIT r.wanted"  # noqa: S608
    if split:
        group = f"CASE WHEN r.is_master THEN 0 ELSE {ram} END"
        taken = f"""
            SELECT f.* FROM (
                SELECT f.*, row_number() OVER (PARTITION BY {group} ORDER BY {order}) AS rank FROM ({ready}) AS f
            ) AS f WHERE f.rank <= r.wanted ORDER BY {order}
        """  # noqa: S608
    return f"""
    SELECT packed.*
    FROM unnest(%(tasks)s::bigint[], %(datasets)s::bigint[], %(limits)s::bigint[], %(lumi)s::boolean[],
                %(masters)s::boolean[], %(by_ramcount)s::boolean[])
         WITH ORDINALITY AS r (jeditaskid, datasetid, wanted, lumi, is_master, by_ramcount, position)
    CROSS JOIN LATERAL (
        SELECT CASE WHEN bool_or(ramcount IS NULL) AND NOT coalesce(bool_or(ramcount = 0), false)
                    THEN EXISTS (SELECT FROM ({ready}) AS f WHERE f.ramcount = 0)
                    ELSE coalesce(bool_or(ramcount = 0), false) END,
               array_send(array_agg(ARRAY[{packed}]))
        FROM ({taken}) AS taken
    ) AS packed
    ORDER BY r.position
    """.encode()  # noqa: S608
