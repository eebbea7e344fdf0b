"""The HTTP API against what it wraps, in one run: matches per second, and a task's decision against a bare route.

Processes match jobs first by direct calls of the matcher, then as many processes through the API. In each part one
process is killed half-way, its matches are counted, and no job may be given twice.
Usage: ``python -m benchmarks.bench_api [--jobs N] [--processes N] [--servers N] [--seconds S]``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import sqlalchemy as sa
from fastapi import FastAPI

from benchmarks.bench_match import QUEUES, _check, _measure, _prepare
from benchmarks.measuring import folder_argument, report
from benchmarks.plain_client import PlainClient
from broker.access.policies import Identity
from broker.api.process import serving
from broker.api.server import ListenOptions
from broker.api.state import ApiState
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.schema.migrate import upgrade
from tests.brokerages.small_grid import TASK
from tests.brokerages.stored_grids import store_jobs

REQUESTS = 400
MATCH_RATIO, DECISION_RATIO = 0.7, 5.0


def main() -> None:
    """Measure and report."""
    options = _arguments()
    with tempfile.TemporaryDirectory(prefix="gridbroker-bench-") as folder:
        server = EmbeddedServer(Path(folder))
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            row = decisions(database, Path(folder)) | matches(
                database, Path(folder), options.jobs, options.processes, options.servers, options.seconds
            )
    target = f"matches >= {MATCH_RATIO} x the direct call; decision p95 <= {DECISION_RATIO:g} x a bare route"
    report(options.folder, "api", [row], target=target)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0)
    folder_argument(parser)
    options = parser.parse_args()
    return options


def decisions(database: Database, folder: Path, requests: int = REQUESTS) -> dict[str, Any]:
    """Measure the route of a task's decision, and a route of the same server that does nothing."""
    store_jobs(database)
    with serving(database, ListenOptions(), home=folder, folder=None) as running:
        app: FastAPI = running.server.app

        @app.get("/bare")
        async def bare() -> dict[str, bool]:
            return {"ok": True}

        token = str(running.token)
        _disable_rate_limits(app.state.api)
        routes = {"bare": "/bare", "decision": f"/api/v1/tasks/{TASK}/decision"}
        timings = _time_requests(running.server.url, token, routes, requests)
    p95 = {name: float(np.percentile(times, 95)) for name, times in timings.items()}
    return {
        "bare_p95_ms": p95["bare"],
        "decision_p95_ms": p95["decision"],
        "decision_ratio": p95["decision"] / p95["bare"],
    }


def matches(
    database: Database, folder: Path, jobs: int, processes: int, servers: int, seconds: float
) -> dict[str, Any]:
    """Measure matches per second by direct calls and through the API, each with one client killed half-way.

    Both do the same work: each request is recorded under its number, so that a repeated request gets the same job.
    """
    with database.begin() as connection:
        connection.execute(sa.text("TRUNCATE doma_panda.jobsactive4, doma_panda.jobsdefined4"))
    row = _prepare(database, jobs)
    direct = _measure(database, folder, processes, seconds, killed=1, numbered=True)
    direct_sent = _count(database, "doma_panda.jobsactive4 WHERE jobstatus = 'sent'")
    with _serve_processes(database, folder, servers) as addresses:
        through_api = _measure_api(addresses, folder, processes, seconds)
    sent = _count(database, "broker.matched_requests") - direct_sent
    twice = _count(database, "(SELECT FROM broker.matched_requests GROUP BY pandaid HAVING count(*) > 1) AS double")
    if twice or sent < through_api["api_matches"] or direct_sent < direct["matches"]:
        raise SystemExit(f"{twice} jobs were given twice; {through_api['api_matches']} were told, {sent} are on record")
    _check(database, direct_sent + sent)
    direct_per_s, api_per_s = direct_sent / direct["seconds"], sent / through_api["api_seconds"]
    return {
        "jobs": row["jobs"],
        "direct_per_s": direct_per_s,
        "api_per_s": api_per_s,
        "match_ratio": api_per_s / direct_per_s,
    }


def _count(database: Database, rows: str) -> int:
    query = sa.text(f"SELECT count(*) FROM {rows}")  # noqa: S608 - ours
    with database.begin() as connection:
        return int(connection.execute(query).scalar_one())


@contextmanager
def _serve_processes(database: Database, folder: Path, servers: int) -> Iterator[list[tuple[str, str]]]:
    """Start processes of the API; yield the address and token of each."""
    context = multiprocessing.get_context("spawn")
    queue, ending = context.Queue(), context.Event()
    with ExitStack() as stack:
        for _ in range(servers):
            process = context.Process(target=_serve, args=(database.url, str(folder), queue, ending))
            process.start()
            stack.callback(process.join)
        stack.callback(ending.set)
        yield [queue.get(timeout=120) for _ in range(servers)]


def _serve(url: str, folder: str, queue: Any, ending: Any) -> None:
    with Database(url) as database, serving(database, ListenOptions(), home=Path(folder), folder=None) as running:
        _disable_rate_limits(running.server.app.state.api)
        queue.put((running.server.url, running.token))
        ending.wait()


def _disable_rate_limits(state: ApiState) -> None:
    """Switch off the rate limits: the client of a benchmark stands for many clients."""

    def never(identity: Identity | None, address: str, stranger: str = "anonymous") -> float:
        return 0.0

    state.limiter.wait_s = never  # type: ignore[method-assign]


def _measure_api(addresses: list[tuple[str, str]], folder: Path, processes: int, seconds: float) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(processes + 1)
    workers = [
        context.Process(
            target=_ask, args=(*addresses[number % len(addresses)], number, seconds, folder / f"a{number}.json", start)
        )
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    workers[0].join(seconds / 2)
    workers[0].kill()
    for worker in workers:
        worker.join()
    outcomes = [json.loads((folder / f"a{number}.json").read_text()) for number in range(1, processes)]
    jobs = [job for outcome in outcomes for job in outcome["jobs"]]
    if len(jobs) != len(set(jobs)):
        raise SystemExit(f"{len(jobs) - len(set(jobs))} jobs were given twice")
    return {"api_matches": len(jobs), "api_seconds": max(outcome["seconds"] for outcome in outcomes)}


def _ask(url: str, token: str, number: int, seconds: float, file: Path, start: Any) -> None:
    """Run one client: it sends numbered requests of pilots until its time is over."""
    generator, jobs, count, pilot = np.random.default_rng(number), [], 0, f"p{number}-{os.getpid()}"
    with PlainClient(url, token) as client:
        start.wait()
        begin_s = perf_counter()
        while (elapsed := perf_counter() - begin_s) < seconds:
            count += 1
            site = f"SITE_{generator.integers(QUEUES)}"
            body = f'{{"site":"{site}","ce":"ce","queue":"q","vo":"atlas","pilot":"{pilot}","request_number":{count}}}'
            response = json.loads(client.answer(b"POST", b"/api/v1/jobs:match", body.encode()))
            if response.get("pandaid") is not None:
                jobs.append(response["pandaid"])
    file.write_text(json.dumps({"jobs": jobs, "seconds": elapsed}))


def _time_requests(url: str, token: str, paths: dict[str, str], requests: int) -> dict[str, list[float]]:
    """Time requests to the paths in turn, after a tenth as many to warm up; return milliseconds by name."""
    timings: dict[str, list[float]] = {name: [] for name in paths}
    with PlainClient(url, token) as client:
        for _ in range(requests + requests // 10):
            for name, path in paths.items():
                begin_s = perf_counter()
                client.answer(b"GET", path.encode())
                timings[name].append(1000 * (perf_counter() - begin_s))
    return {name: times[requests // 10 :] for name, times in timings.items()}


if __name__ == "__main__":
    main()
