"""How many jobs per second 8 matchers give to pilots from a million waiting jobs; no job may be given twice.

Each matcher is a process with its own connection that requests jobs for pilots at random queues. One job in ten needs
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
from broker.pools.statements.pool_registration import TaskRequirements, attach, register
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
    options = _arguments()
    with tempfile.TemporaryDirectory(prefix="gridbroker-bench-") as folder:
        server = EmbeddedServer(Path(folder))
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            row = _prepare(database, options.jobs) | _measure(database, Path(folder), options.matchers, options.seconds)
            _check(database, row["matches"])
    row["matches_per_s"] = row["matches"] / row["seconds"]
    target = "matches_per_s >= 2000, median < 5 ms, first_follow_s < 5; 8 matchers, 1,000,000 jobs, 2 cores"
    report(options.folder, "match", [row], target=target)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--matchers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    folder_argument(parser)
    options = parser.parse_args()
    return options


def _prepare(database: Database, jobs: int) -> dict[str, Any]:
    """Store places, a pool for each tenth task, jobs, and their task queues."""
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
            attach(connection, task, pool, TaskRequirements())
        version = current(connection)
        if version is not None:
            resources = version.content.resources
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
    """Let the task queues follow the jobs, as in every cycle of the agent; return counts, wall and CPU seconds."""
    with database.begin() as connection:
        backend, own_cpu_s, start_s = (
            connection.scalar(sa.text("SELECT pg_backend_pid()")),
            process_time(),
            perf_counter(),
        )
        backend_cpu_s = cpu_of(backend)
        counts = follow_jobs(connection, database.names, NOW)
        weigh(connection, _equal_shares, background=False)
        cpu_s = cpu_of(backend) - backend_cpu_s + process_time() - own_cpu_s
    return counts, perf_counter() - start_s, cpu_s


def _equal_shares(shares: Any) -> Floats:
    return np.full(len(shares), 1000.0)


def _measure(
    database: Database, folder: Path, matchers: int, seconds: float, killed: int = 0, *, numbered: bool = False
) -> dict[str, Any]:
    """Measure the matches of several matchers; the first ``killed`` are killed half-way and report nothing.

    ``numbered``: record each request under a number, as for pilots that may repeat a request.
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
    outcomes = [json.loads((folder / f"{number}.json").read_text()) for number in range(killed, matchers)]
    matched_jobs = [job for outcome in outcomes for job in outcome["jobs"]]
    if len(matched_jobs) != len(set(matched_jobs)):
        raise SystemExit(f"{len(matched_jobs) - len(set(matched_jobs))} jobs were given twice")
    request_ms = np.array([ms for outcome in outcomes for ms in outcome["asked_ms"]])
    server_s, python_s = (sum(outcome[name] for outcome in outcomes) for name in ("server_s", "python_s"))
    return {
        "matchers": matchers,
        "matches": len(matched_jobs),
        "misses": sum(outcome["misses"] for outcome in outcomes),
        "seconds": max(outcome["seconds"] for outcome in outcomes),
        "median_ms": float(np.median(request_ms)),
        "p99_ms": float(np.percentile(request_ms, 99)),
        "server_cpu_ms": 1000 * server_s / len(matched_jobs),
        "python_cpu_ms": 1000 * python_s / len(matched_jobs),
    }


def _match(url: str, number: int, numbered: bool, seconds: float, file: Path, start: Any) -> None:
    """Run one matcher until its time is over, and write the jobs it got to a file."""
    generator = np.random.default_rng(number)
    jobs: list[int] = []
    request_ms: list[float] = []
    misses = 0
    with psycopg.connect(url, autocommit=True) as connection:
        matcher = Matcher(connection, Names(), generator)
        start.wait()
        begin_s, own_cpu_s, server_cpu_s = perf_counter(), process_time(), cpu_of(connection.info.backend_pid)
        while (elapsed := perf_counter() - begin_s) < seconds:
            pilot = Pilot(f"SITE_{generator.integers(QUEUES)}", "ce", "q", "atlas")
            now = datetime(2026, 8, 1, 12, tzinfo=UTC) + timedelta(seconds=elapsed)
            request = (f"direct{number}", len(request_ms)) if numbered else None
            answer, _ = matcher.match_one(pilot, request, now)
            request_ms.append(1000 * (perf_counter() - begin_s - elapsed))
            if isinstance(answer, Match):
                jobs.append(answer.pandaid)
            else:
                misses += 1
        cpu = {"server_s": cpu_of(connection.info.backend_pid) - server_cpu_s, "python_s": process_time() - own_cpu_s}
    counts = {"jobs": jobs, "asked_ms": request_ms, "misses": misses, "seconds": elapsed}
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
