from __future__ import annotations

from typing import Any

import pytest

from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.task_rows import FIRST_TASK

Row = dict[str, Any]


@pytest.fixture
def rows_of_task(demo_facts: DemoFacts, demo_scenario: Row) -> Any:
    ids = {task.name: FIRST_TASK + index for index, task in enumerate(demo_facts.tasks)}

    def rows(table: str, name: str) -> list[Row]:
        return [row for row in demo_scenario["tables"][table] if row["jeditaskid"] == ids[name]]

    return rows


def _replicas(demo_scenario: Row, dataset: Row) -> dict[str, Row]:
    rows = demo_scenario["tables"]["dataset_replicas"]
    return {row["rse"]: row for row in rows if f"{row['scope']}:{row['name']}" == dataset["datasetname"]}


@pytest.mark.slow
def test_an_event_rule_makes_one_row_for_every_range_of_a_file(rows_of_task: Any) -> None:
    files = rows_of_task("jedi_dataset_contents", "ttbar_FullSim_23e")
    assert [(row["startevent"], row["endevent"]) for row in files[8:11]] == [(8000, 8999), (9000, 9999), (0, 999)]
    assert files[9]["lfn"] == files[0]["lfn"] != files[10]["lfn"]
    assert files[9]["fsize"] == files[0]["fsize"]


@pytest.mark.slow
def test_scouts_use_a_part_of_the_files(rows_of_task: Any) -> None:
    dataset = rows_of_task("jedi_datasets", "ttbar_scout_23e")[0]
    assert (dataset["nfiles"], dataset["nfilestobeused"], dataset["nfilesused"]) == (310, 10, 0)


def test_used_files_come_first_and_are_finished(rows_of_task: Any) -> None:
    dataset = rows_of_task("jedi_datasets", "Wenu_FullSim_23d")[0]
    statuses = [row["status"] for row in rows_of_task("jedi_dataset_contents", "Wenu_FullSim_23d")]
    assert statuses == ["finished"] * 120 + ["ready"] * 700
    assert (dataset["nfilesused"], dataset["nfilestobeused"]) == (120, 820)


def test_pseudo_input_has_neither_size_nor_replicas(rows_of_task: Any, demo_scenario: Row) -> None:
    dataset = rows_of_task("jedi_datasets", "Pythia8_ttbar")[0]
    assert (dataset["type"], dataset["datasetname"]) == ("pseudo_input", "pseudo_dataset")
    assert {row["fsize"] for row in rows_of_task("jedi_dataset_contents", "Pythia8_ttbar")} == {None}
    assert not _replicas(demo_scenario, dataset)


def test_partial_tape_and_whole_replicas(rows_of_task: Any, demo_scenario: Row) -> None:
    dataset = rows_of_task("jedi_datasets", "pPb_recon")[0]
    replicas = _replicas(demo_scenario, dataset)
    assert {rse: row["available_files"] for rse, row in replicas.items()} == {
        "MWT2_DATADISK": 120,
        "BNL-OSG2_DATATAPE": 200,
        "CERN-PROD_DATADISK": 200,
    }
    assert [row["state"] for row in replicas.values()] == ["UNAVAILABLE", "AVAILABLE", "AVAILABLE"]
    assert replicas["BNL-OSG2_DATATAPE"]["is_tape"]


def test_virtual_placement_has_no_files(rows_of_task: Any, demo_scenario: Row) -> None:
    dataset = rows_of_task("jedi_datasets", "DAOD_BPHY_local")[0]
    replica = _replicas(demo_scenario, dataset)["AGLT2_VP_DISK"]
    assert (replica["state"], replica["available_files"], replica["total_files"]) == ("VP", 0, 600)


def test_a_task_without_replicas_has_none(rows_of_task: Any, demo_scenario: Row) -> None:
    assert not _replicas(demo_scenario, rows_of_task("jedi_datasets", "lost_input")[0])


def test_secondaries_name_their_master_and_the_rule_for_their_files(rows_of_task: Any) -> None:
    master, *secondaries = rows_of_task("jedi_datasets", "ttbar_pile_23e")[:3]
    assert [row["masterid"] for row in secondaries] == [master["datasetid"]] * 2
    assert [row["attributes"] for row in secondaries] == ["np=2,ru", "np=1,ru"]


def test_unmerged_output_is_at_the_queue_that_made_it(rows_of_task: Any, demo_scenario: Row) -> None:
    source, output, log = rows_of_task("jedi_datasets", "merge_HITS_C")[:3]
    assert source["nfilesused"] == source["nfilestobeused"] == 400
    assert (output["type"], output["site"], output["masterid"]) == ("trn_output", "SLACXRD", None)
    assert (log["type"], log["masterid"]) == ("trn_log", output["datasetid"])
    assert list(_replicas(demo_scenario, output)) == ["SLACXRD_DATADISK"]


def test_files_of_a_second_memory_class(rows_of_task: Any) -> None:
    ram = [row["ramcount"] for row in rows_of_task("jedi_dataset_contents", "two_memory_classes")]
    assert ram == [0] * 60 + [3200] * 20


def test_lumiblocks_change_with_the_job(rows_of_task: Any) -> None:
    blocks = [row["lumiblocknr"] for row in rows_of_task("jedi_dataset_contents", "data23_main_A")]
    assert blocks[:5] == [1, 1, 2, 2, 3]
