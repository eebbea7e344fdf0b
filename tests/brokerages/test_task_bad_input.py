"""Bad input of the task brokerage: each kind has an outcome and a reason of its own, and disturbs no other task."""

from __future__ import annotations

from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.brokerages.small_grid import GB, TASK, Row, dataset, input_files, replica
from tests.brokerages.task_grid import (
    WEIGHTS,
    broker_tasks,
    busy,
    changed,
    outputs,
    pseudo_input,
    task_scenario,
    waiting,
    weights,
)

GOOD = TASK + 1


def with_a_good_one(bad: dict[str, list[Row]]) -> Any:
    """The scenario, and a second task that nothing is wrong with."""
    loaded = task_scenario(**bad)
    loaded.tables["jedi_tasks"].append(waiting(jeditaskid=GOOD, gshare="Other"))
    loaded.tables["jedi_datasets"] += [pseudo_input(jeditaskid=GOOD, datasetid=8600), *outputs(GOOD, 8700)]
    for row in input_files(5, 0, type="pseudo_input", fsize=None):
        loaded.tables["jedi_dataset_contents"].append({**row, "jeditaskid": GOOD, "datasetid": 8600})
    return loaded


def parameters(text: str | None) -> dict[str, list[Row]]:
    return {"jedi_taskparams": [{"jeditaskid": TASK, "taskparams": text}]}


NO_FILES: dict[str, list[Row]] = {"jedi_dataset_contents": []}
NOTHING: dict[str, list[Row]] = {}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (parameters("{not json"), "bad_task_parameters"),
        (parameters("[1, 2]"), "bad_task_parameters"),
        (parameters(""), "bad_task_parameters"),
        (parameters('"text"'), "bad_task_parameters"),
        (parameters("[" * 100_000), "bad_task_parameters"),
        (parameters(None), ""),
        (parameters("{}"), ""),
        (NOTHING, ""),
        (NO_FILES, "no_ready_input"),
        ({"jedi_datasets": [pseudo_input()]}, ""),
        ({"jedi_datasets": [*outputs()]}, "no_ready_input"),
    ],
)
def test_a_task_that_cannot_be_read(database: Database, bad: dict[str, list[Row]], reason: str) -> None:
    first, second = broker_tasks(database, with_a_good_one(bad))
    assert (first["jeditaskid"], first["reason"]) == (TASK, reason)
    assert first["outcome"] == ("pending" if reason else "brokered")
    assert second["outcome"] == "brokered" and weights(second) == pytest.approx(WEIGHTS)


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"space_free": None}, "unknown_space"),
        ({"space_free": None, "space_total": None, "space_expired": None}, "unknown_space"),
        ({"space_free": -5}, "match"),  # an endpoint whose figures cannot be is left out
        ({"space_expired": -1}, "match"),
        ({"detailed_status": "no object"}, None),
        ({"detailed_status": {"read_wan": "BROKEN"}}, "source_blacklist"),
        ({"detailed_status": {"read_wan": None, "write_wan": ""}}, None),
        ({"space_total": None}, None),
        ({"space_total": 0}, None),
    ],
)
def test_storages_with_odd_figures(database: Database, columns: dict[str, Any], code: str | None) -> None:
    endpoints = changed("ddm_endpoint", "ddm_endpoint_name", "BETA_DATADISK", **columns)
    (decision,) = broker_tasks(database, task_scenario(ddm_endpoint=endpoints))
    assert decision["rejected"] == ({} if code is None else {"BETA": code})
    assert all(0 <= weight < float("inf") for weight in weights(decision).values())


def test_a_storage_of_unknown_size_is_weighed_by_work_alone(database: Database) -> None:
    endpoints = changed("ddm_endpoint", "ddm_endpoint_name", "BETA_DATADISK", space_total=None)
    (decision,) = broker_tasks(database, task_scenario(ddm_endpoint=endpoints))
    assert weights(decision) == pytest.approx({"ALPHA": WEIGHTS["ALPHA"], "BETA": 1 / 50})


def test_replicas_of_endpoints_that_nobody_knows(database: Database) -> None:
    """They are no data of any nucleus, but a source that is not known to be closed."""
    unknown = {**replica("ALPHA", 10, 10), "rse": "NOT_ON_RECORD"}
    loaded = task_scenario(
        jedi_tasks=[waiting(iointensity=900, taskpriority=1)],
        jedi_datasets=[dataset(10, nevents=1000), *outputs()],
        jedi_dataset_contents=input_files(10, 2 * GB),
        dataset_replicas=[unknown],
    )
    (decision,) = broker_tasks(database, loaded)
    assert decision["rejected"] == {"ALPHA": "insize", "BETA": "insize"}


@pytest.mark.parametrize("columns", [{"nevents": None}, {"nevents": 100, "neventsused": 900}, {"nfiles": None}])
def test_work_that_is_not_known_counts_nothing(database: Database, columns: dict[str, Any]) -> None:
    task, work = busy(101, "ALPHA", 5000)
    loaded = task_scenario(
        jedi_tasks=[waiting(), task], jedi_datasets=[pseudo_input(), *outputs(), {**work, **columns}]
    )
    (decision,) = broker_tasks(database, loaded)
    assert weights(decision) == pytest.approx(WEIGHTS)


def test_replicas_without_numbers(database: Database) -> None:
    nothing = {**replica("ALPHA", 10, 10), "available_files": None, "total_files": None}
    nothing |= {"available_bytes": None, "total_bytes": None}
    loaded = task_scenario(
        jedi_tasks=[waiting(iointensity=900, taskpriority=1)],
        jedi_datasets=[dataset(10, nevents=1000), *outputs()],
        jedi_dataset_contents=input_files(10, 2 * GB),
        dataset_replicas=[nothing],
    )
    (decision,) = broker_tasks(database, loaded)
    assert decision["reason"] == "no_complete_replica"


def test_a_task_without_priority_share_or_estimates(database: Database) -> None:
    columns = dict.fromkeys(("currentpriority", "taskpriority", "gshare", "iointensity", "cputime", "cputimeunit"))
    (decision,) = broker_tasks(database, task_scenario(jedi_tasks=[waiting(**columns)]))
    assert decision["outcome"] == "brokered"
