"""Mode `mirrored`: copies of PanDA's tables give the same decisions, and age when they cannot be refreshed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
import sqlalchemy as sa

from agents.brokerage.grid_reading import GridReader
from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings, config_file
from agents.service.cycle import run_cycle
from broker.alongside.answers.mirror_findings import mirror_findings
from broker.alongside.answers.mirrored_work import copy_chunk_of_call, copy_work
from broker.alongside.answers.mirroring import Mirror, PartReport
from broker.alongside.statements.copied_tables import ENDED_JOBS
from broker.alongside.statements.copy_records import CopyRecord, read_records
from broker.alongside.statements.panda_placements import Placement, read_placements
from broker.decisions.answers.agent_cycle import TASK_AGENT, broker_once
from broker.errors import BrokerError, Refused
from broker.store.connection.database import Database
from broker.store.connection.denials import MissingRight
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.needed_columns import needed_faults
from broker.store.scenarios.load_dump import REPLICA_TABLES, load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema import migrate
from tests.alongside.panda_forms import fill_jobs
from tests.alongside.panda_queries import PandaQueries
from tests.alongside.test_variants import BROKERAGES, decide, demo
from tests.brokered_demo import NOON

pytestmark = pytest.mark.slow

MINUTE = timedelta(minutes=1)
#: PanDA's statistics, with one row per job.
_FILL_STATISTICS = """
    INSERT INTO doma_panda.{statistics} (ts, gshare, computingsite, jobstatus, prorated_diskio_avg, njobs, vo,
        workqueue_id, resource_type, nucleus)
    SELECT :now, gshare, computingsite, jobstatus, diskio, 1, vo, workqueue_id, resource_type, nucleus
    FROM doma_panda.{jobs}"""


class Site:
    """PanDA's database, ours with its copies, and the clock of the copies."""

    def __init__(self, panda: Database, mirror: Database) -> None:
        self.panda, self.database = panda, mirror
        self.now = NOON - timedelta(seconds=5)
        self.queries = PandaQueries(panda.url)
        self.mirror = Mirror(mirror, self.queries, lambda: self.now)

    def copy(self) -> dict[str, PartReport]:
        """Copy everything once."""
        return {
            "grid": self.mirror.copy_grid(MINUTE),
            "tasks": self.mirror.copy_tasks(MINUTE),
            "work": copy_work(self.mirror, 10 * MINUTE),
        }

    def run(self, statement: str, **values: Any) -> None:
        """Change PanDA's database."""
        with self.panda.begin() as connection:
            connection.execute(sa.text(statement), values)

    def value(self, query: str) -> Any:
        """A single value from the mirror."""
        with self.database.read_snapshot() as connection:
            return connection.scalar(sa.text(query))

    def panda_row(self, query: str, **values: Any) -> Any:
        """A single row from PanDA's database."""
        with self.panda.read_snapshot() as connection:
            return connection.execute(sa.text(query), values).one()

    def read_at(self, name: str) -> datetime | None:
        with self.database.read_snapshot() as connection:
            return {record.name: record.read_at for record in read_records(connection)}[name]


@pytest.fixture
def site(make_database: Callable[..., Database]) -> Iterator[Site]:
    scenario = demo()
    panda, mirror = make_database(), make_database(migrated=False)
    load(panda, scenario)
    fill_jobs(panda)
    with panda.begin() as connection:
        for jobs, statistics in (("jobsactive4", "jobs_share_stats"), ("jobsdefined4", "jobsdefined_share_stats")):
            statement = _FILL_STATISTICS.format(jobs=jobs, statistics=statistics)
            connection.execute(sa.text(statement), {"now": NOON.replace(tzinfo=None)})
    assert migrate.upgrade(mirror, mirrored=True).mode == migrate.MIRRORED
    rucio = {name: scenario.tables[name] for name in REPLICA_TABLES if name in scenario.tables}
    load(mirror, Scenario(scenario.now, rucio))
    copied_site = Site(panda, mirror)
    yield copied_site
    copied_site.queries.close()


@pytest.mark.slow
def test_every_brokerage_decides_as_on_pandas_own_tables(site: Site) -> None:
    for report in site.copy().values():
        assert report.claimed and report.copied and not report.failed
    for brokerage, profile in product(BROKERAGES, ("seed", "panda")):
        expected = decide(site.panda, brokerage, profile=profile, job_statistics="panda")
        assert decide(site.database, brokerage, profile=profile) == expected
        assert any(decision["outcome"] == "brokered" for decision in expected)


def test_only_changed_rows_are_written(site: Site) -> None:
    site.copy()
    versions = "SELECT string_agg(xmin::text, ',' ORDER BY panda_queue) FROM doma_panda.schedconfig_json"
    before = site.value(versions)
    site.run("UPDATE doma_panda.ddm_endpoint SET space_free = 4711 WHERE ddm_endpoint_name = 'CERN-PROD_DATADISK'")
    site.run("DELETE FROM doma_panda.ddm_endpoint WHERE ddm_endpoint_name <> 'CERN-PROD_DATADISK'")
    site.run("INSERT INTO doma_panda.ddm_endpoint (ddm_endpoint_name, is_tape) VALUES ('NEW', 'Y')")
    site.now += MINUTE
    assert not site.mirror.copy_grid(MINUTE).failed
    assert site.value(versions) == before
    endpoints = "SELECT string_agg(ddm_endpoint_name, ',' ORDER BY 1) FROM doma_panda.ddm_endpoint"
    assert site.value(endpoints) == "CERN-PROD_DATADISK,NEW"
    assert site.value("SELECT space_free FROM doma_panda.ddm_endpoint WHERE space_free IS NOT NULL") == 4711
    assert site.read_at("schedconfig_json") == site.read_at("ddm_endpoint") == site.now


def test_without_an_answer_the_last_copy_stays_and_ages(site: Site) -> None:
    site.copy()
    first, queues = site.now, site.value("SELECT count(*) FROM doma_panda.schedconfig_json")
    site.queries.failing = {"schedconfig_json c"}
    site.run("DELETE FROM doma_panda.schedconfig_json")
    for _ in range(2):
        site.now += 30 * MINUTE
        report = site.mirror.copy_grid(MINUTE)
        assert list(report.failed) == ["schedconfig_json"] and "ddm_endpoint" in report.copied
    assert site.value("SELECT count(*) FROM doma_panda.schedconfig_json") == queues > 0
    (record,) = [failed for failed in _records(site) if failed.failures]
    assert (record.name, record.read_at, record.failures) == ("schedconfig_json", first, 2)
    assert "ReadFailed" in record.error and record.failed_at == site.now
    states = _states(site, site.now + timedelta(hours=23))
    assert states["queues"][0] == "stale" and states["queues"][1] >= 24 * 3600.0
    assert states["resource_types"] == ("stale", 23 * 3600.0)


def test_a_table_without_timestamps_is_as_old_as_its_copy(site: Site) -> None:
    site.copy()
    assert _states(site, site.now + 3 * MINUTE)["work_queues"] == ("ok", None)
    assert _states(site, site.now + 60 * MINUTE)["work_queues"] == ("ok", 3600.0)
    assert _states(site, site.now + 61 * MINUTE)["work_queues"] == ("stale", 3660.0)


def test_a_grid_that_was_never_copied_is_refused(site: Site) -> None:
    request = CycleRequest(dry_run=True, by_hand=True)
    agent = registry.make("production_job", {}, ProcessSettings())
    record = run_cycle(agent, CycleContext(site.database, NOON, 0, 600.0, request))
    assert record.outcome == "refused" and "queues" in str(record.error)
    site.queries.failing = {"network_matrix_kv c"}
    site.copy()
    assert _states(site, NOON)["links"][0] == "failed"


def test_nothing_else_writes_the_copies(site: Site) -> None:
    site.copy()
    with pytest.raises(BrokerError, match="is a copy of PanDA's"):
        broker_once(TASK_AGENT, site.database, NOON, 1, lambda line: None)
    with pytest.raises(MissingRight, match="is a copy of PanDA's"), site.database.begin() as connection:
        connection.exec_driver_sql("DELETE FROM doma_panda.jedi_tasks")
    assert site.value("SELECT count(*) FROM doma_panda.jedi_tasks WHERE status = 'assigning'") > 0


def test_only_one_process_copies_at_a_time(site: Site) -> None:
    second_mirror = Mirror(site.database, site.queries, lambda: site.now)
    assert site.mirror.claim("grid", MINUTE)
    assert not second_mirror.copy_grid(MINUTE).claimed
    site.now += 3 * MINUTE  # the first process has died
    assert second_mirror.copy_grid(MINUTE).claimed
    site.now += timedelta(seconds=29)
    assert not site.mirror.copy_grid(MINUTE).claimed
    site.now += timedelta(seconds=1)
    assert site.mirror.copy_grid(MINUTE).claimed


def test_a_missing_column_is_named(site: Site) -> None:
    site.copy()
    site.run("ALTER TABLE doma_panda.ddm_endpoint RENAME COLUMN space_expired TO other")
    site.run("DROP TABLE doma_panda.harvester_slots")
    site.now += MINUTE
    assert set(site.mirror.copy_grid(MINUTE).failed) == {"ddm_endpoint", "harvester_slots"}
    site.now += MINUTE
    assert not site.mirror.copy_grid(MINUTE).failed
    lacking = {record.name: record.lacking for record in _records(site) if record.lacking}
    assert lacking["ddm_endpoint"] == ("space_expired",) and len(lacking["harvester_slots"]) == 6
    assert site.value("SELECT count(space_expired) FROM doma_panda.ddm_endpoint") == 0
    assert site.value("SELECT count(*) FROM doma_panda.harvester_slots") == 0
    with site.database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, site.database.names)
    assert {str(record.fault) for record in needed_faults(catalogue, "panda")} == {
        "column ddm_endpoint.space_expired is gone",
        "table harvester_slots is gone",
    }


def test_a_call_refreshes_its_own_task(site: Site) -> None:
    site.copy()
    task, dataset = site.panda_row(
        "SELECT d.jeditaskid, d.datasetid FROM doma_panda.jedi_tasks t"
        " JOIN doma_panda.jedi_datasets d USING (jeditaskid)"
        " WHERE t.prodsourcelabel = 'user' AND d.type = 'input' ORDER BY 1, 2 LIMIT 1"
    )
    site.run("UPDATE doma_panda.jedi_taskparams SET taskparams = '{\"new\": 1}' WHERE jeditaskid = :task", task=task)
    site.run("UPDATE doma_panda.jedi_tasks SET transuses = 'new' WHERE jeditaskid = :task", task=task)
    site.run(
        "INSERT INTO doma_panda.jobsarchived4 (pandaid, jeditaskid, computingsite, jobstatus, modificationtime,"
        " prodsourcelabel, piloterrorcode) SELECT n, :task, 'CERN', 'failed', :at, 'user', 1099"
        " FROM generate_series(900000001, 900000003) AS n",
        task=task,
        at=site.now.replace(tzinfo=None) - timedelta(hours=2),
    )
    files = site.panda_row(
        "SELECT array_agg(fileid), count(*) FROM doma_panda.jedi_dataset_contents WHERE jeditaskid = :task", task=task
    )[0]
    copy_chunk_of_call(site.mirror, task, {dataset: 10**9}, files[:2], parameters=True, done_job_hours=3.0)
    assert site.value(f"SELECT taskparams FROM doma_panda.jedi_taskparams WHERE jeditaskid = {task}") == '{"new": 1}'
    assert site.value(f"SELECT transuses FROM doma_panda.jedi_tasks WHERE jeditaskid = {task}") == "new"
    status = f"SELECT count(*) FROM doma_panda.jedi_dataset_contents WHERE jeditaskid = {task} AND status = 'picked'"
    assert site.value(status) == 2
    counted = f"SELECT counted FROM doma_panda.{ENDED_JOBS.name} WHERE jeditaskid = {task} AND piloterrorcode = 1099"
    assert site.value(counted) == 3
    copy_chunk_of_call(site.mirror, task, {}, [], done_job_hours=1.0)
    assert site.value(f"SELECT count(*) FROM doma_panda.{ENDED_JOBS.name} WHERE jeditaskid = {task}") == 0


def test_files_are_copied_once_and_then_only_their_readiness(site: Site) -> None:
    site.copy()
    ready = "SELECT count(*) FROM doma_panda.jedi_dataset_contents WHERE status = 'ready'"
    files, before = site.value("SELECT count(*) FROM doma_panda.jedi_dataset_contents"), site.value(ready)
    task, dataset, ready_count = site.panda_row(
        "SELECT jeditaskid, datasetid, count(*) FROM doma_panda.jedi_dataset_contents JOIN doma_panda.jedi_tasks t"
        " USING (jeditaskid) WHERE doma_panda.jedi_dataset_contents.status = 'ready' AND t.status = 'running'"
        " GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 1"
    )
    site.run(
        "UPDATE doma_panda.jedi_dataset_contents SET status = 'picked'"
        " WHERE jeditaskid = :task AND datasetid = :dataset AND status = 'ready'", task=task, dataset=dataset,
    )  # fmt: skip
    site.queries.statements.clear()
    site.now += 10 * MINUTE
    assert not copy_work(site.mirror, 10 * MINUTE).failed
    assert site.value(ready) == before - ready_count
    assert site.value("SELECT count(*) FROM doma_panda.jedi_dataset_contents") == files
    statements = [statement for statement, _ in site.queries.statements if "jedi_dataset_contents" in statement]
    assert len(statements) == 1 and "c.status = 'ready'" in statements[0]


def test_a_database_has_one_mode_only(make_database: Callable[..., Database]) -> None:
    standalone = make_database()
    with pytest.raises(Refused, match="installed in mode standalone"):
        migrate.upgrade(standalone, mirrored=True)
    queries = PandaQueries(standalone.url)
    with pytest.raises(Refused, match="db init --mirrored"):
        Mirror(standalone, queries, lambda: NOON)
    queries.close()
    with standalone.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA broker CASCADE")
    with pytest.raises(Refused, match="PanDA's own"):
        migrate.upgrade(standalone, mirrored=True)


def _records(site: Site) -> list[CopyRecord]:
    with site.database.read_snapshot() as connection:
        return read_records(connection)


def _states(site: Site, now: datetime) -> dict[str, tuple[str, float | None]]:
    """State and age of each source, as a cycle sees them."""
    reader = GridReader("live", config_file("sources.yaml"))
    with site.database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, site.database.names)
        reading = reader.read(connection, catalogue, now, lambda: None)
    return {state.name: (state.state, state.age_s) for state in reading.snapshot.states}


def test_doctor_names_tables_that_were_not_copied(site: Site) -> None:
    (no_copy,) = mirror_findings(site.database, site.now)
    assert no_copy.level == "problem" and "nothing was copied" in no_copy.what
    site.queries.failing = {"sw_tags c"}
    site.copy()
    findings = {
        finding.what.split(":")[0]: finding for finding in mirror_findings(site.database, site.now + 10 * MINUTE)
    }
    assert {name: finding.level for name, finding in findings.items()} == {
        "grid": "ok", "tasks": "ok", "work": "ok", "sw_tags": "problem",
    }  # fmt: skip
    assert "never copied" in findings["sw_tags"].what and "watchdog" in findings["sw_tags"].remedy
    late = mirror_findings(site.database, site.now + 10 * MINUTE + timedelta(seconds=1))
    assert [finding.level for finding in late if finding.what.startswith(("grid", "tasks", "work"))] == [
        "problem",
        "problem",
        "ok",
    ]


def test_shadow_mode_reads_jedis_placements_from_the_mirror(site: Site) -> None:
    task, dataset = site.panda_row(
        "SELECT d.jeditaskid, d.datasetid FROM doma_panda.jedi_datasets d JOIN doma_panda.jedi_tasks t"
        " USING (jeditaskid) WHERE d.type = 'input' AND t.status = 'running' ORDER BY 1, 2 LIMIT 1"
    )
    file = site.panda_row(
        "SELECT min(fileid), count(*) FROM doma_panda.jedi_dataset_contents WHERE datasetid = :dataset", dataset=dataset
    )[0]

    def insert_job(pandaid: int, table: str, queue: str, ago: timedelta) -> None:
        created_at = (site.now - ago).replace(tzinfo=None)
        site.run(
            f"INSERT INTO doma_panda.{table} (pandaid, jeditaskid, computingsite, gshare, prodsourcelabel, lockedby,"
            " creationtime, jobstatus) VALUES (:pandaid, :task, :queue, 'User', 'user', 'jedi', :at, 'running')",
            pandaid=pandaid, task=task, queue=queue, at=created_at,
        )  # fmt: skip
        site.run(
            "INSERT INTO doma_panda.filestable4 (row_id, pandaid, jeditaskid, datasetid, fileid, type,"
            " modificationtime) VALUES (:pandaid, :pandaid, :task, :dataset, :file, 'input', :at)",
            pandaid=pandaid, task=task, dataset=dataset, file=file, at=created_at,
        )  # fmt: skip

    insert_job(910000001, "jobsactive4", "CERN", timedelta(hours=3))
    insert_job(910000002, "jobsarchived4", "BNL", timedelta(hours=2))
    site.copy()
    insert_job(910000003, "jobsdefined4", "CERN", -5 * MINUTE)
    site.now += 10 * MINUTE
    assert not copy_work(site.mirror, 10 * MINUTE).failed
    placements = [_placements(database, site.now) for database in (site.panda, site.database)]
    assert placements[1] == placements[0]
    assert [(row.queue, row.datasetid, row.jobs) for row in placements[0] if row.datasetid] == [
        ("CERN", dataset, 1), ("BNL", dataset, 1), ("CERN", dataset, 1),
    ]  # fmt: skip
    assert site.value("SELECT count(*) FROM doma_panda.jobsactive4 WHERE jobstatus IS NOT NULL") == 0


def _placements(database: Database, now: datetime) -> list[Placement]:
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        return read_placements(connection, catalogue, now - timedelta(hours=6), now)[0]
