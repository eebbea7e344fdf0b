from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.connection.tables import Names
from broker.store.scenarios.load_dump import TablesNotEmpty, dump, load, read_clock
from broker.store.scenarios.scenario_file import BadScenario, Scenario, read_scenario, write_scenario
from broker.store.schema import migrate

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)

# One or two rows of every kind of table and column.
TABLES: dict[str, list[dict[str, Any]]] = {
    "site": [{"site_name": 'O\'Brien "%s" \\N\n\t', "role": "nucleus"}, {"site_name": "Zürich"}],
    "schedconfig_json": [
        {"panda_queue": "Q", "data": {"b": 1, "a": [1.5, None, {"x": "ü"}]}, "last_update": "2026-08-01T11:00:00"}
    ],
    "ddm_endpoint": [{"ddm_endpoint_name": "E", "space_free": 10**12, "detailed_status": {"read_wan": "OFF"}}],
    "sitedata": [{"site": "Q", "flag": "production", "hours": 3, "getjob": 0, "updatejob": 4}],
    "harvester_slots": [
        {"pandaqueuename": "Q", "numslots": 0},
        {"pandaqueuename": "Q", "numslots": 0},
        {"pandaqueuename": "Q", "gshare": "S", "numslots": 5},
    ],
    "resource_types": [{"resource_name": "Z", "mincore": 1}, {"resource_name": "A", "mincore": 2}],
    "config": [
        {"app": "jedi", "component": "c", "key": "K", "vo": "atlas", "value": "1", "type": "int"},
        {"app": "jedi", "component": "c", "key": "J", "vo": "atlas", "type": "json", "value_json": [1, 2]},
    ],
    "sw_tags": [{"panda_queue": "Q", "data": {"tags": []}, "last_update": "2026-08-01T11:59:59.123456"}],
    "metrics": [{"metric": "m", "value_json": {"z": 1, "a": 2}}, {"gshare": "NULL"}],
    "task_evaluation": [{"jeditaskid": 1, "metric": "m", "value_json": {"class": 1}}],
    "jedi_tasks": [{"jeditaskid": 1, "memory_leak_x2": 1.125, "cpuefficiency": 0, "splitrule": ""}],
    "jedi_taskparams": [{"jeditaskid": 1, "taskparams": '{"a": 1}'}],
    "jedi_datasets": [{"jeditaskid": 1, "datasetid": 40, "datasetname": "d"}],
    "jobsactive4": [{"pandaid": 900, "minramunit": "MB", "meancorecount": 2, "cpuconsumptiontime": 10**15}],
    "jobsarchived4": [{"pandaid": 50}],
    "filestable4": [{"row_id": 7, "pandaid": 50}],
    "dataset_replicas": [{"scope": "s", "name": "n", "rse": "r", "is_tape": False, "total_bytes": 2**40}],
    "dataset_metadata": [{"scope": "s", "name": "n", "rule_groupings": ["NONE"]}],
}


def scenario(**tables: list[dict[str, Any]]) -> Scenario:
    return Scenario(NOON, tables)


def test_a_loaded_scenario_survives_dump_and_reload(
    database: Database, make_database: Callable[..., Database], tmp_path: Path
) -> None:
    original = Scenario(NOON, TABLES)
    assert load(database, original) == {name: len(rows) for name, rows in TABLES.items()}
    dump_result = dump(database, NOON + timedelta(days=1))
    assert dump_result.now == NOON
    for name, rows in TABLES.items():
        assert sorted(map(repr, dump_result.tables[name])) == sorted(
            repr(_in_order(r, dump_result.tables[name])) for r in rows
        )
    write_scenario(tmp_path / "s.json.gz", dump_result)
    second_database = make_database()
    load(second_database, read_scenario(tmp_path / "s.json.gz"))
    assert dump(second_database, NOON) == dump_result


def _in_order(row: dict[str, Any], dumped_rows: Any) -> dict[str, Any]:
    """Return the row with its columns in the order of the equal dumped row."""
    twin = next((candidate for candidate in dumped_rows if candidate == row), None)
    return dict(twin) if twin is not None else row


def test_tables_where_the_first_match_counts_keep_their_order(database: Database) -> None:
    load(database, Scenario(NOON, TABLES))
    assert [row["resource_name"] for row in dump(database, NOON).tables["resource_types"]] == ["Z", "A"]


def test_an_empty_database_is_dumped_with_the_requested_time(database: Database) -> None:
    assert dump(database, NOON) == Scenario(NOON, {})


def test_the_clock_is_stored(database: Database) -> None:
    with database.read_snapshot() as connection:
        assert read_clock(connection) is None
    load(database, scenario(site=[{"site_name": "S"}]))
    load(database, Scenario(NOON + timedelta(hours=1), {}), replace=True)
    with database.read_snapshot() as connection:
        assert read_clock(connection) == NOON + timedelta(hours=1)


def test_existing_rows_are_not_mixed_with_a_scenario(database: Database) -> None:
    load(database, scenario(site=[{"site_name": "S"}], panda_site=[{"panda_site_name": "Q"}]))
    with pytest.raises(TablesNotEmpty, match="--replace"):
        load(database, scenario(ddm_endpoint=[{"ddm_endpoint_name": "E"}]))
    assert set(dump(database, NOON).tables) == {"site", "panda_site"}
    load(database, scenario(ddm_endpoint=[{"ddm_endpoint_name": "E"}]), replace=True)
    assert set(dump(database, NOON).tables) == {"ddm_endpoint"}


@pytest.mark.parametrize("sites", [2, 1200])
def test_tables_linked_by_foreign_keys_are_replaced_together(
    make_database: Callable[..., Database], sites: int
) -> None:
    database = make_database()
    site, panda_site = (database.names.table(name) for name in ("site", "panda_site"))
    with database.begin() as connection:
        connection.exec_driver_sql(
            f"ALTER TABLE {panda_site} ADD FOREIGN KEY (site_name) REFERENCES {site} (site_name)"
        )
    old = [{"site_name": f"S{number}"} for number in range(sites)]
    load(database, scenario(site=old))
    with database.begin() as connection:
        connection.exec_driver_sql(f"INSERT INTO {panda_site} (panda_site_name, site_name) VALUES ('Q', 'S0')")
    load(database, scenario(site=[{"site_name": "NEW"}]), replace=True)
    assert dump(database, NOON).tables == {"site": [{"site_name": "NEW"}]}


def test_replacing_removes_the_decisions_about_the_old_tasks(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO broker.decisions (jeditaskid, brokerage, outcome, decided_at) VALUES (1, 'b', 'o', now())"
        )
    load(database, scenario(site=[{"site_name": "S"}]))
    with database.read_snapshot() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM broker.decisions")) == 1
    load(database, scenario(site=[{"site_name": "S"}]), replace=True)
    with database.read_snapshot() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM broker.decisions")) == 0


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"sites": [{}]}, "unknown table 'sites'.*did you mean site"),
        ({"leases": [{}]}, "unknown table 'leases'"),
        ({"zzzzzz": [{}]}, "unknown table 'zzzzzz'.*known are"),
        (
            {"site": [{"site_name": "S"}, {"site_nam": "T"}]},
            "unknown column 'site_nam'; table site, row 2; did you mean site_name",
        ),
        ({"site": [{"role": "nucleus"}]}, "no value; table site, row 1, column site_name"),
        ({"site": [{"site_name": "S"}, {"site_name": None}]}, "no value; table site, row 2, column site_name"),
        ({"site": [{"site_name": "S"}, {"site_name": "S"}]}, "repeats that of row 1; table site, row 2"),
        (
            {"site": [{"site_name": "S", "tier_level": "two"}]},
            "whole number, found 'two'; table site, row 1, column tier_level",
        ),
        (
            {"site": [{"site_name": "S" * 53}]},
            "53 characters, the column takes 52; table site, row 1, column site_name",
        ),
        ({"jedi_tasks": [{"jeditaskid": 1}, {"jeditaskid": 2, "starttime": "noon"}]}, "row 2, column starttime"),
        (
            {"worker_node": [{"site": "s", "host_name": "h", "cpu_model": "c", "clock_speed": 1e9}]},
            "worker_node.*line 1",
        ),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_stored(
    shared_database: Database, tables: dict[str, list[dict[str, Any]]], message: str
) -> None:
    with pytest.raises(BadScenario, match=message):
        load(shared_database, Scenario(NOON, {"panda_site": [{"panda_site_name": "Q"}], **tables}))
    assert dump(shared_database, NOON).tables == {}


def test_sequences_advance_past_used_ids_and_never_go_back(database: Database) -> None:
    load(database, Scenario(NOON, TABLES))
    query = "SELECT nextval('doma_panda.jobsdefined4_pandaid_seq'), nextval('doma_panda.jedi_datasets_id_seq')"
    with database.begin() as connection:
        assert tuple(connection.execute(sa.text(query)).one()) == (901, 41)
    load(database, scenario(jobsactive4=[{"pandaid": 3}]), replace=True)
    with database.begin() as connection:
        assert tuple(connection.execute(sa.text(query)).one()) == (902, 42)


def gpu(host: str, last_seen: str, **columns: Any) -> dict[str, Any]:
    defaults = {"vendor": "NVIDIA", "model": "A100", "count": 4, "vram": 81920, "driver_version": "550.1"}
    return {"site": "S", "host_name": host, "last_seen": last_seen, **defaults, **columns}


GPU_TABLES = {
    "worker_node_gpus": [
        gpu("h1", "2026-07-31T00:00:00"),
        gpu("h2", "2026-07-31T00:00:00"),
        gpu("h3", "2026-07-31T00:00:00", count=8),
        gpu("h4", "2026-07-01T12:00:00"),
        gpu("h5", "2026-07-01T12:00:01"),
        gpu("h6", "2026-07-31T00:00:00"),
    ],
    "worker_node_queue": [
        {"site": "S", "host_name": host, "panda_queue": queue}
        for host, queue in (("h1", "Q"), ("h1", "P"), ("h2", "Q"), ("h3", "Q"), ("h4", "Q"), ("h5", "Q"))
    ],
}


def test_the_gpu_summary_is_computed_from_nodes_and_queues(database: Database) -> None:
    load(database, Scenario(NOON, GPU_TABLES))
    rows = dump(database, NOON).tables["mv_worker_node_gpu_summary"]
    groups = {(row["panda_queue"], row["gpus_per_host"], row["host_count"]) for row in rows}
    # h4 was last seen a month ago to the second, h6 is in no queue; queue P has h1, queue Q also h2 and h5.
    assert groups == {("P", 4, 1), ("Q", 4, 3), ("Q", 8, 1)}


def test_a_gpu_summary_in_the_scenario_is_not_extended(database: Database) -> None:
    summary_rows = [{"panda_queue": "Q", "vendor": "NVIDIA", "gpus_per_host": 1}]
    load(database, Scenario(NOON, {**GPU_TABLES, "mv_worker_node_gpu_summary": summary_rows}))
    assert dump(database, NOON).tables["mv_worker_node_gpu_summary"] == summary_rows


def test_nothing_is_loaded_alongside_panda(empty_database: Database) -> None:
    with empty_database.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA doma_panda; CREATE TABLE doma_panda.jedi_tasks (jeditaskid bigint)")
    assert migrate.upgrade(empty_database).mode == migrate.BESIDE
    with pytest.raises(Refused, match="database of its own"):
        load(empty_database, Scenario(NOON, {}), replace=True)


def test_a_database_alongside_panda_can_be_dumped(empty_database: Database) -> None:
    with empty_database.begin() as connection:
        connection.exec_driver_sql(
            "CREATE SCHEMA doma_panda; CREATE TABLE doma_panda.jedi_tasks (jeditaskid bigint, more text);"
            "INSERT INTO doma_panda.jedi_tasks VALUES (1, 'x')"
        )
    migrate.upgrade(empty_database)
    assert dump(empty_database, NOON).tables == {"jedi_tasks": [{"jeditaskid": 1, "more": "x"}]}


def test_scenarios_work_with_other_schema_names(make_database: Callable[..., Database]) -> None:
    database = make_database(migrated=False, names=Names("p", "m"))
    migrate.upgrade(database)
    load(database, Scenario(NOON, TABLES))
    assert set(dump(database, NOON).tables) == set(TABLES)
