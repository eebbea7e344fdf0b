"""Bad input of the task brokerage: each kind has its own outcome and reason, and affects no other task."""

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


def with_good_task(bad_tables: dict[str, list[Row]]) -> Any:
    """Make the scenario with the bad tables, and add a second task with good input."""
    grid = task_scenario(**bad_tables)
    grid.tables["jedi_tasks"].append(waiting(jeditaskid=GOOD, gshare="Other"))
    grid.tables["jedi_datasets"] += [pseudo_input(jeditaskid=GOOD, datasetid=8600), *outputs(GOOD, 8700)]
    for row in input_files(5, 0, type="pseudo_input", fsize=None):
        grid.tables["jedi_dataset_contents"].append({**row, "jeditaskid": GOOD, "datasetid": 8600})
    return grid


def parameters(text: str | None) -> dict[str, list[Row]]:
    return {"jedi_taskparams": [{"jeditaskid": TASK, "taskparams": text}]}


NO_FILES: dict[str, list[Row]] = {"jedi_dataset_contents": []}
NOTHING: dict[str, list[Row]] = {}


@pytest.mark.parametrize(
    ("bad_tables", "reason"),
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
def test_a_task_with_bad_input_does_not_disturb_another(
    database: Database, bad_tables: dict[str, list[Row]], reason: str
) -> None:
    first, second = broker_tasks(database, with_good_task(bad_tables))
    assert (first["jeditaskid"], first["reason"]) == (TASK, reason)
    assert first["outcome"] == ("pending" if reason else "brokered")
    assert second["outcome"] == "brokered" and weights(second) == pytest.approx(WEIGHTS)


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"space_free": None}, "unknown_space"),
        ({"space_free": None, "space_total": None, "space_expired": None}, "unknown_space"),
        ({"space_free": -5}, "match"),  # an endpoint with impossible figures is left out
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


def test_replicas_at_unknown_endpoints(database: Database) -> None:
    """Such replicas belong to no nucleus, but are a source that may be open."""
    unknown = {**replica("ALPHA", 10, 10), "rse": "NOT_ON_RECORD"}
    grid = task_scenario(
        jedi_tasks=[waiting(iointensity=900, taskpriority=1)],
        jedi_datasets=[dataset(10, nevents=1000), *outputs()],
        jedi_dataset_contents=input_files(10, 2 * GB),
        dataset_replicas=[unknown],
    )
    (decision,) = broker_tasks(database, grid)
    assert decision["rejected"] == {"ALPHA": "insize", "BETA": "insize"}


@pytest.mark.parametrize("columns", [{"nevents": None}, {"nevents": 100, "neventsused": 900}, {"nfiles": None}])
def test_unknown_work_counts_as_none(database: Database, columns: dict[str, Any]) -> None:
    task, work = busy(101, "ALPHA", 5000)
    grid = task_scenario(jedi_tasks=[waiting(), task], jedi_datasets=[pseudo_input(), *outputs(), {**work, **columns}])
    (decision,) = broker_tasks(database, grid)
    assert weights(decision) == pytest.approx(WEIGHTS)


def test_replicas_without_numbers(database: Database) -> None:
    countless = {**replica("ALPHA", 10, 10), "available_files": None, "total_files": None}
    countless |= {"available_bytes": None, "total_bytes": None}
    grid = task_scenario(
        jedi_tasks=[waiting(iointensity=900, taskpriority=1)],
        jedi_datasets=[dataset(10, nevents=1000), *outputs()],
        jedi_dataset_contents=input_files(10, 2 * GB),
        dataset_replicas=[countless],
    )
    (decision,) = broker_tasks(database, grid)
    assert decision["reason"] == "no_complete_replica"


def test_a_task_without_priority_share_or_estimates(database: Database) -> None:
    columns = dict.fromkeys(("currentpriority", "taskpriority", "gshare", "iointensity", "cputime", "cputimeunit"))
    (decision,) = broker_tasks(database, task_scenario(jedi_tasks=[waiting(**columns)]))
    assert decision["outcome"] == "brokered"
