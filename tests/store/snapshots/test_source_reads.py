"""The sources of a snapshot are read from PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from broker.domain.grid import COUNTED_STATUSES
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import RawSource, decode, encode
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import JobStatistics
from broker.snapshot.source_list import GRID_SOURCES, grid_sources
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.snapshots.source_reads import SourceReader, read_sources

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
STAMP = "2026-08-01T11:59:00"
OLDER = "2026-08-01T09:00:00"


def queue_row(name: str, **data: Any) -> dict[str, Any]:
    document = {"nickname": name, "status": "online", "cloud": "WORLD", "corecount": 8, **data}
    return {"panda_queue": name, "data": document, "last_update": STAMP}


def job(number: int, queue: str | None, status: str, **columns: Any) -> dict[str, Any]:
    row = {"pandaid": number, "computingsite": queue, "jobstatus": status, "gshare": "Simulation", "workqueue_id": 1}
    row |= {"resource_type": "MCORE", "nucleus": "NUC", "vo": "atlas", "prodsourcelabel": "managed"}
    return {**row, "corecount": 8, **columns}


def grid() -> dict[str, list[dict[str, Any]]]:
    return {
        "schedconfig_json": [queue_row("A", capability="ucore"), queue_row("B") | {"last_update": OLDER}],
        "panda_site": [{"panda_site_name": "A", "site_name": "NUC"}],
        "site": [{"site_name": "NUC", "role": "nucleus"}],
        "resource_types": [{"resource_name": "SCORE", "mincore": 1, "maxcore": 1, "maxrampercore": 2000}],
        "jedi_work_queue": [
            {"queue_id": 7, "queue_name": "hpc", "queue_type": "managed", "vo": "atlas", "queue_function": "Resource"}
        ],
        "ddm_endpoint": [
            {
                "ddm_endpoint_name": "D",
                "site_name": "NUC",
                "type": "DATADISK",
                "space_free": 5,
                "detailed_status": {"read_wan": "OFF"},
                "space_timestamp": STAMP,
            }
        ],
        "panda_ddm_relation": [
            {
                "panda_site_name": "A",
                "ddm_endpoint_name": "D",
                "scope": "default",
                "roles": "read_lan,write_lan",
                "default_write": "Y",
            }
        ],
        "network_matrix_kv": [
            {"src": "NUC", "dst": "NUC", "key": "AGIS_closeness", "value": 0, "ts": STAMP},
            {"src": "NUC", "dst": "NUC", "key": "Production Output_queued", "value": 9, "ts": OLDER},
            {"src": "NUC", "dst": "NUC", "key": "rucio_mbps_1h", "value": 9, "ts": STAMP},
        ],
        "sitedata": [
            {"site": "A", "flag": "production", "hours": 3, "getjob": 1, "updatejob": 2, "lastmod": STAMP},
            {"site": "A", "flag": "host", "hours": 3, "getjob": 100, "updatejob": 2, "lastmod": "2026-08-01T12:00:00"},
        ],
        "harvester_slots": [
            {"pandaqueuename": "A", "numslots": 5, "modificationtime": STAMP},
            {"pandaqueuename": "A", "numslots": 5, "modificationtime": STAMP},
        ],
        "harvester_worker_stats": [
            {
                "harvester_id": "h",
                "computingsite": "A",
                "resourcetype": "SCORE",
                "status": status,
                "jobtype": "managed",
                "n_workers": 4,
                "lastupdate": STAMP,
            }
            for status in ("running", "finished")
        ],
        "sw_tags": [{"panda_queue": "A", "data": '{"tags": []}', "last_update": STAMP}],
        "mv_worker_node_summary": [
            {"panda_queue": "A", "cpu_architecture_level": "x86-64-v3", "pct_within_pq": 33.33},
            {"panda_queue": "A", "cpu_architecture_level": None, "pct_within_pq": 66.67},
        ],
        "mv_worker_node_gpu_summary": [{"panda_queue": "A", "vendor": "NVIDIA", "model": "A100", "vram": 81920}],
    }


def read(database: Database, statistics: JobStatistics = "live") -> dict[str, RawSource]:
    with database.read_snapshot() as connection:
        reader = SourceReader(connection, TableCatalogue.read(connection, database.names), NOW, statistics)
        return read_sources(reader, grid_sources(analysis=False))[0]


def snapshot_of(sources: dict[str, RawSource]) -> Snapshot:
    return build_snapshot("s", NOW, sources, ())


def digests(sources: dict[str, RawSource]) -> dict[str, str]:
    return {name: encode(source)[0] for name, source in sources.items()}


def test_every_source_is_read_and_built(database: Database) -> None:
    load(database, Scenario(NOW, grid()))
    sources = read(database)
    assert list(sources) == [source.name for source in grid_sources(analysis=False)]
    snapshot = snapshot_of(sources)
    assert list(snapshot.queues.name) == ["A/SCORE", "B"]
    assert list(snapshot.nuclei.name) == ["NUC"]
    assert (snapshot.storages.space_free_gb[0], bool(snapshot.storages.read_wan[0])) == (5, False)
    assert snapshot.links.closeness.tolist() == [[0]]
    assert snapshot.links.total_queued.tolist() == [0]
    assert snapshot.jobs.resource_work_queues == frozenset({7})
    assert list(snapshot.unified.n_pilots) == [3, 0]
    assert list(snapshot.unified.n_workers) == [4, 0]
    assert list(snapshot.slots.numslots) == [5]
    assert snapshot.unified.cpu_levels[0] == {"x86-64-v3": 33.33}
    assert snapshot.unified.gpus[0][0].model == "A100"
    assert snapshot.unified.software[0] is not None
    assert snapshot.dropped_rows == ()


def test_the_age_of_a_source_is_the_age_of_its_newest_row(database: Database) -> None:
    load(database, Scenario(NOW, grid()))
    newest = {name: source.newest for name, source in read(database).items()}
    stamp = datetime.fromisoformat(STAMP).replace(tzinfo=UTC)
    aged = {"queues", "storages", "links", "pilots", "software"}
    assert newest == {name: stamp if name in aged else None for name in newest}


def test_only_requested_rows_are_read(database: Database) -> None:
    load(database, Scenario(NOW, grid()))
    sources = read(database)
    counts = {name: sources[name].row_count for name in ("links", "pilots", "workers", "worker_nodes")}
    assert counts == {"links": 2, "pilots": 1, "workers": 1, "worker_nodes": 1}


def test_an_empty_database_gives_empty_sources(database: Database) -> None:
    sources = read(database)
    assert all(source.row_count == 0 and source.newest is None for source in sources.values())
    assert len(snapshot_of(sources).queues) == 0
    assert read(database, "panda")["jobs"].row_count == 0


def test_the_digest_depends_on_content_and_not_on_storage_order(make_database: Callable[..., Database]) -> None:
    tables = grid() | {"jobsactive4": [job(1, "A", "running"), job(2, "B", "running"), job(3, "A", "starting")]}
    results = []
    for order in (1, -1):
        database = make_database()
        load(database, Scenario(NOW, {name: rows[::order] for name, rows in tables.items()}))
        results.append(digests(read(database)))
    assert results[0] == results[1]


def test_stored_sources_are_read_back_unchanged(database: Database) -> None:
    load(database, Scenario(NOW, grid() | {"jobsactive4": [job(1, "A", "running", diskio=100)]}))
    sources = read(database)
    decoded_sources = {name: decode(*encode(source)) for name, source in sources.items()}
    assert digests(decoded_sources) == digests(sources)
    assert snapshot_of(decoded_sources).unified.cpu_levels == snapshot_of(sources).unified.cpu_levels


def test_documents_are_read_unchanged_and_bad_ones_dropped(database: Database) -> None:
    bad = r"""{"nickname": "BAD\u0000", "maxrss": 1}"""
    twice = """{"nickname": "T", "nickname": "U"}"""
    huge = '{"nickname": "' + "x" * 1_100_000 + '"}'
    with database.begin() as connection:
        for name, document in (("P", bad), ("T", twice), ("H", huge), ("L", r'{"nickname": "L\ud800"}')):
            statement = (
                "INSERT INTO doma_panda.schedconfig_json (panda_queue, data) VALUES (:name, CAST(:data AS json))"
            )
            connection.execute(sa.text(statement), {"name": name, "data": document})
        connection.execute(sa.text("INSERT INTO doma_panda.schedconfig_json (panda_queue) VALUES ('N')"))
    snapshot = snapshot_of(read(database))
    assert len(snapshot.unified) == 0
    assert {row.identifier: row.code for row in snapshot.dropped_rows} == {
        "P": "not_text",
        "T": "invalid_json",
        "H": "too_long",
        "L": "not_text",
    }


def test_missing_columns_and_tables_give_nulls(database: Database) -> None:
    load(database, Scenario(NOW, grid()))
    with database.begin() as connection:
        for statement in (
            "ALTER TABLE doma_panda.ddm_endpoint DROP COLUMN space_min_free, DROP COLUMN detailed_status",
            "DROP TABLE doma_panda.mv_worker_node_gpu_summary",
            "DROP TABLE doma_panda.mv_worker_node_summary",
        ):
            connection.exec_driver_sql(statement)
    snapshot = snapshot_of(read(database))
    assert list(snapshot.storages.name) == ["D"]
    assert snapshot.storages.read_wan[0]
    assert snapshot.unified.gpus == ((), ())


def test_each_source_is_followed_by_a_tick(database: Database) -> None:
    ticks: list[int] = []
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        read_sources(SourceReader(connection, catalogue, NOW), GRID_SOURCES, lambda: ticks.append(1))
    assert len(ticks) == len(GRID_SOURCES)


ACTIVE = [
    job(1, "A", "running", actualcorecount=4, diskio=800),
    job(2, "A", "running", actualcorecount=None, diskio=80),
    job(3, "A", "running", corecount=None, diskio=None),
    job(4, "A", "transferring", nucleus=None),
    job(5, "A", "activated", gshare=None, workqueue_id=7),
    job(6, "B", "starting", vo=None, prodsourcelabel=None),
    job(7, "B", "running", prodsourcelabel="user", corecount=1, diskio=10),
    job(8, None, "running"),
    job(9, "GONE", "running"),
    job(10, "B", "running", corecount=None, actualcorecount=None, diskio=30),
]
DEFINED = [job(11, "A", "defined"), job(12, "A", "assigned"), job(13, "A", "defined", gshare="Derivation")]


def test_live_counts_of_jobs(database: Database) -> None:
    load(database, Scenario(NOW, grid() | {"jobsactive4": ACTIVE, "jobsdefined4": DEFINED}))
    snapshot = snapshot_of(read(database))
    total = {
        status: snapshot.jobs.total[:, index].tolist()
        for index, status in enumerate(COUNTED_STATUSES)
        if snapshot.jobs.total[:, index].any()
    }
    assert total == {
        "defined": [2, 0],
        "assigned": [1, 0],
        "activated": [1, 0],
        "starting": [0, 1],
        "running": [3, 2],
        "transferring": [1, 0],
    }
    assert set(snapshot.jobs.accounting_keys) == {"", "Derivation", "Simulation", "#7"}
    # (800 / 8 + 80 / 8) / 2: jobs without a figure do not count, and a job without cores counts as one core
    assert list(snapshot.unified.average_diskio_kbps) == [55, 20]
    cores = {key: snapshot.jobs.running_cores[:, index].tolist() for index, key in enumerate(snapshot.jobs.core_keys)}
    assert cores[("atlas", "managed")] == [4 + 8, 0]
    assert cores[("atlas", "user")] == [0, 1]
    assert snapshot.jobs.transferring_to.tolist() == [[0], [0]]


@pytest.mark.parametrize("cores", [0, None])
def test_a_job_without_cores_does_not_break_the_count(database: Database, cores: int | None) -> None:
    rows = [job(1, "A", "running", corecount=cores, diskio=70), job(2, "A", "running", corecount=2, diskio=60)]
    load(database, Scenario(NOW, grid() | {"jobsactive4": rows}))
    snapshot = snapshot_of(read(database))
    assert snapshot.unified.average_diskio_kbps[0] == (70 + 30) / 2
    assert snapshot.jobs.running_cores.sum() == 2
    assert snapshot.jobs.total[0].sum() == 2


# The computation of PanDA's procedures: one row for each job is allowed, and readers use sums.
SHARE_STATISTICS = """
INSERT INTO doma_panda.{target} (ts, gshare, computingsite, jobstatus, prorated_diskio_avg, njobs, vo, workqueue_id,
    resource_type, nucleus)
SELECT TIMESTAMP '2026-08-01 11:58', j.gshare, j.computingsite, j.jobstatus,
    avg(j.diskio / coalesce(j.corecount, 1)), count(*), j.vo, j.workqueue_id, j.resource_type, j.nucleus
FROM doma_panda.{table} j JOIN doma_panda.schedconfig_json q ON q.panda_queue = j.computingsite
GROUP BY j.gshare, j.computingsite, j.jobstatus, j.vo, j.workqueue_id, j.resource_type, j.nucleus, j.corecount, j.diskio
"""
CORE_STATISTICS = """
INSERT INTO doma_panda.mv_jobsactive4_stats (computingsite, jobstatus, vo, prodsourcelabel, num_of_jobs, num_of_cores)
SELECT computingsite, jobstatus, vo, prodsourcelabel, count(*), sum(coalesce(actualcorecount, corecount))
FROM doma_panda.jobsactive4 GROUP BY computingsite, jobstatus, vo, prodsourcelabel
"""


def test_pandas_statistics_equal_live_counts(database: Database) -> None:
    load(database, Scenario(NOW, grid() | {"jobsactive4": ACTIVE, "jobsdefined4": DEFINED}))
    with database.begin() as connection:
        for table, target in (("jobsactive4", "jobs_share_stats"), ("jobsdefined4", "jobsdefined_share_stats")):
            connection.exec_driver_sql(SHARE_STATISTICS.format(table=table, target=target))
        connection.exec_driver_sql(CORE_STATISTICS)
    live, panda = snapshot_of(read(database)), snapshot_of(read(database, "panda"))
    assert panda.jobs.total.tolist() == live.jobs.total.tolist()
    assert panda.jobs.transferring_to.tolist() == live.jobs.transferring_to.tolist()
    assert list(panda.unified.average_diskio_kbps) == list(live.unified.average_diskio_kbps)
    for tag in live.jobs.accounting_keys:
        live_index, panda_index = live.jobs.accounting_keys.index(tag), panda.jobs.accounting_keys.index(tag)
        assert (
            panda.jobs.by_accounting_key[:, panda_index].tolist() == live.jobs.by_accounting_key[:, live_index].tolist()
        )
    for key in (("atlas", "managed"), ("atlas", "user")):
        live_index, panda_index = live.jobs.core_keys.index(key), panda.jobs.core_keys.index(key)
        assert panda.jobs.running_cores[:, panda_index].tolist() == live.jobs.running_cores[:, live_index].tolist()
    assert panda.dropped_rows == live.dropped_rows == ()


def test_pandas_statistics_have_an_age(database: Database) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO doma_panda.jobs_share_stats (ts, computingsite, njobs) "
            "VALUES (TIMESTAMP '2026-08-01 10:00', 'A', 1), (TIMESTAMP '2026-08-01 11:00', 'A', NULL)"
        )
    assert read(database, "panda")["jobs"].newest == datetime(2026, 8, 1, 11, tzinfo=UTC)
    assert read(database)["jobs"].newest is None
