"""Full chains, preset nuclei and output destinations: whole cycles, followed by the job brokerage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.brokerages import small_grid
from tests.brokerages.small_grid import TASK, Row
from tests.brokerages.task_grid import (
    TB,
    broker_tasks,
    changed,
    cycle_at,
    endpoint,
    grid_tables,
    outputs,
    pseudo_input,
    relation,
    rows,
    task_scenario,
    waiting,
    weights,
)

PARENT = 6000


def parent(nucleus: str | None, **columns: Any) -> Row:
    """Make the parent task, which finished at a nucleus."""
    return small_grid.task(jeditaskid=PARENT, status="finished", nucleus=nucleus, **columns)


def chain_task(kind: int, **columns: Any) -> Row:
    """Make a full-chain task with parent PARENT; kinds: 1 only, 2 require, 3 capable."""
    return waiting(splitrule=f"NF=1,FU={kind}", parent_tid=PARENT, **columns)


@pytest.mark.parametrize(
    ("kind", "parent_nucleus", "names"),
    [
        (1, "ALPHA", set()),  # no nucleus has bareNucleus=only
        (2, "ALPHA", {"GAMMA"}),  # a satellite used as a bare nucleus
        (3, "ALPHA", {"ALPHA", "BETA"}),
        (2, "GAMMA", {"GAMMA"}),
        (3, "GAMMA", {"GAMMA"}),
        (3, None, {"ALPHA", "BETA"}),  # the parent has no nucleus
        (3, "ELSEWHERE", {"ALPHA", "BETA"}),  # the nucleus of the parent is unknown
    ],
)
def test_which_nuclei_a_chain_task_may_use(
    database: Database, kind: int, parent_nucleus: str | None, names: set[str]
) -> None:
    (decision,) = broker_tasks(database, task_scenario(jedi_tasks=[chain_task(kind), parent(parent_nucleus)]))
    assert set(weights(decision)) == names


def test_the_parent_need_not_belong_to_a_chain(database: Database) -> None:
    (decision,) = broker_tasks(database, task_scenario(jedi_tasks=[chain_task(3), parent("GAMMA", splitrule="NF=1")]))
    assert weights(decision) == pytest.approx({"GAMMA": 8.0})


def test_a_parent_on_a_closed_bare_nucleus_leaves_no_candidate(database: Database) -> None:
    endpoints = changed("ddm_endpoint", "site_name", "GAMMA", space_free=10 * TB)
    (decision,) = broker_tasks(
        database, task_scenario(jedi_tasks=[chain_task(3), parent("GAMMA")], ddm_endpoint=endpoints)
    )
    assert decision["reason"] == "no_candidates"
    assert decision["rejected"] == {"ALPHA": "full_chain", "BETA": "full_chain", "GAMMA": "space"}


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"parent_tid": 4711}, "unknown_parent"),
        ({"parent_tid": None}, ""),
        ({"parent_tid": TASK}, ""),
        ({"parent_tid": 4711, "splitrule": "NF=1"}, ""),
    ],
)
def test_missing_parents(database: Database, columns: dict[str, Any], reason: str) -> None:
    task = waiting(**{"splitrule": "NF=1,FU=3", **columns})
    (decision,) = broker_tasks(database, task_scenario(jedi_tasks=[task]))
    assert decision["reason"] == reason


def test_the_jobs_of_a_chain_stay_at_its_bare_nucleus(database: Database) -> None:
    """After both brokerages, all jobs of the task are at the queue of GAMMA."""
    broker_tasks(database, task_scenario(jedi_tasks=[chain_task(2), parent("ALPHA")]))
    cycle_at(database, timedelta(minutes=1), agent="production_job")
    placements = rows(database, "SELECT DISTINCT computingsite, nucleus FROM doma_panda.jobsdefined4")
    assert placements == [("GAMMA_Q", "GAMMA")]


def test_the_jobs_of_other_tasks_go_to_satellites_as_well(database: Database) -> None:
    broker_tasks(database, task_scenario())
    _, decisions = cycle_at(database, timedelta(minutes=1), agent="production_job")
    names = {candidate["name"] for candidate in decisions[0]["candidates"]}
    assert names == {"ALPHA_Q", "BETA_Q", "GAMMA_Q", "DELTA_Q"}


def test_a_preset_nucleus_is_not_checked(database: Database) -> None:
    """BETA is full, but preset for the task: only the destinations of its output are still to be written."""
    endpoints = changed("ddm_endpoint", "ddm_endpoint_name", "BETA_DATADISK", space_free=0)
    task = {**waiting(), "nucleus": "BETA"}
    (decision,) = broker_tasks(database, task_scenario(jedi_tasks=[task], ddm_endpoint=endpoints))
    assert (decision["outcome"], decision["reason"]) == ("brokered", "preset_nucleus")
    assert decision["assigned"] == {"BETA": 1}
    assert rows(database, "SELECT status, nucleus FROM doma_panda.jedi_tasks") == [("ready", "BETA")]
    assert rows(database, "SELECT DISTINCT destination FROM doma_panda.jedi_datasets WHERE type = 'log'") == [
        ("nucleus:BETA",)
    ]


@pytest.mark.parametrize("nucleus", ["ALPHA", "BETA", "DELTA"])
def test_any_nucleus_can_be_preset(database: Database, nucleus: str) -> None:
    """The input of the task has no location, and yet its preset nucleus is the only candidate."""
    task = {**waiting(), "nucleus": nucleus}
    nowhere = [{**pseudo_input(), "type": "input", "datasetname": "mc:nowhere"}, *outputs()]
    (decision,) = broker_tasks(database, task_scenario(jedi_tasks=[task], jedi_datasets=nowhere))
    assert (decision["reason"], weights(decision)) == ("preset_nucleus", {nucleus: 1.0})


def test_a_preset_nucleus_with_all_its_places_is_left_alone(database: Database) -> None:
    grid = task_scenario(
        jedi_tasks=[{**waiting(), "nucleus": "BETA"}],
        jedi_datasets=[pseudo_input(), *outputs(destination="nucleus:BETA")],
    )
    assert broker_tasks(database, grid) == []
    _, decisions = cycle_at(database, task_ids=(TASK, 99))
    assert [(decision["outcome"], decision["reason"]) for decision in decisions] == [
        ("skipped", "nothing_to_assign"),
        ("skipped", "no_such_task"),
    ]


def test_distributed_output_is_unchanged(database: Database) -> None:
    output, log = outputs()
    distributed = {**output, "storagetoken": "ATLASDATADISK/ddd:SOMEWHERE"}
    broker_tasks(database, task_scenario(jedi_datasets=[pseudo_input(), distributed, log]))
    datasets = rows(database, "SELECT type, storagetoken, destination IS NULL FROM doma_panda.jedi_datasets ORDER BY 1")
    assert datasets[1] == ("output", "ATLASDATADISK/ddd:SOMEWHERE", True)
    assert datasets[0][2] is False


def test_a_token_that_only_one_nucleus_can_serve(database: Database) -> None:
    output, log = outputs()
    grid = task_scenario(jedi_datasets=[pseudo_input(), {**output, "storagetoken": "ATLASDATATAPE"}, log])
    (decision,) = broker_tasks(database, grid)
    assert decision["rejected"] == {"ALPHA": "match"}
    # the disk has the smaller free fraction: 200 TB of 1,600 against 900
    assert weights(decision) == pytest.approx({"BETA": 0.5})
    tokens = rows(database, "SELECT storagetoken FROM doma_panda.jedi_datasets WHERE type = 'output'")
    assert tokens == [("dst:BETA_TAPE/ATLASDATATAPE",)]


def secondary_grid(secondary: str) -> dict[str, list[Row]]:
    """Make a grid in which GAMMA writes the output of chains to another nucleus."""
    queues = changed("schedconfig_json", "panda_queue", "none")
    for row in queues:
        if row["panda_queue"] == "GAMMA_Q":
            row["data"] = {**row["data"], "params": {"bareNucleus": "allow", "secondaryNucleus": secondary}}
    return {"schedconfig_json": queues}


def test_a_secondary_nucleus_is_checked_and_weighed_but_not_written(database: Database) -> None:
    grid = task_scenario(jedi_tasks=[chain_task(2), parent(None)], **secondary_grid("ALPHA"))
    (decision,) = broker_tasks(database, grid)
    assert weights(decision) == pytest.approx({"GAMMA": 2.0})
    assert rows(database, "SELECT DISTINCT storagetoken FROM doma_panda.jedi_datasets WHERE type = 'log'") == [
        ("dst:GAMMA_DATADISK/ATLASDATADISK",)
    ]


@pytest.mark.parametrize("secondary", ["NOWHERE", "DELTA"])
def test_a_secondary_nucleus_without_an_endpoint(database: Database, secondary: str) -> None:
    grid = task_scenario(jedi_tasks=[chain_task(2), parent(None)], **secondary_grid(secondary))
    grid.tables["panda_ddm_relation"] = [
        row for row in grid.tables["panda_ddm_relation"] if row["panda_site_name"] != "DELTA_Q"
    ]
    (decision,) = broker_tasks(database, grid)
    assert decision["rejected"]["GAMMA"] == "match"


@pytest.mark.parametrize(("chain", "accepted"), [(3, True), (2, False), (None, True)])
def test_a_capable_task_without_a_chain_parent_needs_no_secondary_nucleus(
    database: Database, chain: int | None, accepted: bool
) -> None:
    queues = changed("schedconfig_json", "panda_queue", "none")
    for row in queues:
        row["data"] = {**row["data"], "params": {"bareNucleus": "allow", "secondaryNucleus": "NOWHERE"}}
    task = chain_task(chain) if chain else {**chain_task(2), "splitrule": None}
    (decision,) = broker_tasks(database, task_scenario(jedi_tasks=[task, parent(None)], schedconfig_json=queues))
    assert ("match" not in decision["rejected"].values()) == accepted


def test_the_tightest_of_several_storages_is_weighed(database: Database) -> None:
    """ALPHA has a group disk with 100 TB free of 1,600 TB, and a disk with 400 TB free. The threshold is 20 TB."""
    tables = grid_tables()
    tables["ddm_endpoint"].append(endpoint("ALPHA_GROUPDISK", "ALPHA", 100, type="GROUPDISK", space_expired=60 * TB))
    tables["panda_ddm_relation"].append(relation("ALPHA", "ALPHA_GROUPDISK"))
    output, log = outputs()
    grid = task_scenario(
        **tables,
        jedi_datasets=[pseudo_input(), {**output, "storagetoken": "GROUPDISK"}, log],
        config=[
            {"app": "jedi", "component": "taskbrokerage", "key": "DISK_THRESHOLD", "vo": "atlas", "value": "20"}
            | {"type": "integer"}
        ],
    )
    (decision,) = broker_tasks(database, grid)
    assert weights(decision) == pytest.approx({"ALPHA": 100 * (160 / 1600) / 50})


def test_tasks_of_other_clouds_and_labels_are_skipped(database: Database) -> None:
    tasks = [
        waiting(cloud="US"),
        waiting(jeditaskid=TASK + 1, cloud=None),
        waiting(jeditaskid=TASK + 2, prodsourcelabel="user"),
    ]
    load(database, task_scenario(jedi_tasks=tasks))
    _, decisions = cycle_at(database, task_ids=(TASK, TASK + 1, TASK + 2))
    assert [decision["reason"] for decision in decisions] == [
        "task_cloud_US",
        "task_cloud_None",
        "vo_or_label_of_another_brokerage",
    ]


def group_disk(free_tb: float) -> dict[str, list[Row]]:
    """Make the grid with a group disk at ALPHA."""
    tables = grid_tables()
    tables["ddm_endpoint"].append(endpoint("ALPHA_GROUPDISK", "ALPHA", free_tb, type="GROUPDISK"))
    tables["panda_ddm_relation"].append(relation("ALPHA", "ALPHA_GROUPDISK"))
    return tables


@pytest.mark.parametrize("first", ["GROUPDISK", "ATLASDATADISK"])
@pytest.mark.parametrize(("free_tb", "code"), [(100, "space"), (101, None)])
def test_every_storage_must_have_room(database: Database, first: str, free_tb: float, code: str | None) -> None:
    output, log = outputs()
    second = ({"GROUPDISK", "ATLASDATADISK"} - {first}).pop()
    datasets = [pseudo_input(), {**output, "storagetoken": first}, {**log, "storagetoken": second}]
    (decision,) = broker_tasks(database, task_scenario(**group_disk(free_tb), jedi_datasets=datasets))
    assert decision["rejected"].get("ALPHA") == code
    assert decision["rejected"]["BETA"] == "match"


def test_endpoints_of_other_sites_do_not_belong_to_the_nucleus(database: Database) -> None:
    tables = grid_tables()
    tables["panda_ddm_relation"] = [
        {**row, "is_local": "N"} if row["panda_site_name"] == "BETA_Q" else row for row in tables["panda_ddm_relation"]
    ]
    (decision,) = broker_tasks(database, task_scenario(**tables))
    assert decision["rejected"] == {"BETA": "match"}


def test_a_satellite_without_a_matching_endpoint_writes_to_its_default(database: Database) -> None:
    """The task requests tape, which the secondary nucleus BETA has, but not GAMMA itself."""
    output, log = outputs()
    grid = task_scenario(
        jedi_tasks=[chain_task(2), parent(None)],
        jedi_datasets=[pseudo_input(), {**output, "storagetoken": "ATLASDATATAPE"}, log],
        **secondary_grid("BETA"),
    )
    (decision,) = broker_tasks(database, grid)
    assert set(weights(decision)) == {"GAMMA"}
    tokens = rows(database, "SELECT storagetoken FROM doma_panda.jedi_datasets WHERE type = 'output'")
    assert tokens == [("dst:GAMMA_DATADISK/ATLASDATATAPE",)]
