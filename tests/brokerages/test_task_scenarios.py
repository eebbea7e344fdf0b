"""Whole cycles of the task brokerage calculated by hand: weights, funnel, and written rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from broker.decisions.answers.explain import answers_about
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.brokerages.small_grid import GB, NOW, SHARE, TASK, Row, dataset, input_files, replica
from tests.brokerages.task_grid import (
    LOG,
    OUTPUT,
    TB,
    WEIGHTS,
    broker_tasks,
    busy,
    changed,
    cycle_at,
    outputs,
    pseudo_input,
    rows,
    task_scenario,
    waiting,
    weights,
)

TASK_ROW = (
    "SELECT status, nucleus, modificationtime, statechangetime, frozentime, errordialog FROM doma_panda.jedi_tasks"
)


def approx(expected: dict[str, float]) -> Any:
    return pytest.approx(expected, rel=1e-12)


def test_a_free_grid_is_weighed_by_space_alone(database: Database) -> None:
    (decision,) = broker_tasks(database, task_scenario())
    assert decision["outcome"] == "brokered" and decision["brokerage"] == "production_task"
    assert weights(decision) == approx(WEIGHTS)
    factors = next(candidate["factors"] for candidate in decision["candidates"] if candidate["name"] == "ALPHA")
    assert factors == {
        "remaining_work": 0.02,
        "locality": 1.0,
        "tape": 1.0,
        "free_fraction": 0.25,
        "free_space": 400.0,
    }
    assert decision["assigned"] == {decision["candidates"][0]["name"]: 1}
    assert (decision["datasetid"], decision["ramcount"]) == (None, None)


def test_the_nucleus_and_its_destinations_are_written(database: Database) -> None:
    (decision,) = broker_tasks(database, task_scenario())
    nucleus = decision["candidates"][0]["name"]
    (row,) = rows(database, TASK_ROW)
    moment = NOW.replace(tzinfo=None)
    assert row == ("ready", nucleus, moment - timedelta(hours=1), moment, None, None)
    datasets = rows(database, "SELECT datasetid, storagetoken, destination FROM doma_panda.jedi_datasets ORDER BY 1")
    token = f"dst:{nucleus}_DATADISK/ATLASDATADISK"
    assert datasets[1:] == [(OUTPUT, token, f"nucleus:{nucleus}"), (LOG, token, f"nucleus:{nucleus}")]
    assert datasets[0][1:] == (None, None)
    log = rows(database, "SELECT jeditaskid, status, modificationtime FROM doma_panda.tasks_statuslog")
    assert log == [(TASK, "ready", moment)]
    assert cycle_at(database)[1] == []


def test_a_dry_run_writes_nothing(database: Database) -> None:
    load(database, task_scenario())
    before = rows(database, TASK_ROW)
    _, decisions = cycle_at(database, dry_run=True)
    assert decisions[0]["outcome"] == "brokered"
    assert rows(database, TASK_ROW) == before
    assert rows(database, "SELECT count(*) FROM broker.decisions") == [(0,)]


def test_remaining_work_of_the_share_at_the_priority_and_above(database: Database) -> None:
    """ALPHA has 2,000 events of the share at priority 500 (200,000 HS06 s), and work that does not count: of a lower
    priority, another share, and a finished task. BETA has 300 events in milli-HS06 s: 30 HS06 s, below 50.
    """
    busy_tasks = [
        busy(101, "ALPHA", 2000),
        busy(102, "ALPHA", 9000, currentpriority=499),
        busy(103, "ALPHA", 9000, gshare="Other"),
        busy(105, "BETA", 300, cputimeunit="mHS06sPerEventFixed"),
        busy(106, "DELTA", 9000),
    ]
    grid = task_scenario(
        jedi_tasks=[waiting(), *(one for one, _ in busy_tasks), {**busy(104, "ALPHA", 1)[0], "status": "finished"}],
        jedi_datasets=[pseudo_input(), *outputs(), *(one for _, one in busy_tasks), busy(104, "ALPHA", 9000)[1]],
    )
    (decision,) = broker_tasks(database, grid)
    assert weights(decision) == approx({"ALPHA": WEIGHTS["ALPHA"] * 50 / 200_000, "BETA": WEIGHTS["BETA"]})


@pytest.mark.parametrize(
    ("columns", "per_event"),
    [
        ({"cputime": None}, 300),
        ({"cputime": None, "cputimeunit": None}, 300),
        ({"cputime": None, "cputimeunit": "mHS06sPerEvent"}, 300),
        ({"cputime": 5000, "cputimeunit": "mHS06sPerEvent"}, 5),
        ({"cputime": 700, "cputimeunit": "HS06sPerEventFixed"}, 700),
    ],
)
def test_units_of_remaining_work(database: Database, columns: dict[str, Any], per_event: int) -> None:
    task, events = busy(101, "ALPHA", 1000, **columns)
    grid = task_scenario(jedi_tasks=[waiting(), task], jedi_datasets=[pseudo_input(), *outputs(), events])
    (decision,) = broker_tasks(database, grid)
    assert weights(decision)["ALPHA"] == pytest.approx(WEIGHTS["ALPHA"] * 50 / (1000 * per_event), rel=1e-12)


def test_a_placed_task_raises_the_work_for_later_tasks(database: Database) -> None:
    """Three tasks have 500 events (50,000 HS06 s), the third of another share. The second sees the first's work."""
    names = (TASK, TASK + 1, TASK + 2)
    priorities = (900, 500, 400)
    shares = (SHARE, SHARE, "Other")
    grid = task_scenario(
        jedi_tasks=[
            waiting(jeditaskid=name, currentpriority=priority, gshare=share)
            for name, priority, share in zip(names, priorities, shares, strict=True)
        ],
        jedi_datasets=[
            row
            for number, name in enumerate(names)
            for row in (pseudo_input(jeditaskid=name, datasetid=9000 + number), *outputs(name, 8100 + 2 * number))
        ],
        jedi_dataset_contents=[
            row | {"jeditaskid": name, "datasetid": 9000 + number, "fileid": row["fileid"] + 100 * number}
            for number, name in enumerate(names)
            for row in input_files(5, 0, type="pseudo_input", fsize=None)
        ],
    )
    first, second, third = broker_tasks(database, grid, independent=True)
    assert weights(first) == weights(second) == weights(third) == approx(WEIGHTS)
    _, (first, second, third) = cycle_at(database)
    chosen_nucleus = first["candidates"][0]["name"]
    expected = {name: value / (1000 if name == chosen_nucleus else 1) for name, value in WEIGHTS.items()}
    assert weights(first) == weights(third) == approx(WEIGHTS)
    assert weights(second) == approx(expected)
    assert [decision["jeditaskid"] for decision in (first, second, third)] == list(names)


def test_room_is_measured_by_all_work(database: Database) -> None:
    """BETA has 200 TB, 100 of them above the threshold: 102,400 GB are 102,400 / 0.25 core-days of 10 HS06.

    Work of any share and priority counts; here it is just too much.
    """
    core_days = 100 * TB / 0.25
    events = int(core_days * 86_400 * 10 / 100)
    task, work = busy(101, "BETA", events, gshare="Other", currentpriority=1)
    grid = task_scenario(jedi_tasks=[waiting(), task], jedi_datasets=[pseudo_input(), *outputs(), work])
    (decision,) = broker_tasks(database, grid, dry_run=True)
    assert decision["rejected"] == {"BETA": "space"}
    grid = task_scenario(
        jedi_tasks=[waiting(), task], jedi_datasets=[pseudo_input(), *outputs(), {**work, "nevents": events - 1}]
    )
    load(database, grid, replace=True)
    assert cycle_at(database)[1][0]["rejected"] == {}


@pytest.mark.parametrize(("label", "other_label"), [("managed", "test"), ("test", "managed")])
def test_work_of_other_labels_does_not_count(database: Database, label: str, other_label: str) -> None:
    """Such work takes no space and has no weight: BETA has more work of the other label than space for it."""
    events = int(200 * TB / 0.25 * 86_400 * 10 / 100)
    results = []
    for work_label in (label, other_label):
        task, work = busy(101, "BETA", events, prodsourcelabel=work_label)
        grid = task_scenario(
            jedi_tasks=[waiting(prodsourcelabel=label), task], jedi_datasets=[pseudo_input(), *outputs(), work]
        )
        load(database, grid, replace=True)
        (decision,) = cycle_at(database)[1]
        results.append((decision["rejected"], weights(decision).get("BETA")))
    assert results == [({"BETA": "space"}, None), ({}, pytest.approx(WEIGHTS["BETA"]))]


def test_without_candidates_a_task_is_retried_after_half_an_hour(database: Database) -> None:
    """Both storages are closed: the task stays in assigning and is retried after 30 minutes."""
    endpoints = changed("ddm_endpoint", "type", "DATADISK", detailed_status={"write_wan": "OFF"})
    (decision,) = broker_tasks(database, task_scenario(ddm_endpoint=endpoints))
    assert (decision["outcome"], decision["reason"]) == ("pending", "no_candidates")
    assert decision["rejected"] == {"ALPHA": "destination_blacklist", "BETA": "destination_blacklist"}
    assert decision["pending_until"] == (NOW + timedelta(minutes=30)).isoformat()
    assert ["destination_blacklist", 2, 0] in decision["funnel"]
    moment = NOW.replace(tzinfo=None)
    assert rows(database, TASK_ROW) == [("assigning", None, moment, None, moment, "no_candidates")]
    assert cycle_at(database, timedelta(minutes=30))[1] == []
    _, decisions = cycle_at(database, timedelta(minutes=30, seconds=1))
    assert [one["outcome"] for one in decisions] == ["pending"]
    frozen_times = rows(database, "SELECT frozentime FROM doma_panda.jedi_tasks")
    assert frozen_times == [(moment,)]


def test_why_a_nucleus_was_not_chosen(database: Database) -> None:
    endpoints = changed("ddm_endpoint", "ddm_endpoint_name", "BETA_DATADISK", space_free=50 * TB)
    broker_tasks(database, task_scenario(ddm_endpoint=endpoints))
    (answer,) = answers_about(database, TASK, "BETA")
    assert (answer.code, answer.rule) == ("space", "space")
    observation = answer.observation
    assert observation is not None and (observation.value, observation.limit, observation.key) == (
        50.0 * TB,
        100.0 * TB,
        "DISK_THRESHOLD",
    )
    assert [line.code for line in answers_about(database, TASK, "ALPHA")] == ["chosen"]
    assert [line.code for line in answers_about(database, TASK, "DELTA")] == ["not_a_nucleus"]
    assert [line.code for line in answers_about(database, TASK, "NOWHERE")] == ["unknown_nucleus"]


def test_a_nucleus_without_a_queue_for_the_jobs_is_rejected(database: Database) -> None:
    queues = changed("schedconfig_json", "panda_queue", "BETA_Q")
    for row in queues:
        if row["panda_queue"] == "BETA_Q":
            row["data"] = {**row["data"], "maxrss": 4000}
    (decision,) = broker_tasks(database, task_scenario(schedconfig_json=queues))
    assert decision["rejected"] == {"BETA": "job"}
    (answer,) = answers_about(database, TASK, "BETA")
    assert answer.observation is not None
    assert answer.observation.inputs == {"queues": 1.0, "rejected": "lowmemory 1"}


def test_a_backlog_closes_a_nucleus_unless_the_task_insists(database: Database) -> None:
    links = [
        {"src": site, "dst": "ALPHA", "key": "Production Output_queued", "value": value, "ts": "2026-08-01T11:50:00"}
        for site, value in (("BETA", 1500), ("GAMMA", 501))
    ]
    (decision,) = broker_tasks(database, task_scenario(network_matrix_kv=links), dry_run=True)
    assert decision["rejected"] == {"ALPHA": "transfer_backlog"}
    load(database, task_scenario(network_matrix_kv=links, jedi_tasks=[waiting(splitrule="TW=-1")]), replace=True)
    assert cycle_at(database)[1][0]["rejected"] == {}


def with_input(*replicas: Row, files: int = 10, task: Row | None = None, **tables: list[Row]) -> Any:
    """Make a task with one real dataset of 2 GB files."""
    return task_scenario(
        jedi_tasks=[task or waiting(iointensity=900, taskpriority=100)],
        jedi_datasets=[dataset(files, nevents=1000, neventsused=0), *outputs()],
        jedi_dataset_contents=input_files(files, 2 * GB),
        dataset_replicas=list(replicas),
        **tables,
    )


def test_locality_of_the_input_decides(database: Database) -> None:
    """ALPHA has half the input and gets half the weight. BETA has just a tenth, which is too little. DELTA has all."""
    grid = with_input(replica("ALPHA", 5, 10), replica("BETA", 1, 10), replica("DELTA", 10, 10))
    (decision,) = broker_tasks(database, grid)
    assert decision["rejected"] == {"BETA": "insize"}
    assert weights(decision) == approx({"ALPHA": 1.0})


def test_tape_counts_as_data_but_little_in_the_weight(database: Database) -> None:
    on_tape = {**replica("BETA", 10, 10), "rse": "BETA_TAPE", "is_tape": True}
    grid = with_input(on_tape, replica("BETA", 4, 10), replica("ALPHA", 10, 10))
    (decision,) = broker_tasks(database, grid)
    assert weights(decision) == approx({"ALPHA": 2.0, "BETA": 0.0005})


@pytest.mark.parametrize(
    ("replicas", "statuses", "reason"),
    [
        ([], {}, "unknown_dataset"),
        ([("ALPHA", 9)], {}, "no_complete_replica"),
        ([("DELTA", 10)], {"DELTA": "OFF"}, "replica_unreadable"),
        ([("DELTA", 10)], {"DELTA": "TEST"}, "replica_unreadable"),
        ([("ALPHA", 10)], {}, ""),
        ([("DELTA", 10), ("ALPHA", 10)], {"DELTA": "OFF"}, ""),
    ],
)
def test_input_must_be_complete_and_readable_somewhere(
    database: Database, replicas: list[tuple[str, int]], statuses: dict[str, str], reason: str
) -> None:
    endpoints = changed("ddm_endpoint", "type", "none")
    for row in endpoints:
        row["detailed_status"] = {"read_wan": statuses.get(row["site_name"], "ON")}
    grid = with_input(*(replica(site, available, 10) for site, available in replicas), ddm_endpoint=endpoints)
    (decision,) = broker_tasks(database, grid)
    assert decision["reason"] == reason


def test_a_prestaging_task_may_go_to_incomplete_input(database: Database) -> None:
    task = waiting(iointensity=900, taskpriority=100, splitrule="NF=1,IS=1")
    grid = with_input(replica("ALPHA", 1, 200), replica("DELTA", 150, 200), files=200, task=task)
    (decision,) = broker_tasks(database, grid)
    assert decision["rejected"] == {"BETA": "insize"}
    assert weights(decision) == approx({"ALPHA": 2.0 / 200})


def secondary(name: str, **columns: Any) -> Row:
    """Make a second input dataset."""
    return dataset(10, datasetid=8500, masterid=8000, datasetname=f"mc:{name}", **columns)


@pytest.mark.parametrize(
    ("name", "parameters", "reason"),
    [
        ("mc.second", None, "unknown_dataset"),
        ("mc.second", '{"taskBrokerOnMaster": false}', "unknown_dataset"),
        ("mc.second", '{"taskBrokerOnMaster": "True"}', "unknown_dataset"),
        ("mc.1.task.kind.log.tag", None, ""),
        ("ddo.000001.Atlas.v1", None, ""),
        ("mc.second", '{"taskBrokerOnMaster": true}', ""),
    ],
)
def test_which_secondary_datasets_must_be_known(
    database: Database, name: str, parameters: str | None, reason: str
) -> None:
    """The second dataset has no replica. A task that ignores it gets a nucleus: the dry run looks up no files."""
    grid = with_input(replica("ALPHA", 10, 10), jedi_taskparams=[{"jeditaskid": TASK, "taskparams": parameters}])
    grid.tables["jedi_datasets"].append(secondary(name))
    for row in input_files(10, 2 * GB):
        grid.tables["jedi_dataset_contents"].append({**row, "datasetid": 8500})
    (decision,) = broker_tasks(database, grid)
    assert (decision["outcome"], decision["reason"]) == ("pending" if reason else "brokered", reason)


def test_parts_of_a_container_are_summed(database: Database) -> None:
    """Of three parts of 10 files, ALPHA has one and half of another, BETA all, DELTA the third."""
    contents = [
        {"scope": "mc", "name": "mc.input", "child_scope": "mc", "child_name": f"mc.part{number}"}
        for number in range(3)
    ]
    copies = [("ALPHA", 0, 10), ("ALPHA", 1, 5), *(("BETA", number, 10) for number in range(3)), ("DELTA", 2, 10)]
    replicas = [{**replica(site, available, 10), "name": f"mc.part{number}"} for site, number, available in copies]
    grid = with_input(*replicas, files=30, container_contents=contents)
    for row in grid.tables["jedi_datasets"]:
        if row["type"] == "input":
            row["datasetname"] = "mc:mc.input/"
    (decision,) = broker_tasks(database, grid)
    assert weights(decision) == approx({"ALPHA": 2.0 * 0.5, "BETA": 0.5})


def test_a_virtual_placement_holds_nothing(database: Database) -> None:
    virtual = {**replica("BETA", 10, 10), "state": "VP"}
    (decision,) = broker_tasks(database, with_input(virtual, replica("ALPHA", 10, 10)))
    assert decision["rejected"] == {"BETA": "insize"}
    load(database, with_input(virtual), replace=True)
    assert cycle_at(database)[1][0]["reason"] == "no_complete_replica"
