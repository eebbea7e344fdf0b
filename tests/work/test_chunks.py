from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from broker.work.chunks import (
    ChunkTable,
    FileRequests,
    InputFiles,
    ReadFiles,
    form_chunks,
    master_mask,
    plan_masters,
    plan_secondaries,
    scout_mask,
    secondary_limit,
    uses_of,
)
from broker.work.input_files import DatasetUse, joined, parse_attributes
from broker.work.tasks import DatasetTable, TaskTable, split_rules_of
from tests.work.files_for_tests import dataset_table, file_table, task_table

Rows = list[dict[str, Any]]


def plan(tasks: Rows, datasets: Rows, per_dataset: int = 5000) -> list[tuple[int, int]]:
    """Dataset id and file limit of every master, in order."""
    table, task = dataset_table(datasets), task_table(tasks)
    requests = plan_masters(task, table, split_rules_of(task), per_dataset)
    return list(zip(table.datasetid[requests.dataset].tolist(), requests.limit.tolist(), strict=True))


@pytest.mark.parametrize(
    ("row", "is_master"),
    [
        ({}, True),
        *(({"type": kind}, True) for kind in ("pseudo_input", "pp_input", "trn_log", "trn_output")),
        ({"type": "output"}, False),
        ({"type": None}, False),
        ({"masterid": 5}, False),
        ({"status": None}, False),
        ({"status": "removed"}, False),
        ({"status": "defined"}, True),
        ({"nfilestobeused": 3, "nfilesused": 2}, True),
        ({"nfilestobeused": 3, "nfilesused": 3}, False),
        ({"nfilestobeused": None}, False),
        ({"nfilesused": None}, False),
    ],
)
def test_selection_of_master_datasets(row: dict[str, Any], is_master: bool) -> None:
    assert master_mask(dataset_table([row])).tolist() == [is_master]


def test_order_of_masters() -> None:
    rows: Rows = [
        {"task": 1, "datasetid": 9},
        {"task": 0, "datasetid": 5, "type": "input"},
        {"task": 0, "datasetid": 3, "type": "pseudo_input"},
        {"task": 0, "datasetid": 6, "type": "trn_output"},
        {"task": 0, "datasetid": 7, "type": "trn_log"},
    ]
    assert [datasetid for datasetid, _ in plan([{}, {}], rows)] == [7, 6, 3, 5, 9]


@pytest.mark.parametrize(
    ("task", "dataset", "limit"),
    [
        ({}, {"nfilestobeused": 12, "nfilesused": 2}, 10),
        ({}, {"nfilestobeused": 9000}, 5000),
        ({"usejumbo": "R"}, {"nfilestobeused": 12, "nfileswaiting": 3}, 9),
        ({"usejumbo": "P"}, {"nfilestobeused": 9000, "nfileswaiting": 3}, 4997),
        ({"usejumbo": "R"}, {"nfilestobeused": 12, "nfileswaiting": None}, 12),
        ({"usejumbo": "R"}, {"nfilestobeused": 2, "nfileswaiting": 3}, 0),
        ({"usejumbo": "L"}, {"nfilestobeused": 12}, 1),
        ({"usejumbo": "W"}, {"nfilestobeused": 12, "nfileswaiting": 3}, 12),
    ],
)
def test_number_of_master_files(task: dict[str, Any], dataset: dict[str, Any], limit: int) -> None:
    assert plan([task], [dataset]) == [(100, limit)]


@pytest.mark.parametrize(("rule", "by_lumi"), [("RL=1", True), ("OL=1", True), ("NF=1", False), (None, False)])
def test_files_in_order_of_lumi_blocks(rule: str | None, by_lumi: bool) -> None:
    tasks = task_table([{"splitrule": rule}])
    assert plan_masters(tasks, dataset_table([{}]), split_rules_of(tasks)).by_lumi.tolist() == [by_lumi]


@pytest.mark.parametrize(
    ("use", "limit"),
    [
        (DatasetUse(), 7),
        (DatasetUse(ratio=0.5), 4),
        (DatasetUse(ratio=2), 14),
        (DatasetUse(files_per_job=3), 21),
        (DatasetUse(nosplit=True), 10_000),
        (DatasetUse(event_ratio=1.5), 10_000),
    ],
)
def test_number_of_secondary_files(use: DatasetUse, limit: int) -> None:
    assert secondary_limit(use, 7) == limit


@pytest.mark.parametrize(
    ("row", "is_taken"),
    [
        ({}, True),
        ({"type": "pseudo_input"}, True),
        ({"type": "trn_log"}, False),
        ({"masterid": 101}, False),
        ({"task": 1}, False),
        ({"nfilestobeused": 5, "nfilesused": 5}, True),
        ({"nfilestobeused": 4, "nfilesused": 5}, False),
        ({"nfilestobeused": None}, False),
    ],
)
def test_selection_of_secondaries_of_a_master(row: dict[str, Any], is_taken: bool) -> None:
    tasks = task_table([{}, {}])
    table = dataset_table([{"datasetid": 100}, {"masterid": 100} | row])
    masters = plan_masters(tasks, table, split_rules_of(tasks))
    assert len(plan_secondaries(table, uses_of(table), masters, 1)) == int(is_taken)
    assert len(plan_secondaries(table, uses_of(table), masters, 0)) == 0


@pytest.mark.parametrize(
    ("rule", "rows", "scout"),
    [
        ("US=2", [{"nfiles": 10, "nfilestobeused": 5}], True),
        ("US=2", [{"nfiles": 10, "nfilestobeused": 10}], False),
        ("US=2", [{"nfiles": 10, "nfilestobeused": 10, "state": "mutable"}], True),
        ("US=2", [{"nfiles": 10, "nfilestobeused": 10}, {"nfiles": 10, "nfilestobeused": 9}], True),
        ("US=2", [{"nfiles": 10, "nfilestobeused": 10}, {"nfiles": 10, "nfilestobeused": 9, "masterid": 100}], False),
        ("US=2", [{"nfiles": 10, "nfilestobeused": 10}, {"nfiles": 9, "nfilestobeused": 1, "type": "trn_log"}], False),
        ("US=3", [{"nfiles": 10, "nfilestobeused": 5}], False),
        ("US=1", [{"nfiles": 10, "nfilestobeused": 5}], False),
        (None, [{"nfiles": 10, "nfilestobeused": 5}], False),
    ],
)
def test_scout_chunks(rule: str | None, rows: Rows, scout: bool) -> None:
    rules = split_rules_of(task_table([{"splitrule": rule}]))
    assert scout_mask(dataset_table(rows), rules, np.array([0])).tolist() == [scout]


def read_files_of(*requests: Rows, has_zero: list[bool] | None = None) -> ReadFiles:
    tables = [file_table(rows) for rows in requests]
    zeros = [any(row.get("ram", 0) == 0 for row in rows) for rows in requests] if has_zero is None else has_zero
    offsets = np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.int64)
    return ReadFiles(joined(tables), offsets, np.array(zeros, dtype=np.bool_))


def form(
    tasks: TaskTable, datasets: DatasetTable, master_files: ReadFiles, secondary_files: ReadFiles, limit: int = 5000
) -> tuple[ChunkTable, InputFiles]:
    rules, uses = split_rules_of(tasks), uses_of(datasets)
    masters = plan_masters(tasks, datasets, rules, limit)
    secondaries = plan_secondaries(datasets, uses, masters, len(master_files))
    return form_chunks(tasks, datasets, rules, uses, masters, master_files, secondaries, secondary_files)


NO_FILES = read_files_of()
NONE_RAM: dict[str, Any] = {"ram": None}


@pytest.mark.parametrize(
    ("rams", "has_zero", "chunks"),
    [
        ([0, 0, 0], None, [(0.0, 3)]),
        ([None, None], None, [(None, 2)]),
        ([None, None], True, [(0.0, 2)]),
        ([None, 0, None], None, [(0.0, 3)]),
        ([None, 2000, 4000, 4000], None, [(None, 1), (2000.0, 1), (4000.0, 2)]),
        ([0, 4000], None, [(0.0, 1), (4000.0, 1)]),
        ([], None, []),
    ],
)
def test_each_ramcount_has_its_own_chunk(
    rams: list[int | None], has_zero: bool | None, chunks: list[tuple[float | None, int]]
) -> None:
    files = read_files_of([{"ram": ram} for ram in rams], has_zero=None if has_zero is None else [has_zero])
    table, inputs = form(task_table([{}]), dataset_table([{}]), files, NO_FILES)
    sizes = [
        (None if np.isnan(ram) else float(ram), len(inputs.files_of(chunk)))
        for chunk, ram in enumerate(table.ramcount_mb)
    ]
    assert sizes == chunks


def test_chunks_of_several_masters_and_tasks_keep_their_order() -> None:
    datasets = dataset_table([{"task": 0}, {"task": 0, "type": "trn_log"}, {"task": 1}])
    table, inputs = form(
        task_table([{}, {"splitrule": "US=2"}]),
        datasets,
        read_files_of([{"ram": 0}], [{"ram": 0}, {"ram": 500}], [{"ram": 0}, {"ram": 0}]),
        NO_FILES,
    )
    assert table.task.tolist() == [0, 0, 0, 1]
    assert datasets.datasetid[table.dataset].tolist() == [101, 100, 100, 102]
    assert table.merging.tolist() == [True, False, False, False]
    assert [len(inputs.files_of(number)) for number in range(4)] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("jumbo", "flags"),
    [(None, [False, False]), ("W", [False, False]), ("R", [True, False]), ("P", [True, False]), ("L", [True])],
)
def test_the_first_chunk_of_a_master_is_the_jumbo_one(jumbo: str | None, flags: list[bool]) -> None:
    files = read_files_of([{"ram": 0}, {"ram": 500}])
    table, _ = form(task_table([{"usejumbo": jumbo}]), dataset_table([{}]), files, NO_FILES)
    assert table.jumbo.tolist() == flags


def secondaries_of(attributes: str | None, rows: Rows, limit: int = 5000) -> list[list[int]]:
    """File ids of the secondary in both chunks of a master that has one file of ramcount 0 and two of ramcount 500."""
    datasets = dataset_table([{"datasetid": 100}, {"masterid": 100, "attributes": attributes}])
    master = read_files_of([{"ram": 0}, {"ram": 500}, {"ram": 500}])
    _, inputs = form(task_table([{}]), datasets, master, read_files_of(rows), limit)
    return [inputs.files_of(inputs.inputs_of(chunk)[1]).fileid.tolist() for chunk in range(2)]


MIXED: Rows = [{"ram": None}, {"ram": 0}, {"ram": 0}, {"ram": 500}, {"ram": 500}, {"ram": 500}]


@pytest.mark.parametrize(
    ("attributes", "limit", "expected"),
    [
        (None, 3, [[1, 2, 3], [4, 5]]),
        (None, 5000, [[1, 2, 3], [4, 5, 6]]),
        ("np=2", 3, [[1, 2, 3], [4, 5, 6]]),
        ("ratio=0.5", 3, [[1, 2], [4]]),
        ("nosplit", 3, [[1, 2, 3], [4, 5, 6]]),
        ("nosplit,repeat", 3, [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]]),
        ("ru", 3, [[1, 2, 3], [1, 2]]),
    ],
)
def test_files_of_secondaries(attributes: str | None, limit: int, expected: list[list[int]]) -> None:
    assert secondaries_of(attributes, MIXED, limit) == expected


def test_the_chunks_of_a_later_master_share_its_limit() -> None:
    """The second master has 3 files in two chunks: the first chunk leaves two secondary files to the other one."""
    datasets = dataset_table([{"datasetid": 100}, {"datasetid": 101}, {"masterid": 101}])
    masters = read_files_of([{"ram": 0}] * 4, [{"ram": 0}, {"ram": 500}, {"ram": 500}])
    secondary = read_files_of([{"ram": 0}] * 5 + [{"ram": 500}] * 5)
    _, inputs = form(task_table([{}]), datasets, masters, secondary, 3)
    sizes = [[len(inputs.files_of(position)) for position in inputs.inputs_of(chunk)] for chunk in range(3)]
    assert sizes == [[4], [1, 3], [2, 2]]


def test_datasets_after_an_empty_secondary_are_not_read() -> None:
    datasets = dataset_table([{"datasetid": 100}, *({"masterid": 100} for _ in range(3))])
    master = read_files_of([{"ram": 0}, {"ram": 500}])
    secondary = read_files_of([{"ram": 0}, {"ram": 500}], [{"ram": 500}], [{"ram": 0}, {"ram": 500}])
    _, inputs = form(task_table([{}]), datasets, master, secondary)
    assert [inputs.dataset[inputs.chunk == chunk].tolist() for chunk in (0, 1)] == [[0, 1, 2], [0, 1, 2, 3]]
    assert len(inputs.files_of(2)) == 0


def test_requests_without_an_answer_have_no_chunk() -> None:
    datasets = dataset_table([{}, {}])
    table, _ = form(task_table([{}]), datasets, read_files_of([{"ram": 0}]), NO_FILES)
    assert table.dataset.tolist() == [0]


def test_no_tasks_give_no_chunks() -> None:
    table, inputs = form(task_table([]), dataset_table([]), NO_FILES, NO_FILES)
    assert (len(table), len(inputs)) == (0, 0)


def test_requests_have_a_length() -> None:
    empty = np.empty(0, dtype=np.int64)
    flags = np.empty(0, dtype=np.bool_)
    assert len(FileRequests(empty, empty, flags, flags, flags)) == 0


def test_uses_are_parsed_for_each_dataset() -> None:
    names = ("mc:a", "mc:b", "mc:seq_number", "pseudo_dataset", None)
    attributes = (None, "nosplit,repeat", "np=2", "np=x")
    kinds = ("input", "pseudo_input")
    rows = [
        {"name": name, "attributes": attribute, "type": kind}
        for name in names
        for attribute in attributes
        for kind in kinds
    ]
    table = dataset_table(2 * rows)
    assert uses_of(table) == 2 * tuple(parse_attributes(row["attributes"], row["name"], row["type"]) for row in rows)
