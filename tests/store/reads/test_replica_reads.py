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


def answer(shared: Database, *dids: Did, **tables: Rows) -> Catalogue:
    with reading(shared, **tables) as (connection, catalogue):
        return read_catalogue(connection, catalogue, dids)


def test_replicas_of_the_dids_asked_for(shared: Database) -> None:
    rows = [replica("a", "R2", 3, 5), replica("a", "R1", 5), replica("b", "R1", 1), replica("a", "R1", 1, scope="x")]
    found = answer(shared, ("mc", "a"), ("mc", "none"), dataset_replicas=rows)
    assert found.replicas.did.tolist() == [0, 0]
    assert found.replicas.rse.tolist() == ["R1", "R2"]
    assert found.replicas.available_files.tolist() == [5, 3]
    assert found.replicas.total_files.tolist() == [5, 5]


def test_tape_flag(shared: Database) -> None:
    cases: list[tuple[bool | None, str | None, bool]] = [
        (True, "N", False),
        (False, "Y", True),
        (None, "Y", True),
        (None, "N", False),
        (True, "", True),  # the record does not say
        (True, None, True),  # there is no record
        (None, None, False),
    ]
    endpoints: Rows = [
        {"ddm_endpoint_name": f"R{at}", "is_tape": flag} for at, (_, flag, _) in enumerate(cases) if flag is not None
    ]
    rows = [replica("a", f"R{at}", 1, is_tape=own) for at, (own, _, _) in enumerate(cases)]
    found = answer(shared, ("mc", "a"), dataset_replicas=rows, ddm_endpoint=endpoints)
    assert found.replicas.is_tape.tolist() == [tape for _, _, tape in cases]


def test_virtual_placement(shared: Database) -> None:
    rows = [replica("a", f"R{at}", None, state=state) for at, state in enumerate(("VP", "AVAILABLE", None))]
    found = answer(shared, ("mc", "a"), dataset_replicas=rows)
    assert found.replicas.is_vp.tolist() == [True, False, False]
    assert math.isnan(found.replicas.available_files[0])


def test_rules(shared: Database) -> None:
    cases: list[tuple[Any, tuple[str, ...]]] = [
        (["NONE"], ("NONE",)),
        (["ALL", "NONE"], ("ALL", "NONE")),
        ([], ()),
        (None, ()),
        ({"bad": 1}, ()),
        ("ALL", ()),
    ]
    rows = [
        {"scope": "mc", "name": f"d{at}", "length": at, "rule_groupings": groupings}
        for at, (groupings, _) in enumerate(cases)
    ]
    dids = [("mc", f"d{at}") for at in range(len(cases))]
    found = answer(shared, *dids, ("mc", "unknown"), dataset_metadata=rows)
    assert found.groupings == {at: expected for at, (_, expected) in enumerate(cases)}
    assert found.lengths == {at: float(at) for at in range(len(cases))}


@pytest.mark.parametrize("name", ["box", "box/"])
def test_constituents_of_a_container_are_looked_up_too(shared: Database, name: str) -> None:
    parts = [{"scope": "mc", "name": name, "child_scope": "mc", "child_name": child} for child in ("b", "a")]
    rows = [replica("a", "R", 1), replica("b", "R", 2), replica(name, "S", 3)]
    found = answer(shared, ("mc", "box"), ("mc", "a"), container_contents=parts, dataset_replicas=rows)
    assert found.dids == (("mc", "box"), ("mc", "a"), ("mc", "b"))
    assert found.parts == {0: (1, 2)}
    # a container has no replica of its own
    own = [(0, "S")] if name == "box" else []
    places = sorted(zip(found.replicas.did.tolist(), found.replicas.rse.tolist(), strict=True))
    assert places == [*own, (1, "R"), (2, "R")]
    assert [row.identifier for row in found.dropped_rows] == ([] if own else ["mc:box/ at S"])


def test_nothing_asked_nothing_found(shared: Database) -> None:
    found = answer(shared)
    assert (found.dids, found.parts, len(found.replicas.did)) == ((), {}, 0)


FILES = [file(fileid, status="ready" if fileid % 2 else "finished") for fileid in (30, 10, 20, 50, 40)]


def test_rank_is_among_all_files_of_the_dataset(shared: Database) -> None:
    tables = {"jedi_tasks": [task()], "jedi_datasets": [dataset()], "jedi_dataset_contents": FILES}
    with reading(shared, **tables) as (connection, catalogue):
        tasks = read_tasks(connection, catalogue, WorkSelection())
        datasets = read_input_datasets(connection, catalogue, tasks)
        found = read_rank_limits(connection, catalogue, tasks, datasets, [(0, 1), (0, 3), (0, 5), (0, 9)])
        assert found == {(0, 1): 10, (0, 3): 30, (0, 5): 50, (0, 9): 50}
        assert read_rank_limits(connection, catalogue, tasks, datasets, []) == {}


def test_files_that_are_named_one_by_one(shared: Database) -> None:
    rows = [file(1), file(2), file(3, scope="other"), file(4, status="finished"), file(5)]
    named = [
        {"scope": "mc", "name": name, "rse": rse}
        for name, rse in (("file1", "R"), ("file1", "S"), ("file3", "R"), ("file4", "R"), ("file5", "T"))
    ]
    tables = {"jedi_tasks": [task()], "jedi_datasets": [dataset()], "jedi_dataset_contents": rows}
    wanted = np.array([0])
    with reading(shared, file_replicas=named, **tables) as (connection, catalogue):
        tasks = read_tasks(connection, catalogue, WorkSelection())
        datasets = read_input_datasets(connection, catalogue, tasks)
        found = read_named_files(connection, catalogue, tasks, datasets, wanted)
        assert found == {0: {1: frozenset({"R", "S"}), 5: frozenset({"T"})}}
        assert read_named_files(connection, catalogue, tasks, datasets, wanted[:0]) == {}
