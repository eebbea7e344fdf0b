"""Bad grid data, each kind through a whole cycle: the rest is brokered, and the fault is reported."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.scenarios.scenario_file import Scenario
from broker.store.service.agent_runs import RunRecord
from tests.brokerages.small_grid import (
    TASK,
    Row,
    dataset,
    input_files,
    next_cycle,
    one_cycle,
    queue,
    scenario,
    task,
)

ODD_NAMES = ("it's", "two\nlines", "100 %", '"quoted"', "semi;colon--", "{braces}", "\u202ereversed", "tab\there")


def pseudo_work(count: int = 5) -> dict[str, list[Row]]:
    """Make pseudo input, which needs no storage."""
    return {
        "jedi_datasets": [dataset(count, type="pseudo_input", datasetname="pseudo_dataset")],
        "jedi_dataset_contents": input_files(count, 0, type="pseudo_input"),
    }


def run_cycle_on(database: Database, grid: Scenario) -> tuple[RunRecord, list[dict[str, Any]]]:
    """Run one cycle, which must succeed whatever its input."""
    record, decisions = one_cycle(database, grid)
    assert record.outcome == "done", record.error
    return record, decisions


def test_an_unknown_nucleus(database: Database) -> None:
    _, (decision,) = run_cycle_on(database, scenario(jedi_tasks=[task(nucleus="ATLANTIS")], **pseudo_work()))
    assert (decision["outcome"], decision["reason"]) == ("pending", "unknown_nucleus")
    first, last = decision["funnel"][0], decision["funnel"][-1]
    assert first[1] - sum(before - after for _, before, after in decision["funnel"]) == last[2] == 0


def test_relations_to_an_unknown_endpoint(database: Database) -> None:
    grid = scenario(jedi_tasks=[task()], **pseudo_work())
    endpoints = [row for row in grid.tables["ddm_endpoint"] if row["ddm_endpoint_name"] != "GAMMA_DATADISK"]
    record, (decision,) = run_cycle_on(database, Scenario(grid.now, {**grid.tables, "ddm_endpoint": endpoints}))
    assert decision["rejected"]["GAMMA_MCORE"] == "read_lan_blacklist"
    assert decision["outcome"] == "brokered"
    assert any("storages: unknown_endpoint" in note for note in record.notes)


def test_a_task_without_datasets_has_nothing_to_broker(database: Database) -> None:
    record, decisions = run_cycle_on(database, scenario(jedi_tasks=[task()]))
    assert decisions == []
    assert record.counts["chunks"] == 0
    _, (decision,) = next_cycle(database, task_ids=(TASK,))
    assert (decision["outcome"], decision["reason"]) == ("skipped", "no_ready_input")


@pytest.mark.parametrize(
    ("task_columns", "queue_fields"),
    [
        ({"corecount": 0, "currentpriority": 500}, {}),
        ({"cpuefficiency": 0}, {}),
        ({"cpuefficiency": None}, {}),
        ({}, {"corepower": 0}),
        ({}, {"corepower": None}),
        ({}, {"maxtime": 0}),
        ({}, {"maxtime": None}),
        ({}, {"maxwdir": None, "maxinputsize": None}),
        ({"cputime": None, "walltime": None, "cputimeunit": None}, {}),
        ({"ramcount": None}, {}),
        ({"workqueue_id": None, "gshare": None}, {}),
        ({"taskpriority": None}, {}),
        ({"splitrule": "NF=1,ZZ=??,,=,NF=2"}, {}),
    ],
    ids=str,
)
def test_zeros_and_nulls_do_not_stop_brokering(database: Database, task_columns: Row, queue_fields: Row) -> None:
    queues = [queue("ALPHA_MCORE", **queue_fields)]
    _, (decision,) = run_cycle_on(
        database, scenario(jedi_tasks=[task(**task_columns)], schedconfig_json=queues, **pseudo_work())
    )
    assert decision["outcome"] == "brokered"
    assert decision["assigned"] == {"ALPHA_MCORE": 5}


def test_a_queue_of_no_cores_takes_single_core_jobs(database: Database) -> None:
    queues = [queue("ALPHA_MCORE", corecount=0)]
    work = scenario(jedi_tasks=[task(corecount=1)], schedconfig_json=queues, **pseudo_work())
    _, (decision,) = run_cycle_on(database, work)
    assert decision["assigned"] == {"ALPHA_MCORE": 5}


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_pass_through_every_table(database: Database, name: str) -> None:
    share, queue_name = name[:32], f"Q {name}"[:50]
    grid = scenario(
        jedi_tasks=[task(gshare=share, processingtype=name, username=name, workinggroup=name[:20])],
        schedconfig_json=[queue(queue_name)],
        panda_site=[{"panda_site_name": queue_name, "site_name": "ALPHA"}],
        config=[
            {
                "app": "jedi",
                "component": "jobbroker",
                "key": f"NQUEUELIMITSITE_{share}",
                "value": "30",
                "type": "integer",
                "vo": "atlas",
            }
        ],
        **pseudo_work(),
    )
    relations = [{**grid.tables["panda_ddm_relation"][0], "panda_site_name": queue_name}]
    pilots = [{**grid.tables["sitedata"][0], "site": queue_name}]
    tables = {**grid.tables, "panda_ddm_relation": relations, "sitedata": pilots}
    _, (decision,) = run_cycle_on(database, Scenario(grid.now, tables))
    assert decision["assigned"] == {queue_name: 5}
    with database.begin() as connection:
        row = connection.execute(
            sa.text("SELECT DISTINCT computingsite, gshare, produsername FROM doma_panda.jobsdefined4")
        ).one()
    assert tuple(row) == (queue_name, share, name)


def test_a_name_of_a_megabyte_is_left_out(database: Database) -> None:
    queues = [queue("ALPHA_MCORE"), {**queue("x" * 1_000_000), "panda_queue": "huge"}]
    record, (decision,) = run_cycle_on(
        database, scenario(jedi_tasks=[task()], schedconfig_json=queues, **pseudo_work())
    )
    assert decision["assigned"] == {"ALPHA_MCORE": 5}
    assert any(note.startswith("left out 1 x queues:") for note in record.notes)


@pytest.mark.parametrize(
    ("policy", "closed"),
    [
        ("type=[:0", False),  # an unreadable pattern closes nothing
        ("type=(a+)+$:0", False),
        ("__import__('os').abort()", False),  # no value
        (":" * 99, False),
        ("(" * 5000 + ")" * 5000 + ":0", True),  # an unknown field has no condition: the share is zero for all
        ("priority>>>1:0", True),  # an unreadable comparison has no condition either
    ],
    ids=lambda value: str(value)[:20],
)
def test_hostile_share_policies_are_never_executed(database: Database, policy: str, closed: bool) -> None:
    queues = [queue("ALPHA_MCORE", fairsharepolicy=policy)]
    _, (decision,) = run_cycle_on(database, scenario(jedi_tasks=[task()], schedconfig_json=queues, **pseudo_work()))
    assert decision["rejected"] == ({"ALPHA_MCORE": "zeroshare"} if closed else {})


@pytest.mark.parametrize(
    "data", [[], "text", 7, {"nickname": {}}, {"nickname": "BAD", "maxrss": "much"}, {"nickname": "BAD", "status": [1]}]
)
def test_hostile_queue_rows_are_left_out(database: Database, data: Any) -> None:
    queues = [queue("ALPHA_MCORE"), {"panda_queue": "BAD", "data": data}]
    record, (decision,) = run_cycle_on(
        database, scenario(jedi_tasks=[task()], schedconfig_json=queues, **pseudo_work())
    )
    assert list(decision["assigned"]) == ["ALPHA_MCORE"]
    assert any("x queues:" in note for note in record.notes)


def test_a_tuning_row_of_the_wrong_type_keeps_the_default_and_is_reported(database: Database) -> None:
    row = {"app": "jedi", "component": "jobbroker", "key": "NQUEUED_SAT_CAP", "value": "many", "type": "integer"}
    record, (decision,) = run_cycle_on(
        database, scenario(jedi_tasks=[task()], config=[{**row, "vo": "atlas"}], **pseudo_work())
    )
    assert decision["outcome"] == "brokered"
    assert any("NQUEUED_SAT_CAP" in note for note in record.notes)


@pytest.mark.parametrize(
    ("source", "rows", "outcome", "reason"),
    [
        ("schedconfig_json", [], "refused", None),
        ("resource_types", [], "done", None),
        ("sitedata", [], "done", "unknown_pilots"),
        ("ddm_endpoint", [], "done", "unknown_read_lan_blacklist"),
    ],
)
def test_an_empty_source_counts_as_unknown(
    database: Database, source: str, rows: list[Row], outcome: str, reason: str | None
) -> None:
    grid = scenario(jedi_tasks=[task()], **pseudo_work())
    record, decisions = one_cycle(database, Scenario(grid.now, {**grid.tables, source: rows}))
    assert record.outcome == outcome
    if reason is not None:
        (decision,) = decisions
        assert decision["rejected"]["ALPHA_MCORE"] == reason
        assert decision["outcome"] == "pending"


def test_a_stale_source_counts_as_unknown(database: Database) -> None:
    grid = scenario(jedi_tasks=[task()], **pseudo_work())
    stale_rows = [{**row, "lastmod": "2026-07-31T12:00:00"} for row in grid.tables["sitedata"]]
    record, (decision,) = run_cycle_on(database, Scenario(grid.now, {**grid.tables, "sitedata": stale_rows}))
    assert decision["rejected"]["ALPHA_MCORE"] == "unknown_pilots"
    assert any("source pilots is stale" in note for note in record.notes)
