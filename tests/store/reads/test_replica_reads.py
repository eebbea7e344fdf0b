from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from broker.store.connection.database import Database
from broker.store.reads.chunk_reads import WorkSelection, read_input_datasets, read_tasks
from broker.store.reads.replica_reads import read_catalogue, read_named_files, read_rank_limits
from broker.work.catalogue import Catalogue, Did
from tests.store.input_rows import Rows, dataset, file, reading, replica, task


def catalogue_of(shared_database: Database, *dids: Did, **tables: Rows) -> Catalogue:
    with reading(shared_database, **tables) as (connection, catalogue):
        return read_catalogue(connection, catalogue, dids)


def test_only_replicas_of_the_requested_dids_are_read(shared_database: Database) -> None:
    rows = [replica("a", "R2", 3, 5), replica("a", "R1", 5), replica("b", "R1", 1), replica("a", "R1", 1, scope="x")]
    catalogue = catalogue_of(shared_database, ("mc", "a"), ("mc", "none"), dataset_replicas=rows)
    assert catalogue.replicas.did.tolist() == [0, 0]
    assert catalogue.replicas.rse.tolist() == ["R1", "R2"]
    assert catalogue.replicas.available_files.tolist() == [5, 3]
    assert catalogue.replicas.total_files.tolist() == [5, 5]


def test_tape_flag(shared_database: Database) -> None:
    cases: list[tuple[bool | None, str | None, bool]] = [
        (True, "N", False),
        (False, "Y", True),
        (None, "Y", True),
        (None, "N", False),
        (True, "", True),  # the record has no value
        (True, None, True),  # no record
        (None, None, False),
    ]
    endpoints: Rows = [
        {"ddm_endpoint_name": f"R{number}", "is_tape": flag}
        for number, (_, flag, _) in enumerate(cases)
        if flag is not None
    ]
    rows = [replica("a", f"R{number}", 1, is_tape=is_tape) for number, (is_tape, _, _) in enumerate(cases)]
    catalogue = catalogue_of(shared_database, ("mc", "a"), dataset_replicas=rows, ddm_endpoint=endpoints)
    assert catalogue.replicas.is_tape.tolist() == [tape for _, _, tape in cases]


def test_virtual_placement(shared_database: Database) -> None:
    rows = [replica("a", f"R{number}", None, state=state) for number, state in enumerate(("VP", "AVAILABLE", None))]
    catalogue = catalogue_of(shared_database, ("mc", "a"), dataset_replicas=rows)
    assert catalogue.replicas.is_vp.tolist() == [True, False, False]
    assert math.isnan(catalogue.replicas.available_files[0])


def test_rules(shared_database: Database) -> None:
    cases: list[tuple[Any, tuple[str, ...]]] = [
        (["NONE"], ("NONE",)),
        (["ALL", "NONE"], ("ALL", "NONE")),
        ([], ()),
        (None, ()),
        ({"bad": 1}, ()),
        ("ALL", ()),
    ]
    rows = [
        {"scope": "mc", "name": f"d{number}", "length": number, "rule_groupings": groupings}
        for number, (groupings, _) in enumerate(cases)
    ]
    dids = [("mc", f"d{number}") for number in range(len(cases))]
    catalogue = catalogue_of(shared_database, *dids, ("mc", "unknown"), dataset_metadata=rows)
    assert catalogue.groupings == {number: expected for number, (_, expected) in enumerate(cases)}
    assert catalogue.lengths == {number: float(number) for number in range(len(cases))}


@pytest.mark.parametrize("name", ["box", "box/"])
def test_constituents_of_a_container_are_looked_up_too(shared_database: Database, name: str) -> None:
    parts = [{"scope": "mc", "name": name, "child_scope": "mc", "child_name": child} for child in ("b", "a")]
    rows = [replica("a", "R", 1), replica("b", "R", 2), replica(name, "S", 3)]
    catalogue = catalogue_of(
        shared_database, ("mc", "box"), ("mc", "a"), container_contents=parts, dataset_replicas=rows
    )
    assert catalogue.dids == (("mc", "box"), ("mc", "a"), ("mc", "b"))
    assert catalogue.parts == {0: (1, 2)}
    # a container has no replica itself
    own_replicas = [(0, "S")] if name == "box" else []
    replicas = sorted(zip(catalogue.replicas.did.tolist(), catalogue.replicas.rse.tolist(), strict=True))
    assert replicas == [*own_replicas, (1, "R"), (2, "R")]
    assert [row.identifier for row in catalogue.dropped_rows] == ([] if own_replicas else ["mc:box/ at S"])


def test_no_dids_give_an_empty_catalogue(shared_database: Database) -> None:
    catalogue = catalogue_of(shared_database)
    assert (catalogue.dids, catalogue.parts, len(catalogue.replicas.did)) == ((), {}, 0)


FILES = [file(fileid, status="ready" if fileid % 2 else "finished") for fileid in (30, 10, 20, 50, 40)]


def test_the_rank_counts_all_files_of_the_dataset(shared_database: Database) -> None:
    tables = {"jedi_tasks": [task()], "jedi_datasets": [dataset()], "jedi_dataset_contents": FILES}
    with reading(shared_database, **tables) as (connection, catalogue):
        tasks = read_tasks(connection, catalogue, WorkSelection())
        datasets = read_input_datasets(connection, catalogue, tasks)
        limits = read_rank_limits(connection, catalogue, tasks, datasets, [(0, 1), (0, 3), (0, 5), (0, 9)])
        assert limits == {(0, 1): 10, (0, 3): 30, (0, 5): 50, (0, 9): 50}
        assert read_rank_limits(connection, catalogue, tasks, datasets, []) == {}


def test_files_named_individually(shared_database: Database) -> None:
    rows = [file(1), file(2), file(3, scope="other"), file(4, status="finished"), file(5)]
    file_replicas = [
        {"scope": "mc", "name": name, "rse": rse}
        for name, rse in (("file1", "R"), ("file1", "S"), ("file3", "R"), ("file4", "R"), ("file5", "T"))
    ]
    tables = {"jedi_tasks": [task()], "jedi_datasets": [dataset()], "jedi_dataset_contents": rows}
    selected_datasets = np.array([0])
    with reading(shared_database, file_replicas=file_replicas, **tables) as (connection, catalogue):
        tasks = read_tasks(connection, catalogue, WorkSelection())
        datasets = read_input_datasets(connection, catalogue, tasks)
        named_files = read_named_files(connection, catalogue, tasks, datasets, selected_datasets)
        assert named_files == {0: {1: frozenset({"R", "S"}), 5: frozenset({"T"})}}
        assert read_named_files(connection, catalogue, tasks, datasets, selected_datasets[:0]) == {}
