"""The agents of both summaries, on tables of ours and on materialised views alongside PanDA."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ConfigurationError, ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker import resources
from broker.snapshot.source import assess
from broker.snapshot.source_list import limits_of
from broker.snapshot.sources.gpus import GPUS
from broker.snapshot.sources.worker_nodes import WORKER_NODES
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema import migrate
from broker.store.service import leases
from broker.store.service.agent_runs import RunRecord
from broker.store.service.leases import LeaseTerms
from broker.store.snapshots.source_reads import SourceReader, read_sources

MakeDatabase = Callable[..., Database]
NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
STAMP = "2026-08-01T10:00:00"
GPU, CPU = "gpu_summary", "worker_nodes"
TABLES = {GPU: "doma_panda.mv_worker_node_gpu_summary", CPU: "doma_panda.mv_worker_node_summary"}
REPORTS: dict[str, list[dict[str, Any]]] = {
    "worker_node": [{"site": "S", "host_name": "h", "cpu_model": "c", "n_logical_cpus": 4, "last_seen": STAMP}],
    "worker_node_gpus": [{"site": "S", "host_name": "h", "vendor": "NVIDIA", "model": "A100", "last_seen": STAMP}],
    "worker_node_queue": [{"site": "S", "host_name": "h", "panda_queue": "Q", "last_seen": STAMP}],
}


def cycle(database: Database, name: str, now: datetime = NOW, dry: bool = False, **options: Any) -> RunRecord:
    return run(database, registry.make(name, options, ProcessSettings()), now, dry)


def run(database: Database, agent: Any, now: datetime = NOW, dry: bool = False) -> RunRecord:
    if dry:
        return run_cycle(agent, CycleContext(database, now, 1, 60.0, CycleRequest(dry_run=True)))
    with database.begin() as connection:
        connection.execute(sa.text("DELETE FROM broker.leases"))
        lease = leases.acquire(connection, agent.name, "test", LeaseTerms()).lease
    assert lease is not None
    context = CycleContext(database, now, 1, 60.0, lease=lease, run_id=open_run(database, agent.name, lease))
    return run_cycle(agent, context)


def count(database: Database, table: str) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one())


def feed_reports(database: Database) -> Database:
    """Store the reports as pilots do, without the summaries that the loading of a scenario makes."""
    load(database, Scenario(NOW, REPORTS))
    with database.begin() as connection:
        for table in (*TABLES.values(), "broker.summary_refreshes"):
            connection.execute(sa.text(f"DELETE FROM {table}"))
    return database


@pytest.mark.parametrize("name", [GPU, CPU])
def test_a_summary_follows_the_reports(database: Database, name: str) -> None:
    feed_reports(database)
    dry = cycle(database, name, dry=True)
    assert dry.counts == {"newest_report_age_s": 7200, "rows": 1, "added": 1, "removed": 0}
    assert count(database, TABLES[name]) == count(database, "broker.summary_refreshes") == 0
    record = cycle(database, name)
    assert (record.outcome, record.counts, record.notes) == ("done", dry.counts, ())
    assert count(database, TABLES[name]) == 1
    assert cycle(database, name).counts == dry.counts | {"added": 0}
    later = cycle(database, name, NOW + timedelta(days=40))
    assert later.counts == {"newest_report_age_s": 7200 + 40 * 86400, "rows": 0, "added": 0, "removed": 1}


@pytest.mark.parametrize("name", [GPU, CPU])
@pytest.mark.parametrize("missing", ["worker_node_queue", "the other"])
def test_a_summary_without_reports_stays_as_it_is(database: Database, name: str, missing: str) -> None:
    feed_reports(database)
    cycle(database, name)
    empty_table = missing if missing != "the other" else {GPU: "worker_node_gpus", CPU: "worker_node"}[name]
    with database.begin() as connection:
        connection.execute(sa.text(f"DELETE FROM doma_panda.{empty_table}"))
    for dry in (True, False):
        record = cycle(database, name, NOW + timedelta(hours=1), dry=dry)
        assert record.outcome == "done"
        assert f"there are no rows in {empty_table}: {TABLES[name].partition('.')[2]} stays as it is" in record.notes
    assert count(database, TABLES[name]) == 1
    with database.begin() as connection:
        assert connection.scalar(sa.text("SELECT max(refreshed_for) FROM broker.summary_refreshes")) == NOW


@pytest.mark.parametrize(("age_s", "is_remarked"), [(7200, False), (7201, True)])
def test_old_reports_are_remarked_on(database: Database, age_s: int, is_remarked: bool) -> None:
    feed_reports(database)
    now = datetime(2026, 8, 1, 10, tzinfo=UTC) + timedelta(seconds=age_s)
    record = cycle(database, GPU, now, remark_after_s=7200)
    assert record.counts["newest_report_age_s"] == age_s
    assert record.notes == (
        ("the newest report in worker_node_gpus is 7201 s old (remark_after_s 7200)",) * is_remarked
    )


def test_reports_without_a_time_are_remarked_on(database: Database) -> None:
    feed_reports(database)
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE doma_panda.worker_node_gpus SET last_seen = NULL"))
    record = cycle(database, GPU)
    assert record.notes == ("no row of worker_node_gpus says when it was last seen",)
    assert record.counts == {"rows": 0, "added": 0, "removed": 0}


def test_without_its_lease_nothing_is_written(database: Database) -> None:
    feed_reports(database)
    agent = registry.make(GPU, {}, ProcessSettings())
    with database.begin() as connection:
        lease = leases.acquire(connection, GPU, "test", LeaseTerms()).lease
        assert lease is not None
        run_id = open_run(database, GPU, lease)
        connection.execute(sa.text("UPDATE broker.leases SET expires_at = clock_timestamp()"))
    assert run_cycle(agent, CycleContext(database, NOW, 1, 60.0, lease=lease, run_id=run_id)).outcome == "lost_lease"
    assert count(database, TABLES[GPU]) == 0


@pytest.mark.parametrize("value", [0, -1, float("inf"), "soon"])
def test_options_are_checked(value: object) -> None:
    with pytest.raises(ConfigurationError, match="remark_after_s"):
        registry.make(GPU, {"remark_after_s": value}, ProcessSettings())


def states(database: Database, now: datetime) -> dict[str, str]:
    limits = limits_of(
        {name: {"max_age_s": 86400} for name in ("gpus", "worker_nodes")},
    )
    with database.read_snapshot() as connection:
        reader = SourceReader(connection, TableCatalogue.read(connection, database.names), now)
        sources, _ = read_sources(reader, (GPUS, WORKER_NODES))
    return {name: assess(sources[name], now, limits[name])[1].state for name in ("gpus", "worker_nodes")}


def test_the_sources_of_the_snapshot_are_as_old_as_the_last_refresh(database: Database) -> None:
    feed_reports(database)
    cycle(database, GPU)
    late = NOW + timedelta(seconds=86401)
    assert states(database, NOW + timedelta(seconds=86400)) == {"gpus": "ok", "worker_nodes": "ok"}
    assert states(database, late) == {"gpus": "stale", "worker_nodes": "ok"}
    cycle(database, GPU, late)
    assert states(database, late) == {"gpus": "ok", "worker_nodes": "ok"}
    load(database, Scenario(NOW, {}), replace=True)
    assert states(database, late) == {"gpus": "ok", "worker_nodes": "ok"}


def test_a_loaded_summary_has_no_age_and_a_computed_one_has(database: Database) -> None:
    loaded = {"mv_worker_node_gpu_summary": [{"panda_queue": "Q", "vendor": "NVIDIA"}]}
    load(database, Scenario(NOW, loaded))
    assert cycle(database, GPU).counts == {}
    assert states(database, NOW + timedelta(days=99))["gpus"] == "ok"
    assert count(database, TABLES[GPU]) == 1
    load(database, Scenario(NOW, REPORTS), replace=True)
    assert count(database, TABLES[GPU]) == count(database, TABLES[CPU]) == 1
    assert states(database, NOW) == {"gpus": "ok", "worker_nodes": "ok"}
    assert states(database, NOW + timedelta(days=2)) == {"gpus": "stale", "worker_nodes": "stale"}


def test_the_shipped_limits_allow_for_missed_refreshes() -> None:
    limits = limits_of(yaml.safe_load(resources.path("config/sources.yaml").read_text(encoding="utf-8")))
    assert limits["gpus"].max_age_s == limits["worker_nodes"].max_age_s == 24 * 3600


VIEW = """
    CREATE SCHEMA doma_panda;
    CREATE TABLE doma_panda.jedi_tasks (jeditaskid bigint);
    CREATE TABLE doma_panda.worker_node_gpus (site text, host_name text, model text, last_seen timestamp);
    CREATE TABLE doma_panda.worker_node_queue (site text, host_name text, panda_queue text, last_seen timestamp);
    INSERT INTO doma_panda.worker_node_gpus VALUES ('S', 'h', 'A100', '2026-08-01 10:00');
    INSERT INTO doma_panda.worker_node_queue VALUES ('S', 'h', 'Q', '2026-08-01 10:00');
    CREATE MATERIALIZED VIEW doma_panda.mv_worker_node_gpu_summary AS
        SELECT panda_queue, model, count(*) AS host_count FROM doma_panda.worker_node_gpus
        JOIN doma_panda.worker_node_queue USING (site, host_name) GROUP BY 1, 2 WITH NO DATA"""
INDEX = "CREATE UNIQUE INDEX ux ON doma_panda.mv_worker_node_gpu_summary (panda_queue, model)"
MORE = "INSERT INTO doma_panda.worker_node_gpus VALUES ('S', 'h', 'H100', '2026-08-01 11:00')"


@pytest.fixture
def panda(empty_database: Database) -> Database:
    """A database of PanDA's with the index and the view, which was never filled."""
    do(empty_database, VIEW, INDEX)
    migrate.upgrade(empty_database)
    return empty_database


def do(database: Database, *statements: str) -> None:
    with database.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_a_view_is_filled_and_then_refreshed_beside_its_readers(panda: Database) -> None:
    first = cycle(panda, GPU)
    assert (first.outcome, first.counts, first.notes) == ("done", {"newest_report_age_s": 7200, "rows": 1}, ())
    do(panda, MORE)
    # a reader inside its transaction would block a refresh that is not concurrent
    with panda.read_snapshot() as reader:
        assert reader.scalar(sa.text(f"SELECT count(*) FROM {TABLES[GPU]}")) == 1
        assert cycle(panda, GPU).counts == {"newest_report_age_s": 3600, "rows": 2}
    assert count(panda, TABLES[GPU]) == 2
    with panda.begin() as connection:
        assert connection.scalar(sa.text("SELECT refreshed_for FROM broker.summary_refreshes")) == NOW


def test_a_view_is_not_touched_by_a_dry_run(panda: Database) -> None:
    assert cycle(panda, GPU, dry=True).counts == {"newest_report_age_s": 7200}
    with panda.begin() as connection:
        assert not connection.scalar(sa.text("SELECT relispopulated FROM pg_class WHERE relname LIKE 'mv%'"))


def test_a_view_without_a_unique_index_is_left_to_panda_once_it_is_filled(panda: Database) -> None:
    do(panda, "DROP INDEX doma_panda.ux", "CREATE INDEX plain ON doma_panda.mv_worker_node_gpu_summary (model)")
    assert cycle(panda, GPU).counts["rows"] == 1
    do(panda, MORE)
    record = cycle(panda, GPU)
    assert record.outcome == "done" and "rows" not in record.counts
    assert "no unique index" in record.notes[0] and "PanDA refreshes it" in record.notes[0]
    assert count(panda, TABLES[GPU]) == 1
    assert count(panda, "broker.summary_refreshes") == 0


def test_the_view_of_another_role_is_left_to_panda_and_noted_once(panda: Database) -> None:
    role = sa.make_url(panda.url).database
    do(
        panda,
        f'CREATE ROLE "{role}" LOGIN',
        f'GRANT USAGE ON SCHEMA doma_panda, broker TO "{role}"',
        f'GRANT SELECT ON ALL TABLES IN SCHEMA doma_panda TO "{role}"',
        f'GRANT ALL ON ALL TABLES IN SCHEMA broker TO "{role}"',
        f'GRANT ALL ON ALL SEQUENCES IN SCHEMA broker TO "{role}"',
    )
    cycle(panda, GPU)
    url = sa.make_url(panda.url).set(username=role).render_as_string(hide_password=False)
    agent = registry.make(GPU, {}, ProcessSettings())
    try:
        with Database(url) as database:
            first, second = run(database, agent), run(database, agent)
            do(panda, f'GRANT "{panda_owner(panda)}" TO "{role}"')
            third = run(database, agent)
    finally:
        do(panda, f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"')
    assert first.outcome == second.outcome == third.outcome == "done"
    assert first.notes == (
        "mv_worker_node_gpu_summary is left as it is: the role of the broker does not own the materialised view, so"
        " PanDA refreshes it",
    )
    assert first.counts == second.counts == {"newest_report_age_s": 7200}
    assert second.notes == third.notes == ()
    assert third.counts["rows"] == 1


def panda_owner(database: Database) -> str:
    with database.begin() as connection:
        return str(connection.scalar(sa.text("SELECT relowner::regrole FROM pg_class WHERE relname LIKE 'mv%'")))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE doma_panda.mv_worker_node_summary (panda_queue text)", "a table of PanDA's"),
        ("CREATE VIEW doma_panda.mv_worker_node_summary AS SELECT 1 AS x", "a relation of PanDA's"),
        ("SELECT 1", "there is none"),
    ],
)
def test_any_other_relation_is_left_alone(panda: Database, statement: str, message: str) -> None:
    do(panda, statement)
    record = cycle(panda, CPU)
    assert record.outcome == "done"
    assert message in record.notes[-1]
    assert count(panda, "broker.summary_refreshes") == 0
