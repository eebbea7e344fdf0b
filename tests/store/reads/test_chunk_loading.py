from __future__ import annotations

import numpy as np

from broker.store.connection.database import Database
from broker.store.reads.chunk_loading import load_work
from broker.store.reads.chunk_reads import WorkSelection
from broker.work.assemble import CycleWork
from broker.work.job_model import CutLimits
from tests.store.input_rows import Rows, dataset, file, reading, replica, task


def load(shared_database: Database, selection: WorkSelection | None = None, **tables: Rows) -> CycleWork:
    with reading(shared_database, **tables) as (connection, catalogue):
        return load_work(connection, catalogue, selection or WorkSelection())


def chunks(work: CycleWork) -> list[tuple[int, int, float, int]]:
    table = work.work.chunks
    columns = (table.jeditaskid, table.datasetid, table.ramcount, table.n_files)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_an_empty_database_has_no_work(shared_database: Database) -> None:
    work = load(shared_database)
    assert (len(work.work.chunks), len(work.work.inputs), len(work.work.replicas), work.work.dropped_rows) == (
        0,
        0,
        0,
        (),
    )


def test_tasks_without_datasets_or_ready_files_have_no_chunk(shared_database: Database) -> None:
    work = load(
        shared_database,
        jedi_tasks=[task(1), task(2), task(3)],
        jedi_datasets=[dataset(20, 2), dataset(30, 3)],
        jedi_dataset_contents=[file(1, 20, 2, status="picked"), file(2, 30, 3)],
    )
    assert chunks(work) == [(3, 30, 0.0, 1)]
    assert work.work.dropped_rows == ()


def test_chunks_come_in_brokerage_order_with_their_inputs_and_replicas(shared_database: Database) -> None:
    work = load(
        shared_database,
        jedi_tasks=[task(1, splitrule="NF=2"), task(2, currentpriority=900)],
        jedi_datasets=[
            dataset(10, 1, nfiles=4),
            dataset(11, 1, masterid=10, attributes="np=1", datasetname="seq_number", type="pseudo_input"),
            dataset(20, 2, nfiles=1),
        ],
        jedi_dataset_contents=[
            *(file(number, 10, 1, ramcount=2000 if number == 4 else 0) for number in (1, 2, 3, 4)),
            *(file(number, 11, 1, fsize=0) for number in (11, 12)),
            file(20, 20, 2),
        ],
        dataset_replicas=[replica("ds10", "HERE", 4), replica("ds10", "PART", 2, 4)],
        dataset_metadata=[{"scope": "mc", "name": "ds10", "rule_groupings": ["ALL"]}],
    )
    assert chunks(work) == [(2, 20, 0.0, 1), (1, 10, 0.0, 3), (1, 10, 2000.0, 1)]
    inputs, replicas = work.work.inputs, work.work.replicas
    assert inputs.chunk.tolist() == [0, 1, 1, 2, 2]
    assert inputs.name.tolist() == ["ds20", "ds10", "seq_number", "ds10", "seq_number"]
    assert inputs.is_pseudo.tolist() == [False, False, True, False, True]
    assert inputs.distributed.tolist() == [True, False, True, False, True]
    assert inputs.catalogued.tolist() == [False, True, False, True, False]
    replica_rows = zip(replicas.input.tolist(), replicas.rse.tolist(), replicas.chunk_files.tolist(), strict=True)
    assert list(replica_rows) == [(1, "HERE", 3), (1, "PART", 2), (3, "HERE", 1), (3, "PART", 0)]
    assert replicas.holds_all.tolist() == [True, False, True, False]
    assert work.work.chunks.total_files.tolist() == [1, 3, 1]
    jobs = work.cutter(1).cut(9, CutLimits())
    assert work.inputs.files.fileid[jobs.first].tolist() == [1, 3]
    assert work.inputs.files.fileid[jobs.extra].tolist() == [11, 12]


def test_a_container_has_the_replicas_of_its_constituents(shared_database: Database) -> None:
    work = load(
        shared_database,
        jedi_tasks=[task()],
        jedi_datasets=[dataset(10, datasetname="mc:box/", nfiles=2)],
        jedi_dataset_contents=[file(1), file(2)],
        container_contents=[
            {"scope": "mc", "name": "box", "child_scope": "mc", "child_name": child} for child in ("a", "b")
        ],
        dataset_replicas=[replica("a", "R", 1), replica("b", "R", 1), replica("a", "S", 1)],
    )
    replicas = work.work.replicas
    assert replicas.rse.tolist() == ["R", "S"]
    assert (replicas.complete.tolist(), replicas.found.tolist(), replicas.total.tolist()) == (
        [True, False],
        [2, 1],
        [2, 2],
    )
    assert replicas.chunk_files.tolist() == [2, 1]
    assert work.work.inputs.catalogued.tolist() == [True]


def test_work_left_for_the_next_cycle_is_reported(shared_database: Database) -> None:
    work = load(
        shared_database,
        WorkSelection(files_of_a_cycle=3),
        jedi_tasks=[task(1, currentpriority=900), task(2), task(3)],
        jedi_datasets=[dataset(10, 1), dataset(20, 2), dataset(30, 3)],
        jedi_dataset_contents=[
            file(number, owning_task * 10, owning_task)
            for owning_task in (1, 2, 3)
            for number in (owning_task * 5, owning_task * 5 + 1)
        ],
    )
    assert chunks(work) == [(1, 10, 0.0, 2), (2, 20, 0.0, 1)]
    assert [(entry.identifier, entry.code) for entry in work.work.dropped_rows] == [("30", "files_of_a_cycle")]


def test_the_number_of_files_of_a_dataset_is_limited(shared_database: Database) -> None:
    tables: dict[str, Rows] = {
        "jedi_tasks": [task()],
        "jedi_datasets": [dataset(10, nfilestobeused=5, nfilesused=1)],
        "jedi_dataset_contents": [file(number) for number in range(1, 10)],
    }
    assert chunks(load(shared_database, **tables)) == [(1, 10, 0.0, 4)]
    assert chunks(load(shared_database, WorkSelection(files_of_a_dataset=3), **tables)) == [(1, 10, 0.0, 3)]


def test_malformed_rules_and_attributes_are_reported_and_the_task_is_still_used(shared_database: Database) -> None:
    work = load(
        shared_database,
        jedi_tasks=[task(splitrule="NF=2,what?", ramunit="MiB")],
        jedi_datasets=[dataset(10, attributes="np=many")],
        jedi_dataset_contents=[file(1)],
    )
    assert len(work.work.chunks) == 1
    assert [(entry.source, entry.identifier, entry.code) for entry in work.work.dropped_rows] == [
        ("jedi_tasks.splitrule", "1", "split_rule"),
        ("jedi_tasks.ramunit", "1", "unknown_unit"),
        ("jedi_datasets.attributes", "10", "dataset_attribute"),
    ]


def test_names_with_special_characters_are_preserved(shared_database: Database) -> None:
    name = "mc:quote'\"%s\n\\;drop table x; --"
    work = load(
        shared_database,
        jedi_tasks=[task()],
        jedi_datasets=[dataset(10, datasetname=name)],
        jedi_dataset_contents=[file(1, lfn=name)],
        dataset_replicas=[replica(name[3:], "R'%", 100)],
    )
    assert work.work.inputs.name.tolist() == [name[3:]]
    assert work.work.replicas.rse.tolist() == ["R'%"]
    assert np.asarray(work.work.replicas.complete).tolist() == [True]
