from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest

from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.grid import build_scenario
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario

NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
# 5 GB per job; a file counts with its output and the job's work space
FILES_A_JOB_CUT_BY_SIZE = 6
Row = dict[str, Any]
Tables = dict[str, list[Row]]


@pytest.fixture
def tables(demo_scenario: Row) -> Tables:
    tables: Tables = demo_scenario["tables"]
    return tables


def _masters(tables: Tables) -> list[Row]:
    kinds = {"input", "pseudo_input", "trn_output"}
    return [
        row
        for row in tables["jedi_datasets"]
        if row["type"] in kinds and row["masterid"] is None and row["nfilestobeused"] > row["nfilesused"]
    ]


def _rule(task: Row) -> dict[str, int]:
    tokens = (token.split("=") for token in task["splitrule"].split(","))
    return {name: int(value) for name, value in tokens}


def _jobs_of(dataset: Row, task: Row) -> int:
    """Jobs that the ready input makes, from the counters and the rule alone."""
    files = dataset["nfilestobeused"] - dataset["nfilesused"]
    rule = _rule(task)
    if "NG" in rule:
        return -(-files // FILES_A_JOB_CUT_BY_SIZE)
    return -(-files // rule.get("ZF", rule.get("NF", 1)))


def _jobs(tables: Tables) -> int:
    tasks = {row["jeditaskid"]: row for row in tables["jedi_tasks"] if row["prodsourcelabel"] == "managed"}
    masters = [row for row in _masters(tables) if row["jeditaskid"] in tasks]
    return sum(_jobs_of(row, tasks[row["jeditaskid"]]) for row in masters)


@pytest.mark.slow
def test_the_scenario_depends_on_its_arguments_alone(demo_facts: DemoFacts, demo_scenario: Row) -> None:
    again = build_scenario(demo_facts, NOW, seed=7)
    assert json.dumps(again) == json.dumps(demo_scenario)
    assert json.dumps(build_scenario(demo_facts, NOW, seed=8)) != json.dumps(demo_scenario)


@pytest.mark.parametrize(
    ("table", "least"),
    [
        ("site", 40),
        ("schedconfig_json", 60),
        ("jedi_tasks", 60),
        ("mv_worker_node_gpu_summary", 4),
        ("jobsactive4", 2000),
    ],
)
def test_the_grid_is_large_enough(tables: Tables, table: str, least: int) -> None:
    assert len(tables[table]) >= least


def test_there_are_ten_nuclei_and_150_links(tables: Tables) -> None:
    assert sum(row["role"] == "nucleus" for row in tables["site"]) >= 10
    assert len({(row["src"], row["dst"]) for row in tables["network_matrix_kv"]}) >= 150


def test_there_is_input_for_twenty_thousand_jobs(tables: Tables) -> None:
    assert _jobs(tables) == pytest.approx(20_000, rel=0.005)
    assert len(tables["jedi_dataset_contents"]) <= 40_000


def test_the_quick_scenario_has_input_for_two_thousand_jobs_on_the_same_grid(
    tables: Tables, quick_scenario: Row
) -> None:
    quick: Tables = quick_scenario["tables"]
    assert _jobs(quick) == pytest.approx(2_000, rel=0.02)
    for name in tables.keys() - {"jedi_datasets", "jedi_dataset_contents", "dataset_replicas", "dataset_metadata"}:
        assert quick[name] == tables[name]


def test_every_queue_has_a_site_and_a_writable_default_endpoint_that_exists(tables: Tables) -> None:
    sites = {row["site_name"] for row in tables["site"]}
    endpoints = {row["ddm_endpoint_name"]: row for row in tables["ddm_endpoint"]}
    assert {row["site_name"] for row in endpoints.values()} <= sites
    defaults = {
        row["panda_site_name"]: row["ddm_endpoint_name"]
        for row in tables["panda_ddm_relation"]
        if row["scope"] == "default" and row["default_write"] == "Y"
    }
    for row in tables["panda_site"]:
        assert row["site_name"] in sites
        assert endpoints[defaults[row["panda_site_name"]]]["type"] == "DATADISK"
    assert {row["ddm_endpoint_name"] for row in tables["panda_ddm_relation"]} <= endpoints.keys()


def test_links_run_from_existing_sites_to_existing_nuclei(tables: Tables) -> None:
    roles = {row["site_name"]: row["role"] for row in tables["site"]}
    for row in tables["network_matrix_kv"]:
        assert row["src"] in roles
        assert row["src"] != row["dst"]
        assert roles[row["dst"]] == "nucleus"
    keys = [(row["src"], row["dst"], row["key"]) for row in tables["network_matrix_kv"]]
    assert len(keys) == len(set(keys))


def test_dataset_counters_equal_the_files(tables: Tables) -> None:
    files: dict[int, list[Row]] = defaultdict(list)
    for row in tables["jedi_dataset_contents"]:
        files[row["datasetid"]].append(row)
    for dataset in tables["jedi_datasets"]:
        rows = files[dataset["datasetid"]]
        events = [row["endevent"] - row["startevent"] + 1 for row in rows]
        used = [row["status"] != "ready" for row in rows]
        assert dataset["nfiles"] == len(rows)
        assert dataset["nfilesused"] == dataset["nfilesfinished"] == sum(used)
        assert dataset["nfilesused"] <= dataset["nfilestobeused"] <= dataset["nfiles"]
        assert dataset["nevents"] == sum(events)
        assert dataset["neventsused"] == sum(event for event, is_used in zip(events, used, strict=True) if is_used)
        assert {row["jeditaskid"] for row in rows} <= {dataset["jeditaskid"]}
        assert {row["type"] for row in rows} <= {dataset["type"]}


def test_event_ranges_stay_inside_their_file(tables: Tables) -> None:
    for row in tables["jedi_dataset_contents"]:
        assert 0 <= row["startevent"] <= row["endevent"] < row["nevents"]


def test_ids_are_unique(tables: Tables) -> None:
    for table, column in (
        ("jedi_tasks", "jeditaskid"),
        ("jedi_datasets", "datasetid"),
        ("jedi_dataset_contents", "fileid"),
        ("ddm_endpoint", "ddm_endpoint_name"),
    ):
        values = [row[column] for row in tables[table]]
        assert len(values) == len(set(values))
    pandaids = [row["pandaid"] for name in ("jobsactive4", "jobsdefined4") for row in tables[name]]
    assert len(pandaids) == len(set(pandaids))


def test_tasks_are_ready_for_the_job_brokerage(tables: Tables) -> None:
    roles = {row["site_name"]: row["role"] for row in tables["site"]}
    shares = {row["name"] for row in tables["global_shares"]}
    masters = {row["jeditaskid"] for row in _masters(tables)}
    for task in tables["jedi_tasks"]:
        assert task["status"] in {"ready", "running", "scouting", "assigning"}
        assert (task["nucleus"] is None) == (task["status"] == "assigning" or task["prodsourcelabel"] == "user")
        assert task["nucleus"] is None or roles[task["nucleus"]] == "nucleus"
        assert task["gshare"] in shares
        assert task["resource_type"] != "Undefined"
        assert task["jeditaskid"] in masters


def test_replicas_are_at_existing_endpoints_and_match_their_dataset(tables: Tables) -> None:
    endpoints = {row["ddm_endpoint_name"]: row["is_tape"] for row in tables["ddm_endpoint"]}
    datasets = {row["datasetname"]: row for row in tables["jedi_datasets"]}
    for row in tables["dataset_replicas"]:
        dataset = datasets[f"{row['scope']}:{row['name']}"]
        assert row["is_tape"] == (endpoints[row["rse"]] == "Y")
        assert row["total_files"] == dataset["nfiles"]
        assert row["available_files"] <= row["total_files"]
        assert row["available_bytes"] <= row["total_bytes"]


def test_jobs_run_at_existing_queues_in_existing_shares(tables: Tables) -> None:
    queues = {row["panda_queue"] for row in tables["schedconfig_json"]}
    shares = {row["name"] for row in tables["global_shares"]} - {row["parent"] for row in tables["global_shares"]}
    types = {row["resource_name"] for row in tables["resource_types"]}
    for row in tables["jobsactive4"] + tables["jobsdefined4"]:
        assert row["computingsite"] in queues
        assert row["gshare"] in shares
        assert row["resource_type"] in types
    for table, column in (("sitedata", "site"), ("harvester_slots", "pandaqueuename"), ("sw_tags", "panda_queue")):
        assert {row[column] for row in tables[table]} <= queues


def test_the_grid_has_one_of_each_special_case(tables: Tables) -> None:
    queues = {row["panda_queue"]: row["data"] for row in tables["schedconfig_json"]}
    assert {data["status"] for data in queues.values()} >= {"online", "offline", "brokeroff", "test", "paused"}
    assert {data["capability"] for data in queues.values()} == {"ucore", "mcore", "score"}
    assert any("TEST" in name for name in queues)
    assert any(data["pledgedcpu"] == -1 for data in queues.values())
    assert any(data["wnconnectivity"].startswith("http") for data in queues.values())
    assert {data["catchall"] for data in queues.values()} >= {"bareNucleus=only", "bareNucleus=allow", "per_core_attr"}
    assert {row["numslots"] == 0 for row in tables["harvester_slots"]} == {True, False}
    assert {row["state"] for row in tables["dataset_replicas"]} == {"AVAILABLE", "UNAVAILABLE", "VP"}
    with_replica = {f"{row['scope']}:{row['name']}" for row in tables["dataset_replicas"]}
    assert any(row["type"] == "input" and row["datasetname"] not in with_replica for row in _masters(tables))


@pytest.mark.slow
def test_the_scenario_is_json(demo_scenario: Row) -> None:
    text = json.dumps(demo_scenario, allow_nan=False)
    assert json.loads(text) == demo_scenario


@pytest.mark.slow
def test_the_scenario_loads_into_the_database(database: Database, quick_scenario: Row) -> None:
    row_counts = load(database, Scenario.of(quick_scenario))
    assert row_counts == {name: len(rows) for name, rows in quick_scenario["tables"].items()}
