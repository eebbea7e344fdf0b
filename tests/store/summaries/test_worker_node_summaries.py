"""The real database computes both summaries of worker nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.tables import Names, TableCatalogue
from broker.store.schema.migrate import upgrade
from broker.store.summaries.worker_node_summaries import (
    CPU_SUMMARY,
    GPU_SUMMARY,
    SUMMARIES,
    Differences,
    WorkerNodeSummary,
    count_differences,
    forget_refresh,
    note_refresh,
    read_reports,
    refreshed_for,
    write_differences,
)

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
SEEN = datetime(2026, 7, 31, 12, tzinfo=UTC)
A_MONTH_AGO = datetime(2026, 7, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def insert(database: Database, table: str, *rows: dict[str, Any]) -> None:
    with database.begin() as connection:
        for row in rows:
            names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
            connection.execute(sa.text(f"INSERT INTO {database.names.table(table)} ({names}) VALUES ({marks})"), row)


def gpu(host: str = "h", last_seen: datetime | None = SEEN, **more: Any) -> dict[str, Any]:
    row = {"site": "S", "host_name": host, "vendor": "NVIDIA", "model": "A100", "count": 4, "last_seen": last_seen}
    return row | more


def queue(host: str = "h", name: str = "Q", last_seen: datetime | None = SEEN, site: str = "S") -> dict[str, Any]:
    return {"site": site, "host_name": host, "panda_queue": name, "last_seen": last_seen}


def node(host: str = "h", level: str | None = "x86-64-v3", cpus: int | None = 8, site: str = "S") -> dict[str, Any]:
    return {
        "site": site,
        "host_name": host,
        "cpu_model": "EPYC",
        "cpu_architecture_level": level,
        "n_logical_cpus": cpus,
    }


def refresh(database: Database, summary: WorkerNodeSummary, now: datetime = NOW) -> Differences:
    with database.begin() as connection:
        columns = columns_of(connection, database, summary)
        expected = count_differences(connection, database.names, summary, columns, now)
        differences = write_differences(connection, database.names, summary, columns, now)
    assert expected == differences
    return differences


def columns_of(connection: sa.Connection, database: Database, summary: WorkerNodeSummary) -> tuple[str, ...]:
    query = (
        "SELECT attname FROM pg_attribute WHERE attrelid = CAST(:t AS regclass) AND attnum > 0 AND NOT attisdropped"
        " ORDER BY attnum"
    )
    return tuple(connection.scalars(sa.text(query), {"t": database.names.table(summary.table)}))


def rows_of(database: Database, summary: WorkerNodeSummary, *columns: str) -> list[tuple[Any, ...]]:
    query = f"SELECT {', '.join(columns)} FROM {database.names.table(summary.table)} ORDER BY {', '.join(columns)}"
    with database.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def test_gpus_are_grouped_by_every_column_and_hosts_counted(database: Database) -> None:
    insert(
        database,
        "worker_node_gpus",
        *(gpu(host, vram=81920, architecture="Ampere", framework="CUDA") for host in ("h1", "h2", "h3")),
        gpu("h4", count=8),
        gpu("h5", driver_version="550.54.15"),
        gpu("h6", framework_version="12.4"),
        gpu("alone"),
    )
    insert(database, "worker_node_queue", *(queue(f"h{number}") for number in range(1, 7)), queue("h1", "P"))
    assert refresh(database, GPU_SUMMARY) == Differences(5, 5, 0)
    columns = ("panda_queue", "vram", "driver_version", "framework_version", "gpus_per_host", "host_count")
    assert rows_of(database, GPU_SUMMARY, *columns) == [
        ("P", 81920, None, None, 4, 1),
        ("Q", 81920, None, None, 4, 3),
        ("Q", None, "550.54.15", None, 4, 1),
        ("Q", None, None, "12.4", 4, 1),
        ("Q", None, None, None, 8, 1),
    ]


@pytest.mark.parametrize(
    ("last_seen", "counts"),
    [
        (A_MONTH_AGO - SECOND, False),
        (A_MONTH_AGO, False),
        (A_MONTH_AGO + SECOND, True),
        (datetime(2026, 8, 1, 13, tzinfo=UTC), True),  # the clock of the node is ahead
        (None, False),
    ],
)
def test_nodes_not_seen_for_a_month_do_not_count(database: Database, last_seen: datetime | None, counts: bool) -> None:
    insert(database, "worker_node_gpus", gpu("old", last_seen), gpu("young"))
    # a GPU's age comes from its own row, a CPU's age from the node's row in the queue
    insert(database, "worker_node_queue", queue("old", "OLD", None), queue("young", "YOUNG", None))
    assert refresh(database, GPU_SUMMARY).rows == 1 + counts
    insert(database, "worker_node", node("third"), node("fourth"))
    insert(database, "worker_node_queue", queue("third", "OLD", last_seen), queue("fourth", "YOUNG"))
    assert refresh(database, CPU_SUMMARY).rows == 1 + counts


def test_shares_refer_to_all_logical_cpus_of_the_queue(database: Database) -> None:
    insert(
        database,
        "worker_node",
        node("h1", "x86-64-v3", 100),
        node("h2", "x86-64-v4", 33),
        node("h3", None, 167),
        node("h1", "x86-64-v3", 33, site="T"),
        node("h4", "x86-64-v2", 5),
    )
    insert(database, "worker_node_queue", *(queue(f"h{number}") for number in (1, 2, 3)))
    insert(database, "worker_node_queue", queue("h1", site="T"), queue("h4", "P"), queue("h1", "P"))
    assert refresh(database, CPU_SUMMARY) == Differences(6, 6, 0)
    columns = ("panda_queue", "cpu_architecture_level", "site", "total_logical_cpus", "pct_within_pq::float8")
    assert rows_of(database, CPU_SUMMARY, *columns) == [
        ("P", "x86-64-v2", "S", 5, 4.76),
        ("P", "x86-64-v3", "S", 100, 95.24),
        ("Q", "x86-64-v3", "S", 100, 30.03),
        ("Q", "x86-64-v3", "T", 33, 9.91),
        ("Q", "x86-64-v4", "S", 33, 9.91),
        ("Q", None, "S", 167, 50.15),
    ]


def test_impossible_counts_do_not_affect_other_rows(database: Database) -> None:
    insert(database, "worker_node", node("h1", "a", 1), node("h2", "b", -1_000_000), node("h3", "c", None))
    insert(database, "worker_node", node("h4", "d", 2_147_483_647), node("h5", "d", 2_147_483_647))
    insert(database, "worker_node_queue", *(queue(f"h{number}") for number in (1, 2, 3)), queue("h2", "P"))
    insert(database, "worker_node_queue", queue("h4", "R"), queue("h5", "R"))
    refresh(database, CPU_SUMMARY)
    columns = ("panda_queue", "cpu_architecture_level", "total_logical_cpus", "pct_within_pq::float8")
    assert rows_of(database, CPU_SUMMARY, *columns) == [
        ("P", "b", None, None),
        ("Q", "a", 1, 100.0),
        ("Q", "b", None, None),
        ("Q", "c", None, None),
        ("R", "d", 2 * 2_147_483_647, 100.0),
    ]


def test_only_the_differences_are_written(database: Database) -> None:
    insert(database, "worker_node_gpus", *(gpu(f"h{number}", model=f"model {number}") for number in range(5)))
    insert(database, "worker_node_queue", *(queue(f"h{number}") for number in range(5)))
    assert refresh(database, GPU_SUMMARY) == Differences(5, 5, 0)
    before = rows_of(database, GPU_SUMMARY, "ctid", "model")
    assert refresh(database, GPU_SUMMARY) == Differences(5, 0, 0)
    assert rows_of(database, GPU_SUMMARY, "ctid", "model") == before
    insert(database, "worker_node_queue", queue("h5"))
    insert(database, "worker_node_gpus", gpu("h5", model="model 4"))
    assert refresh(database, GPU_SUMMARY) == Differences(5, 1, 1)
    assert rows_of(database, GPU_SUMMARY, "model", "host_count")[-1] == ("model 4", 2)
    assert refresh(database, GPU_SUMMARY, NOW + timedelta(days=60)) == Differences(0, 0, 5)


@pytest.mark.parametrize("summary", SUMMARIES, ids=lambda summary: summary.table)
def test_duplicate_and_foreign_rows_are_removed(database: Database, summary: WorkerNodeSummary) -> None:
    insert(database, "worker_node", node())
    insert(database, "worker_node_gpus", gpu())
    insert(database, "worker_node_queue", queue())
    refresh(database, summary)
    table = database.names.table(summary.table)
    with database.begin() as connection:
        connection.exec_driver_sql(f"INSERT INTO {table} SELECT * FROM {table}")
        connection.exec_driver_sql(f"INSERT INTO {table} (panda_queue) VALUES ('Q'), (NULL), (NULL)")
    assert refresh(database, summary) == Differences(1, 0, 4)


def test_readers_never_see_a_partial_summary(database: Database) -> None:
    insert(database, "worker_node_gpus", gpu())
    insert(database, "worker_node_queue", queue())
    refresh(database, GPU_SUMMARY)
    insert(database, "worker_node_gpus", gpu(model="H100"))
    with database.begin() as connection:
        connection.exec_driver_sql("DELETE FROM doma_panda.worker_node_gpus WHERE model = 'A100'")
        columns = columns_of(connection, database, GPU_SUMMARY)
        assert write_differences(connection, database.names, GPU_SUMMARY, columns, NOW) == Differences(1, 1, 1)
        assert rows_of(database, GPU_SUMMARY, "model") == [("A100",)]
    assert rows_of(database, GPU_SUMMARY, "model") == [("H100",)]


def test_summaries_work_with_other_schema_names(make_database: Any) -> None:
    database: Database = make_database(migrated=False, names=Names("other", "other_meta"))
    upgrade(database)
    insert(database, "worker_node", node())
    insert(database, "worker_node_queue", queue())
    assert refresh(database, CPU_SUMMARY) == Differences(1, 1, 0)


def test_reports_name_absent_tables_and_the_age_of_the_data(database: Database) -> None:
    def absent_and_age(summary: WorkerNodeSummary) -> tuple[tuple[str, ...], float | None]:
        with database.begin() as connection:
            reports = read_reports(connection, TableCatalogue.read(connection, database.names), summary)
        return reports.absent, reports.age_s(NOW)

    assert absent_and_age(GPU_SUMMARY) == (("worker_node_gpus", "worker_node_queue"), None)
    insert(database, "worker_node_gpus", gpu("h1", None))
    assert absent_and_age(GPU_SUMMARY) == (("worker_node_queue",), None)
    insert(database, "worker_node_gpus", gpu("h2"), gpu("h3", A_MONTH_AGO))
    assert absent_and_age(GPU_SUMMARY) == (("worker_node_queue",), 86400.0)
    insert(database, "worker_node_queue", queue("h1", last_seen=A_MONTH_AGO))
    assert absent_and_age(GPU_SUMMARY) == ((), 86400.0)
    assert absent_and_age(CPU_SUMMARY) == (("worker_node",), 31 * 86400.0)
    with database.begin() as connection:
        connection.exec_driver_sql("DROP TABLE doma_panda.worker_node_queue")
    assert absent_and_age(CPU_SUMMARY) == (("worker_node", "worker_node_queue"), None)


def test_the_instant_of_the_last_refresh_is_stored(database: Database) -> None:
    with database.begin() as connection:
        assert refreshed_for(connection, GPU_SUMMARY.table) is None
        for now in (NOW, NOW + SECOND, NOW - SECOND):
            note_refresh(connection, GPU_SUMMARY, now)
            assert refreshed_for(connection, GPU_SUMMARY.table) == now
        assert refreshed_for(connection, CPU_SUMMARY.table) is None
        forget_refresh(connection, GPU_SUMMARY)
        assert refreshed_for(connection, GPU_SUMMARY.table) is None
