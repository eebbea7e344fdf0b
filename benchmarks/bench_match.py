"""How many jobs 8 matchers give to pilots in a second, from a million that wait; no job is given twice.

Each matcher is a process with its own connection and asks for pilots at queues drawn at random. One job in ten requires
a SubmitPool. Usage: ``python -m benchmarks.bench_match [--jobs N] [--matchers N] [--seconds S] [FOLDER]``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa

from benchmarks.measuring import NOW, cpu_of, folder_argument, report
from broker.domain.arrays import Floats
from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.matches import Match
from broker.pilots.statements.task_queue_rows import follow_jobs, weigh
from broker.pools.model.description import NumberLiteral
from broker.pools.model.job_text import resolve_requirements
from broker.pools.statements.pool_refresh import new_mapping, write_mapping
from broker.pools.statements.pool_registration import Asked, attach, register
from broker.pools.statements.resource_versions import ResourceText, current, publish
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.connection.tables import Names
from broker.store.schema.migrate import upgrade

QUEUES, OWNERS, TASKS = 200, 20, 1000

_JOBS = """
INSERT INTO doma_panda.jobsactive4 (pandaid, jeditaskid, jobdefinitionid, jobstatus, computingsite, vo, produsername,
    gshare, resource_type, currentpriority, prodsourcelabel, creationtime, modificationtime, statechangetime)
SELECT number, number % :tasks, 0, 'activated', 'QUEUE_' || number % :queues, 'atlas', 'user' || number / 7 % :owners,
    'Share' || number / 11 % 3, 'SCORE', (number / 13 % 4) * 100, 'user', :now, :now, :now
FROM generate_series(1, CAST(:jobs AS bigint)) AS number"""


def main() -> None:
    """Measure and report."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="gridbroker-bench-") as folder:
        server = EmbeddedServer(Path(folder))
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            row = _prepare(database, asked.jobs) | _measure(database, Path(folder), asked.matchers, asked.seconds)
            _check(database, row["matches"])
    row["matches_per_s"] = row["matches"] / row["seconds"]
    target = "matches_per_s >= 2000, median < 5 ms, first_follow_s < 5; 8 matchers, 1,000,000 jobs, 2 cores"
    report(asked.folder, "match", [row], target=target)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--matchers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    folder_argument(parser)
    asked = parser.parse_args()
    return asked


def _prepare(database: Database, jobs: int) -> dict[str, Any]:
    """Places, a pool for each tenth task, jobs, and their task queues."""
    places = {
        f"SITE_{number}": {
            "params": {"Memory": str(1000 * (number % 8 + 1)), "PandaQueue": f"QUEUE_{number}"},
            "ces": {"ce": {"queues": {"q": {}}}},
        }
        for number in range(QUEUES)
    }
    with database.begin() as connection:
        publish(connection, ResourceText("bench", "json", json.dumps(places)), NOW)
        for task in range(0, TASKS, 10):
            pool = resolve_requirements({"Memory": NumberLiteral(str(1000 + task % 3000))}, "atlas")
            if pool is not None:
                register(connection, pool, NOW)
            attach(connection, task, pool, Asked())
        version = current(connection)
        if version is not None:
            resources = version.said.resources
            write_mapping(connection, new_mapping(connection, resources), resources, version.id, NOW)
        now = NOW.astimezone(UTC).replace(tzinfo=None)
        values = {"jobs": jobs, "tasks": TASKS, "queues": QUEUES, "owners": OWNERS, "now": now}
        connection.execute(sa.text(_JOBS), values)
    counts, first_s, first_cpu_s = _follow(database)
    with database.autocommit() as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
    _, again_s, again_cpu_s = _follow(database)
    stats = {"jobs": counts["queued"], "task_queues": counts["new_queues"]}
    first = {"first_follow_s": first_s, "first_follow_cpu_s": first_cpu_s}
    return stats | first | {"follow_s": again_s, "follow_cpu_s": again_cpu_s}


def _follow(database: Database) -> tuple[dict[str, int], float, float]:
    """Let the task queues follow the jobs, as the agent does every cycle; seconds, and those of a processor."""
    with database.begin() as connection:
        server, own_s, started = connection.scalar(sa.text("SELECT pg_backend_pid()")), process_time(), perf_counter()
        server_s = cpu_of(server)
        counts = follow_jobs(connection, database.names, NOW)
        weigh(connection, _equal_shares, background=False)
        cpu_s = cpu_of(server) - server_s + process_time() - own_s
    return counts, perf_counter() - started, cpu_s


def _equal_shares(shares: Any) -> Floats:
    return np.full(len(shares), 1000.0)


def _measure(
    database: Database, folder: Path, matchers: int, seconds: float, killed: int = 0, *, numbered: bool = False
) -> dict[str, Any]:
    """What matchers find in so many seconds; the first ``killed`` of them are killed half-way, and do not tell.

    ``numbered``: each request is noted under a number, as pilots have it that may ask again.
    """
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(matchers + 1)
    workers = [
        context.Process(target=_match, args=(database.url, number, numbered, seconds, folder / f"{number}.json", start))
        for number in range(matchers)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    for worker in workers[:killed]:
        worker.join(seconds / 2)
        worker.kill()
    for worker in workers:
        worker.join()
    found = [json.loads((folder / f"{number}.json").read_text()) for number in range(killed, matchers)]
    taken = [job for one in found for job in one["jobs"]]
    if len(taken) != len(set(taken)):
        raise SystemExit(f"{len(taken) - len(set(taken))} jobs were given twice")
    asked_ms = np.array([ms for one in found for ms in one["asked_ms"]])
    server_s, python_s = (sum(one[name] for one in found) for name in ("server_s", "python_s"))
    return {
        "matchers": matchers,
        "matches": len(taken),
        "misses": sum(one["misses"] for one in found),
        "seconds": max(one["seconds"] for one in found),
        "median_ms": float(np.median(asked_ms)),
        "p99_ms": float(np.percentile(asked_ms, 99)),
        "server_cpu_ms": 1000 * server_s / len(taken),
        "python_cpu_ms": 1000 * python_s / len(taken),
    }


def _match(url: str, number: int, numbered: bool, seconds: float, file: Path, start: Any) -> None:
    """One matcher: asks until its time is over, and writes down which jobs it got."""
    generator = np.random.default_rng(number)
    jobs: list[int] = []
    asked_ms: list[float] = []
    misses = 0
    with psycopg.connect(url, autocommit=True) as connection:
        matcher = Matcher(connection, Names(), generator)
        start.wait()
        began, own_s, server_s = perf_counter(), process_time(), cpu_of(connection.info.backend_pid)
        while (elapsed := perf_counter() - began) < seconds:
            pilot = Pilot(f"SITE_{generator.integers(QUEUES)}", "ce", "q", "atlas")
            now = datetime(2026, 8, 1, 12, tzinfo=UTC) + timedelta(seconds=elapsed)
            request = (f"direct{number}", len(asked_ms)) if numbered else None
            found, _ = matcher.match_one(pilot, request, now)
            asked_ms.append(1000 * (perf_counter() - began - elapsed))
            if isinstance(found, Match):
                jobs.append(found.pandaid)
            else:
                misses += 1
        cpu = {"server_s": cpu_of(connection.info.backend_pid) - server_s, "python_s": process_time() - own_s}
    counts = {"jobs": jobs, "asked_ms": asked_ms, "misses": misses, "seconds": elapsed}
    file.write_text(json.dumps(counts | cpu))


def _check(database: Database, matches: int) -> None:
    with database.read_snapshot() as connection:
        sent = connection.scalar(sa.text("SELECT count(*) FROM doma_panda.jobsactive4 WHERE jobstatus = 'sent'"))
        waiting = connection.scalar(sa.text("SELECT count(*) FROM broker.waiting_jobs"))
        active = connection.scalar(sa.text("SELECT count(*) FROM doma_panda.jobsactive4 WHERE jobstatus = 'activated'"))
    if sent != matches or waiting != active:
        raise SystemExit(f"{matches} jobs were given, {sent} are sent; {waiting} wait, {active} are activated")


if __name__ == "__main__":
    main()
