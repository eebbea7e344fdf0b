"""Whole cycles of the task brokerage, worked out by hand: weights, funnel, and what is written."""

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
    factors = next(one["factors"] for one in decision["candidates"] if one["name"] == "ALPHA")
    assert factors == {
        "remaining_work": 0.02,
        "locality": 1.0,
        "tape": 1.0,
        "free_fraction": 0.25,
        "free_space": 400.0,
    }
    assert decision["assigned"] == {decision["candidates"][0]["name"]: 1}
    assert (decision["datasetid"], decision["ramcount"]) == (None, None)


def test_what_is_written(database: Database) -> None:
    (decision,) = broker_tasks(database, task_scenario())
    nucleus = decision["candidates"][0]["name"]
    (row,) = rows(database, TASK_ROW)
    moment = NOW.replace(tzinfo=None)
    assert row == ("ready", nucleus, moment - timedelta(hours=1), moment, None, None)
    placed = rows(database, "SELECT datasetid, storagetoken, destination FROM doma_panda.jedi_datasets ORDER BY 1")
    token = f"dst:{nucleus}_DATADISK/ATLASDATADISK"
    assert placed[1:] == [(OUTPUT, token, f"nucleus:{nucleus}"), (LOG, token, f"nucleus:{nucleus}")]
    assert placed[0][1:] == (None, None)
    log = rows(database, "SELECT jeditaskid, status, modificationtime FROM doma_panda.tasks_statuslog")
    assert log == [(TASK, "ready", moment)]
    assert cycle_at(database)[1] == []


def test_a_dry_run_writes_nothing(database: Database) -> None:
    load(database, task_scenario())
    before = rows(database, TASK_ROW)
    _, told = cycle_at(database, dry_run=True)
    assert told[0]["outcome"] == "brokered"
    assert rows(database, TASK_ROW) == before
    assert rows(database, "SELECT count(*) FROM broker.decisions") == [(0,)]


def test_remaining_work_of_the_share_at_the_priority_and_above(database: Database) -> None:
    """At ALPHA 2,000 events of the share at priority 500 (200,000 HS06 s), and work that does not count: of a lower
    priority, of another share, of a task that has finished. At BETA 300 events in milli-HS06 s: 30 HS06 s, below 50.
    """
    tasks = [
        busy(101, "ALPHA", 2000),
        busy(102, "ALPHA", 9000, currentpriority=499),
        busy(103, "ALPHA", 9000, gshare="Other"),
        busy(105, "BETA", 300, cputimeunit="mHS06sPerEventFixed"),
        busy(106, "DELTA", 9000),
    ]
    loaded = task_scenario(
        jedi_tasks=[waiting(), *(one for one, _ in tasks), {**busy(104, "ALPHA", 1)[0], "status": "finished"}],
        jedi_datasets=[pseudo_input(), *outputs(), *(one for _, one in tasks), busy(104, "ALPHA", 9000)[1]],
    )
    (decision,) = broker_tasks(database, loaded)
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
    loaded = task_scenario(jedi_tasks=[waiting(), task], jedi_datasets=[pseudo_input(), *outputs(), events])
    (decision,) = broker_tasks(database, loaded)
    assert weights(decision)["ALPHA"] == pytest.approx(WEIGHTS["ALPHA"] * 50 / (1000 * per_event), rel=1e-12)


def test_a_task_raises_the_work_for_those_that_follow(database: Database) -> None:
    """Three tasks of 500 events (50,000 HS06 s), the third of another share. The second finds the first's work."""
    names = (TASK, TASK + 1, TASK + 2)
    priorities = (900, 500, 400)
    shares = (SHARE, SHARE, "Other")
    loaded = task_scenario(
        jedi_tasks=[
            waiting(jeditaskid=name, currentpriority=priority, gshare=share)
            for name, priority, share in zip(names, priorities, shares, strict=True)
        ],
        jedi_datasets=[
            row
            for at, name in enumerate(names)
            for row in (pseudo_input(jeditaskid=name, datasetid=9000 + at), *outputs(name, 8100 + 2 * at))
        ],
        jedi_dataset_contents=[
            row | {"jeditaskid": name, "datasetid": 9000 + at, "fileid": row["fileid"] + 100 * at}
            for at, name in enumerate(names)
            for row in input_files(5, 0, type="pseudo_input", fsize=None)
        ],
    )
    first, second, third = broker_tasks(database, loaded, independent=True)
    assert weights(first) == weights(second) == weights(third) == approx(WEIGHTS)
    _, (first, second, third) = cycle_at(database)
    taken = first["candidates"][0]["name"]
    expected = {name: value / (1000 if name == taken else 1) for name, value in WEIGHTS.items()}
    assert weights(first) == weights(third) == approx(WEIGHTS)
    assert weights(second) == approx(expected)
    assert [one["jeditaskid"] for one in (first, second, third)] == list(names)


def test_room_is_measured_by_all_work(database: Database) -> None:
    """BETA has 200 TB, 100 of them above the threshold: 102,400 GB are 102,400 / 0.25 core-days of 10 HS06.

    Work of any share and priority counts, here just as much as fits not.
    """
    core_days = 100 * TB / 0.25
    events = int(core_days * 86_400 * 10 / 100)
    task, work = busy(101, "BETA", events, gshare="Other", currentpriority=1)
    loaded = task_scenario(jedi_tasks=[waiting(), task], jedi_datasets=[pseudo_input(), *outputs(), work])
    (decision,) = broker_tasks(database, loaded, dry_run=True)
    assert decision["rejected"] == {"BETA": "space"}
    loaded = task_scenario(
        jedi_tasks=[waiting(), task], jedi_datasets=[pseudo_input(), *outputs(), {**work, "nevents": events - 1}]
    )
    load(database, loaded, replace=True)
    assert cycle_at(database)[1][0]["rejected"] == {}


@pytest.mark.parametrize(("label", "other"), [("managed", "test"), ("test", "managed")])
def test_work_of_other_labels_is_none_of_the_label(database: Database, label: str, other: str) -> None:
    """Neither takes it room, nor does it weigh: BETA has more work of the other label than it has space for."""
    events = int(200 * TB / 0.25 * 86_400 * 10 / 100)
    found = []
    for own in (label, other):
        task, work = busy(101, "BETA", events, prodsourcelabel=own)
        loaded = task_scenario(
            jedi_tasks=[waiting(prodsourcelabel=label), task], jedi_datasets=[pseudo_input(), *outputs(), work]
        )
        load(database, loaded, replace=True)
        (decision,) = cycle_at(database)[1]
        found.append((decision["rejected"], weights(decision).get("BETA")))
    assert found == [({"BETA": "space"}, None), ({}, pytest.approx(WEIGHTS["BETA"]))]


def test_nobody_left(database: Database) -> None:
    """Both storages are closed: the task stays in assigning and is tried again after 30 minutes."""
    closed = changed("ddm_endpoint", "type", "DATADISK", detailed_status={"write_wan": "OFF"})
    (decision,) = broker_tasks(database, task_scenario(ddm_endpoint=closed))
    assert (decision["outcome"], decision["reason"]) == ("pending", "no_candidates")
    assert decision["rejected"] == {"ALPHA": "destination_blacklist", "BETA": "destination_blacklist"}
    assert decision["pending_until"] == (NOW + timedelta(minutes=30)).isoformat()
    assert ["destination_blacklist", 2, 0] in decision["funnel"]
    moment = NOW.replace(tzinfo=None)
    assert rows(database, TASK_ROW) == [("assigning", None, moment, None, moment, "no_candidates")]
    assert cycle_at(database, timedelta(minutes=30))[1] == []
    _, told = cycle_at(database, timedelta(minutes=30, seconds=1))
    assert [one["outcome"] for one in told] == ["pending"]
    since = rows(database, "SELECT frozentime FROM doma_panda.jedi_tasks")
    assert since == [(moment,)]


def test_why_a_nucleus_was_not_taken(database: Database) -> None:
    closed = changed("ddm_endpoint", "ddm_endpoint_name", "BETA_DATADISK", space_free=50 * TB)
    broker_tasks(database, task_scenario(ddm_endpoint=closed))
    (answer,) = answers_about(database, TASK, "BETA")
    assert (answer.code, answer.rule) == ("space", "space")
    seen = answer.observation
    assert seen is not None and (seen.value, seen.limit, seen.key) == (50.0 * TB, 100.0 * TB, "DISK_THRESHOLD")
    assert [one.code for one in answers_about(database, TASK, "ALPHA")] == ["chosen"]
    assert [one.code for one in answers_about(database, TASK, "DELTA")] == ["not_a_nucleus"]
    assert [one.code for one in answers_about(database, TASK, "NOWHERE")] == ["unknown_nucleus"]


def test_the_job_brokerage_says_who_can_run_the_jobs(database: Database) -> None:
    small = changed("schedconfig_json", "panda_queue", "BETA_Q")
    for row in small:
        if row["panda_queue"] == "BETA_Q":
            row["data"] = {**row["data"], "maxrss": 4000}
    (decision,) = broker_tasks(database, task_scenario(schedconfig_json=small))
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


def with_input(*replicas: Row, files: int = 10, task: Row | None = None, **more: list[Row]) -> Any:
    """A task with one real dataset of 2 GB files."""
    return task_scenario(
        jedi_tasks=[task or waiting(iointensity=900, taskpriority=100)],
        jedi_datasets=[dataset(files, nevents=1000, neventsused=0), *outputs()],
        jedi_dataset_contents=input_files(files, 2 * GB),
        dataset_replicas=list(replicas),
        **more,
    )


def test_data_decide(database: Database) -> None:
    """ALPHA has half of it: half the weight. BETA has a tenth, which is not more than a tenth. DELTA has all."""
    loaded = with_input(replica("ALPHA", 5, 10), replica("BETA", 1, 10), replica("DELTA", 10, 10))
    (decision,) = broker_tasks(database, loaded)
    assert decision["rejected"] == {"BETA": "insize"}
    assert weights(decision) == approx({"ALPHA": 1.0})


def test_tape_counts_as_data_but_little_in_the_weight(database: Database) -> None:
    on_tape = {**replica("BETA", 10, 10), "rse": "BETA_TAPE", "is_tape": True}
    loaded = with_input(on_tape, replica("BETA", 4, 10), replica("ALPHA", 10, 10))
    (decision,) = broker_tasks(database, loaded)
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
    loaded = with_input(*(replica(site, found, 10) for site, found in replicas), ddm_endpoint=endpoints)
    (decision,) = broker_tasks(database, loaded)
    assert decision["reason"] == reason


def test_staged_input_may_be_incomplete_where_some_of_it_is(database: Database) -> None:
    task = waiting(iointensity=900, taskpriority=100, splitrule="NF=1,IS=1")
    loaded = with_input(replica("ALPHA", 1, 200), replica("DELTA", 150, 200), files=200, task=task)
    (decision,) = broker_tasks(database, loaded)
    assert decision["rejected"] == {"BETA": "insize"}
    assert weights(decision) == approx({"ALPHA": 2.0 / 200})


def secondary(name: str, **columns: Any) -> Row:
    """A second input dataset."""
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
def test_which_datasets_count(database: Database, name: str, parameters: str | None, reason: str) -> None:
    """The second dataset is nowhere. If it does not count, the task gets a nucleus: the dry run looks up no files."""
    loaded = with_input(replica("ALPHA", 10, 10), jedi_taskparams=[{"jeditaskid": TASK, "taskparams": parameters}])
    loaded.tables["jedi_datasets"].append(secondary(name))
    for row in input_files(10, 2 * GB):
        loaded.tables["jedi_dataset_contents"].append({**row, "datasetid": 8500})
    (decision,) = broker_tasks(database, loaded)
    assert (decision["outcome"], decision["reason"]) == ("pending" if reason else "brokered", reason)


def test_parts_of_a_container_are_summed(database: Database) -> None:
    """Three parts of 10 files: ALPHA has one whole and half of another, BETA all, DELTA the third."""
    contents = [
        {"scope": "mc", "name": "mc.input", "child_scope": "mc", "child_name": f"mc.part{number}"}
        for number in range(3)
    ]
    there = [("ALPHA", 0, 10), ("ALPHA", 1, 5), *(("BETA", number, 10) for number in range(3)), ("DELTA", 2, 10)]
    replicas = [{**replica(site, found, 10), "name": f"mc.part{number}"} for site, number, found in there]
    loaded = with_input(*replicas, files=30, container_contents=contents)
    for row in loaded.tables["jedi_datasets"]:
        if row["type"] == "input":
            row["datasetname"] = "mc:mc.input/"
    (decision,) = broker_tasks(database, loaded)
    assert weights(decision) == approx({"ALPHA": 2.0 * 0.5, "BETA": 0.5})


def test_a_virtual_placement_holds_nothing(database: Database) -> None:
    virtual = {**replica("BETA", 10, 10), "state": "VP"}
    (decision,) = broker_tasks(database, with_input(virtual, replica("ALPHA", 10, 10)))
    assert decision["rejected"] == {"BETA": "insize"}
    load(database, with_input(virtual), replace=True)
    assert cycle_at(database)[1][0]["reason"] == "no_complete_replica"
