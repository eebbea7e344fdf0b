from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.panda_columns import ColumnsChanged
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_reads import WorkSelection, read_input_datasets, read_ready_files, read_tasks
from broker.store.reads.task_states import ShareOfTasks
from broker.work.chunks import FileRequests, ReadFiles
from broker.work.input_files import NULL_INTEGER
from tests.store.input_rows import Rows, dataset, file, reading, task

TASKS: Rows = [
    task(1, currentpriority=100, gshare=None, workqueue_id=None),
    task(2, currentpriority=900, gshare="Simulation", workqueue_id=5),
    task(3, currentpriority=None, gshare="Simulation", workqueue_id=None),
    task(4, currentpriority=900, gshare=None, workqueue_id=5),
    task(5, prodsourcelabel="user"),
    task(6, prodsourcelabel=None),
    task(7, status="pending"),
    task(8, vo="other"),
    task(9, nucleus=None, status="scouting"),
]


SELECTIONS: list[tuple[WorkSelection, list[int]]] = [
    (WorkSelection(), [2, 4, 6, 8, 9, 1, 3]),
    (WorkSelection(vo="atlas"), [2, 4, 6, 9, 1, 3]),
    (WorkSelection(with_nucleus=True), [2, 4, 6, 8, 1, 3]),
    (WorkSelection(labels_excluded=False), [5]),
    (WorkSelection(labels=("managed",), labels_excluded=False, vo="atlas"), [2, 4, 9, 1, 3]),
    (WorkSelection(statuses=("pending",)), [7]),
    (WorkSelection(task_ids=(3, 4, 5, 99)), [4, 3]),
    (WorkSelection(task_ids=()), []),
    (WorkSelection(shares=(ShareOfTasks("Simulation", 5), ShareOfTasks(None, None))), [2, 6, 8, 9, 1]),
    (WorkSelection(shares=()), []),
]


def test_a_selection_determines_the_tasks_and_their_order(shared_database: Database) -> None:
    with reading(shared_database, jedi_tasks=TASKS) as (connection, catalogue):
        for selection, expected in SELECTIONS:
            task_ids = read_tasks(connection, catalogue, selection).jeditaskid.tolist()
            assert task_ids == expected, selection


def test_columns_of_tasks(shared_database: Database) -> None:
    row = task(
        1,
        ramcount=2000,
        frozentime="2026-08-01T00:00:10",
        splitrule="NF=1",
        cputime=None,
        walltimeunit='a"%\n',
        diskio=7,
    )
    with reading(shared_database, jedi_tasks=[row]) as (connection, catalogue):
        tasks = read_tasks(connection, catalogue, WorkSelection())
    assert tasks.ramcount_mb.tolist() == [2000.0]
    assert tasks.frozentime_s.tolist() == [1785542410.0]
    assert tasks.texts["splitrule"].tolist() == ["NF=1"]
    assert tasks.texts["walltimeunit"].tolist() == ['a"%\n']
    assert tasks.texts["site"].tolist() == [None]
    assert np.isnan(tasks.numbers["cputime"]).tolist() == [True]
    assert tasks.numbers["diskio"].tolist() == [7.0]


def test_input_datasets_are_ordered_by_task_and_id(shared_database: Database) -> None:
    datasets: Rows = [
        dataset(31, 2),
        dataset(12, 1, type="trn_log", attributes="nosplit", masterid=11, modificationtime="2026-08-01T00:00:00"),
        dataset(11, 1, nfiles=None, nfilesused=None),
        dataset(13, 1, type="output"),
        dataset(99, 3),
    ]
    tasks: Rows = [task(1, currentpriority=1), task(2, currentpriority=2)]
    with reading(shared_database, jedi_tasks=tasks, jedi_datasets=datasets) as (connection, catalogue):
        datasets_read = read_input_datasets(connection, catalogue, read_tasks(connection, catalogue, WorkSelection()))
    assert datasets_read.task.tolist() == [0, 1, 1]
    assert datasets_read.datasetid.tolist() == [31, 11, 12]
    assert datasets_read.masterid.tolist() == [-1, -1, 11]
    assert datasets_read.attributes.tolist() == [None, None, "nosplit"]
    assert datasets_read.modificationtime_s[2] == 1785542400.0
    np.testing.assert_array_equal(datasets_read.nfiles, [100, np.nan, 100])
    assert datasets_read.nfilesused[1] == 0  # no file is counted yet


def files_of(
    shared_database: Database,
    rows: Rows,
    limit: int = 100,
    *,
    lumi: bool = False,
    master: bool = True,
    by_ramcount: bool = True,
    in_all: int | None = None,
    datasets: int = 1,
) -> ReadFiles:
    datasets_rows = [dataset(10 + number) for number in range(datasets)]
    tables = {"jedi_tasks": [task()], "jedi_datasets": datasets_rows, "jedi_dataset_contents": rows}
    flags = np.ones(datasets, dtype=np.bool_)
    requests = FileRequests(
        np.arange(datasets), np.full(datasets, limit), flags & lumi, flags & master, flags & by_ramcount
    )
    with reading(shared_database, **tables) as (connection, catalogue):
        tasks = read_tasks(connection, catalogue, WorkSelection())
        input_datasets = read_input_datasets(connection, catalogue, tasks)
        return read_ready_files(connection, catalogue, tasks, input_datasets, requests, in_all)


READINESS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"status": "picked"}, False),
    ({"status": None}, False),
    ({"attemptnr": 2, "maxattempt": 3}, True),
    ({"attemptnr": 3, "maxattempt": 3}, False),
    ({"attemptnr": None, "maxattempt": 3}, False),
    ({"attemptnr": None, "maxattempt": None}, True),
    ({"failedattempt": 2, "maxfailure": 3}, True),
    ({"failedattempt": 3, "maxfailure": 3}, False),
    ({"failedattempt": None, "maxfailure": 3}, False),
    ({"failedattempt": 9, "maxfailure": None}, True),
]


def test_readiness_depends_on_status_attempts_and_failures(shared_database: Database) -> None:
    rows = [file(number, **columns) for number, (columns, _) in enumerate(READINESS)]
    file_ids = files_of(shared_database, rows).files.fileid.tolist()
    assert file_ids == [number for number, (_, ready) in enumerate(READINESS) if ready]


def test_columns_of_files(shared_database: Database) -> None:
    row = file(5, fsize=None, startevent=0, endevent=-1, boundaryid=-7, lumiblocknr=2**40, ramcount=None, attemptnr=2)
    files = files_of(shared_database, [row]).files
    assert files.fsize_bytes.tolist() == [NULL_INTEGER]
    assert (files.nevents.tolist(), files.startevent.tolist(), files.endevent.tolist()) == ([100], [0], [-1])
    assert (files.boundaryid.tolist(), files.lumiblocknr.tolist()) == ([-7], [2**40])
    assert (files.ramcount_mb.tolist(), files.attemptnr.tolist()) == ([NULL_INTEGER], [2])


def test_equal_names_have_equal_hashes(shared_database: Database) -> None:
    rows = [file(1, lfn="a"), file(2, lfn="b"), file(3, lfn="a"), file(4, lfn=None), file(5, lfn=None)]
    first, second, third, *without = files_of(shared_database, rows).files.lfn_hash.tolist()
    assert first == third != second
    assert without[0] != without[1]


RAMS: list[int | None] = [500, None, 0, 500, 0]


@pytest.mark.parametrize(
    ("limit", "options", "expected"),
    [
        (5, {}, [2, 3, 5, 1, 4]),
        (4, {}, [2, 3, 5, 1]),
        (0, {}, []),
        (1, {"master": False}, [2, 1]),
        (2, {"master": False}, [2, 3, 1, 4]),
        (3, {"master": False, "by_ramcount": False}, [1, 2, 3]),
    ],
)
def test_order_and_number_of_files(
    shared_database: Database, limit: int, options: dict[str, Any], expected: list[int]
) -> None:
    rows = [file(number + 1, ramcount=ram) for number, ram in enumerate(RAMS)]
    assert files_of(shared_database, rows, limit, **options).files.fileid.tolist() == expected


def test_order_by_lumi_block_and_name(shared_database: Database) -> None:
    rows = [
        file(1, lumiblocknr=7, lfn="b"),
        file(2, lumiblocknr=7, lfn="B"),
        file(3, lumiblocknr=None, lfn="z"),
        file(4, lumiblocknr=3, lfn="c"),
        file(5, lumiblocknr=3, lfn="a", ramcount=100),
    ]
    assert files_of(shared_database, rows, lumi=True).files.fileid.tolist() == [3, 4, 2, 1, 5]
    assert files_of(shared_database, rows, lumi=True, master=False).files.fileid.tolist() == [3, 4, 2, 1, 5]
    assert files_of(shared_database, rows).files.fileid.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("rams", "limit", "zero"),
    [
        ([None, None], 9, False),
        ([None, 0], 9, True),
        ([None, 0], 1, True),
        ([0], 9, True),
        ([500], 9, False),
        ([], 9, False),
    ],
)
def test_ramcount_zero_is_detected_beyond_the_limit(
    shared_database: Database, rams: list[int | None], limit: int, zero: bool
) -> None:
    rows = [file(number + 1, ramcount=ram) for number, ram in enumerate(rams)]
    assert files_of(shared_database, rows, limit).has_zero.tolist() == [zero]


@pytest.mark.parametrize(
    ("in_all", "offsets"),
    [(None, [0, 2, 2, 5]), (5, [0, 2, 2, 5]), (4, [0, 2, 2, 4]), (2, [0, 2]), (1, [0, 1]), (0, [0])],
)
def test_the_limit_of_a_cycle_cuts_the_files(shared_database: Database, in_all: int | None, offsets: list[int]) -> None:
    rows = [file(1, 10), file(2, 10), file(3, 12), file(4, 12), file(5, 12)]
    read_files = files_of(shared_database, rows, in_all=in_all, datasets=3)
    assert read_files.offsets.tolist() == offsets
    assert read_files.files.fileid.tolist() == [1, 2, 3, 4, 5][: offsets[-1]]
    assert len(read_files) == len(read_files.has_zero)


def test_more_datasets_than_fit_into_one_query(shared_database: Database) -> None:
    rows = [file(number + 1, 10 + number) for number in range(450)]
    read_files = files_of(shared_database, rows, datasets=450)
    assert read_files.files.fileid.tolist() == list(range(1, 451))
    assert len(read_files) == 450


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("jedi_tasks", "diskio"),
        ("jedi_tasks", "splitrule"),
        ("jedi_datasets", "nfileswaiting"),
        ("jedi_dataset_contents", "lumiblocknr"),
    ],
)
def test_a_missing_column_is_rejected_by_name(make_database: Callable[..., Database], table: str, column: str) -> None:
    database = make_database()
    tables: dict[str, Rows] = {
        "jedi_tasks": [task(splitrule="NF=2")],
        "jedi_datasets": [dataset()],
        "jedi_dataset_contents": [file(1), file(2)],
    }
    with reading(database, **tables):
        pass
    panda = database.names.panda
    with database.begin() as connection:
        connection.execute(sa.text(f'ALTER TABLE "{panda}".{table} RENAME COLUMN {column} TO other'))
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        with pytest.raises(ColumnsChanged, match=f"column {table}.{column} is gone"):
            _read_all(connection, catalogue)


def _read_all(connection: sa.Connection, catalogue: TableCatalogue) -> None:
    tasks = read_tasks(connection, catalogue, WorkSelection())
    datasets = read_input_datasets(connection, catalogue, tasks)
    flags = np.ones(1, dtype=np.bool_)
    requests = FileRequests(np.zeros(1, dtype=np.int64), np.array([9]), flags, flags, flags)
    read_ready_files(connection, catalogue, tasks, datasets, requests)
