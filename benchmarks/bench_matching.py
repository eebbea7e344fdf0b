"""Pilots against millions of waiting jobs modelled on LHCb's: by direct calls, and over HTTP at a fixed rate.

Over HTTP each client keeps one connection open and sends its requests at scheduled times, however long the last one
took; milliseconds count from the scheduled time. In each part one client is killed half-way, its matches are counted,
and no job may be given twice. Clients, API and PostgreSQL share the processors; the report shows what each took. Work
and nodes come from ``waiting_work``, which says what is invented. ``--home``: the jobs are made once and stay there.
Usage: ``python -m benchmarks.bench_matching [--jobs N] [--rate R] [--workers N] [--home FOLDER] ... [FOLDER]``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.rows import tuple_row

from benchmarks.bench_match import _equal_shares
from benchmarks.matching_clients import ask_directly, ask_over_http
from benchmarks.measuring import NOW, cpu_of, folder_argument, report
from benchmarks.waiting_store import store
from benchmarks.waiting_work import Work, pilots_of
from broker.pilots.statements.task_queue_rows import follow_jobs, weigh
from broker.pilots.statements.waiting_group_reads import read_groups
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.schema.migrate import upgrade

_EMPTY = "TRUNCATE broker.waiting_jobs, broker.task_queue_levels, broker.task_queues, broker.matched_requests"
TARGET = (
    "api_per_s >= 1000 with p99 < 20 ms; direct_per_s >= 2500; first_fill_s < 60; memory_mb < 4000; disk_gb < 40:"
    " 10,000,000 jobs, 1,000 sites, 50,000 nodes, 2 cores"
)


def main() -> None:
    """Measure and report."""
    options = _arguments()
    with _open_store(options) as (database, folder):
        row: dict[str, Any] = {"jobs": _count(database, "doma_panda.jobsactive4 WHERE jobstatus = 'activated'")}
        row |= {
            "sites": options.sites,
            "nodes": options.nodes,
            "warm_s": options.warm,
            "shared_buffers": options.shared_buffers,
        }
        row |= _fill(database)
        pilots = pilots_of(options.nodes, options.sites)
        sent = _count(database, "doma_panda.jobsactive4 WHERE jobstatus = 'sent'")
        row |= ask_directly(database, folder, pilots, options.matchers, options)
        row |= ask_over_http(database, folder, pilots, options)
        _check(database, row, sent)
        row["memory_mb"] = row["api_server_mb"] + row["workers_mb"]
        row["disk_gb"] = _scalar(database, "SELECT pg_database_size(current_database())") / 1e9
    report(options.folder, "matching", [row], target=TARGET)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--matchers", type=int, default=8, help="Processes that call the matcher; two at least.")
    parser.add_argument("--clients", type=int, default=8, help="Connections of HTTP, each of a process; two at least.")
    parser.add_argument("--workers", type=int, default=2, help="Processes of the API.")
    parser.add_argument("--rate", type=float, default=1000.0, help="Requests a second over HTTP.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm", type=float, default=10.0, help="Seconds of asking before it counts.")
    parser.add_argument(
        "--shared-buffers", default="256MB", help="Of PostgreSQL; those of the embedded one as it is shipped."
    )
    parser.add_argument("--home", type=Path)
    folder_argument(parser)
    options = parser.parse_args()
    return options


@contextmanager
def _open_store(options: argparse.Namespace) -> Iterator[tuple[Database, Path]]:
    """Open a database with the jobs, and a folder for the results of clients."""
    with tempfile.TemporaryDirectory(prefix="gridbroker-bench-") as folder:
        home = options.home or Path(folder)
        server = EmbeddedServer(home, {"shared_buffers": options.shared_buffers})
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            if not _scalar(database, "SELECT EXISTS (SELECT FROM doma_panda.jobsactive4)"):
                store(database, Work(options.jobs, options.sites))
            yield database, Path(folder)


def _fill(database: Database) -> dict[str, Any]:
    """Fill the empty waiting lists as the agent does, run its next cycles, then read all groups for the first time."""
    with database.begin() as connection:
        connection.execute(sa.text(_EMPTY))
    counts, first_s, first_cpu_s = _cycle(database)
    with database.autocommit() as connection:
        connection.exec_driver_sql("VACUUM (ANALYZE) broker.waiting_jobs")
    cycles = [_cycle(database)[1] for _ in range(5)]
    with psycopg.connect(database.url, autocommit=True) as reader:
        begin_s = perf_counter()
        groups = read_groups(reader.cursor(row_factory=tuple_row), None)
        read_s = perf_counter() - begin_s
    return {
        "groups": len(groups.queues), "first_fill_s": first_s, "first_fill_cpu_s": first_cpu_s,
        "cycle_s": max(cycles), "queued": counts["queued"], "read_groups_s": read_s,
    }  # fmt: skip


def _cycle(database: Database) -> tuple[dict[str, int], float, float]:
    """Run one cycle of following jobs; return counts, wall seconds and CPU seconds."""
    with database.begin() as connection:
        backend = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        cpu_s, start_s = cpu_of(backend) + process_time(), perf_counter()
        counts = follow_jobs(connection, database.names, NOW, _set_order)
        cpu_s = cpu_of(backend) + process_time() - cpu_s
    return counts, perf_counter() - start_s, cpu_s


def _set_order(connection: sa.Connection) -> None:
    weigh(connection, _equal_shares, background=False)


def _check(database: Database, row: dict[str, Any], sent: int) -> None:
    """Check that no job was given twice and none was lost."""
    sent_now = _count(database, "doma_panda.jobsactive4 WHERE jobstatus = 'sent'") - sent
    recorded = _count(database, "broker.matched_requests")
    duplicates = _count(
        database, "(SELECT FROM broker.matched_requests GROUP BY pandaid HAVING count(*) > 1) AS double"
    )
    waiting = _count(database, "broker.waiting_jobs")
    active = _count(database, "doma_panda.jobsactive4 WHERE jobstatus = 'activated'")
    reported = row["direct_matches"] + row["api_matches"]
    if duplicates or sent_now != recorded or reported > recorded or waiting != active:
        raise SystemExit(
            f"{duplicates} given twice; {reported} told, {recorded} noted, {sent_now} sent; "
            f"{waiting} wait, {active} are activated"
        )
    row |= {"noted": recorded, "twice": duplicates}


def _count(database: Database, rows: str) -> int:
    return int(_scalar(database, f"SELECT count(*) FROM {rows}"))  # noqa: S608 - ours


def _scalar(database: Database, query: str) -> Any:
    with database.begin() as connection:
        return connection.execute(sa.text(query)).scalar_one()


if __name__ == "__main__":
    main()
