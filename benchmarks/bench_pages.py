"""Pages against the API routes that they show, in one run: the p95 of both, and the bytes of each page.

The stored decisions are those of ``bench_decisions_store``. Requests go to the application in the same process, page
and routes in turn, so that a slow moment affects both. A page that shows several routes is compared with their sum.
With ``--refreshes`` the first page is requested N times, and the growth of the process's memory is reported.
Usage: ``python -m benchmarks.bench_pages [FOLDER] [--rows N] [--home FOLDER] [--requests N]
[--refreshes N]``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import numpy as np
import sqlalchemy as sa
from fastapi import FastAPI

from benchmarks.bench_decisions_store import JOBS, QUEUES, ROWS, SEED, TASKS
from benchmarks.many_decisions import count_decisions, fill
from benchmarks.measuring import NOW, folder_argument, loaded, report
from benchmarks.scenario import make_scenario
from broker.api.app import create_app
from broker.api.configuration import load
from broker.api.presenting import to_path
from broker.api.process import pool
from broker.decisions.answers.agent_cycle import broker_once
from broker.resources import path
from broker.store.connection.database import Database
from broker.web.mounting import page_parts

TOKEN = "a-token-for-the-benchmark"  # noqa: S105
RULES = [f"rules/{name}" for name in ("production_task", "production_job", "analysis_job")]
MOST_RATIO, MOST_BYTES = 3.0, 150_000
KEY, RULE, CODE = "NQUEUED_SAT_CAP", "memory_max", "lowmemory"


@dataclass
class PageRoutes:
    """A page, the API routes that it shows, and the times of both in ms."""

    page: str
    routes: Sequence[str]
    page_ms: list[float] = field(default_factory=list)
    route_ms: list[list[float]] = field(default_factory=list)
    bytes: int = 0


def pages_with_routes(database: Database) -> list[PageRoutes]:
    """Return the pages with their routes, for things that the database has."""
    with database.read_snapshot() as connection:
        task = connection.scalar(sa.text("SELECT min(jeditaskid) FROM broker.chunk_states"))
        queue = connection.scalar(sa.text("SELECT min(panda_queue) FROM doma_panda.schedconfig_json"))
        user = connection.scalar(sa.text("SELECT min(username) FROM doma_panda.jedi_tasks WHERE username <> ''"))
        job = connection.scalar(sa.text("SELECT min(pandaid) FROM doma_panda.jobsactive4"))
    return [
        PageRoutes("/", ["reasons", "alarms", "service"]),
        PageRoutes("/tasks", ["tasks?limit=100"]),
        PageRoutes(f"/tasks/{task}", [f"tasks/{task}/decision", f"tasks/{task}/history"]),
        PageRoutes(f"/tasks/{task}/why-not/{queue}", [f"tasks/{task}/why-not/{queue}?every_rule=true"]),
        PageRoutes("/queues", ["queues"]),
        PageRoutes(f"/queues/{queue}", [f"queues/{queue}/summary", f"queues/{queue}/jobs"]),
        PageRoutes("/nuclei", ["nuclei"]),
        PageRoutes("/links", ["links?limit=10000"]),
        PageRoutes("/shares", ["shares"]),
        PageRoutes("/map", ["queues", "nuclei", "links?limit=40"]),
        PageRoutes("/rules", RULES),
        PageRoutes(f"/rules/{RULE}", RULES),
        PageRoutes(f"/reasons/{CODE}", [*RULES, f"tasks?reason={CODE}"]),
        PageRoutes("/tuning", ["config", "config/history", "canaries"]),
        PageRoutes(f"/tuning/{KEY}", [f"config/{KEY}", f"config/history?key={KEY}", "runs"]),
        PageRoutes("/service", ["service", "alarms"]),
        *([PageRoutes(f"/users/{to_path(user)}", [f"users/{to_path(user)}"])] if user else []),
        *([PageRoutes(f"/jobs/{job}", [f"jobs/{job}"])] if job else []),
    ]


def application(database: Database, home: Path) -> FastAPI:
    """Create the application with its pages, without rate limits: a benchmark stands for many clients."""
    configuration = load(path("config/api.yaml"))
    parts = page_parts(configuration, TOKEN, time.monotonic)
    app = create_app(
        database, configuration, home=home, folder=None, now=lambda: NOW, steady_s=time.monotonic, parts=parts
    )
    app.state.api.limiter.wait_s = lambda identity, address: 0.0
    return app


async def measure(app: FastAPI, pages: Sequence[PageRoutes], requests: int) -> None:
    """Request each page and its routes in turn, after two warm-up requests of each."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        for item in pages:
            item.route_ms = [[] for _ in item.routes]
            for number in range(requests + 2):
                milliseconds, item.bytes = await _time_request(client, item.page, "text/html")
                route_times = [
                    (await _time_request(client, f"/api/v1/{route}", "application/json"))[0] for route in item.routes
                ]
                if number >= 2:
                    item.page_ms.append(milliseconds)
                    for times_ms, time_ms in zip(item.route_ms, route_times, strict=True):
                        times_ms.append(time_ms)
            print(", ".join(f"{name} {value}" for name, value in row_of(item).items()), flush=True)


async def _time_request(client: httpx.AsyncClient, address: str, accept: str) -> tuple[float, int]:
    begin_s = perf_counter()
    answer = await client.get(address, headers={"Accept": accept})
    duration_ms = 1000 * (perf_counter() - begin_s)
    if answer.status_code != 200:
        raise SystemExit(f"{address}: {answer.status_code} {answer.text[:300]}")
    return duration_ms, len(answer.content)


async def growth_bytes(app: FastAPI, times: int) -> int:
    """Return how much this process grows over ``times`` refreshes of the first page, after a warm-up."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        for _ in range(times // 10):
            await _time_request(client, "/", "text/html")
        bytes_before = _resident_bytes()
        for _ in range(times):
            await _time_request(client, "/", "text/html")
    return _resident_bytes() - bytes_before


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def row_of(item: PageRoutes) -> dict[str, Any]:
    """Return the figures of a page."""
    page = float(np.percentile(item.page_ms, 95))
    routes = sum(float(np.percentile(times_ms, 95)) for times_ms in item.route_ms)
    return {"page": item.page, "page_p95_ms": page, "api_p95_ms": routes, "ratio": page / routes, "bytes": item.bytes}


def main() -> None:
    """Measure and report; the exit status is 1 if a page is too slow or too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--rows", type=int, default=ROWS, help="how many decisions are stored")
    parser.add_argument("--home", type=Path, help="a folder for the database, which stays")
    parser.add_argument("--requests", type=int, default=40, help="how often each page is asked for")
    parser.add_argument("--refreshes", type=int, default=0, help="how often the first page is refreshed")
    options = parser.parse_args()
    scenario = make_scenario(TASKS, QUEUES, JOBS, seed=SEED)
    with loaded(scenario, options.home) as database, tempfile.TemporaryDirectory() as home:
        decisions = count_decisions(database)
        if not decisions:
            broker_once("production_job", database, NOW, SEED, lambda emitted: None)
            decisions = fill(database, options.rows)
        with pool(database, load(path("config/api.yaml"))) as serving:
            app, pages = application(serving, Path(home)), pages_with_routes(database)
            asyncio.run(measure(app, pages, options.requests))
            grown = asyncio.run(growth_bytes(app, options.refreshes)) if options.refreshes else None
    rows = [row_of(item) for item in pages]
    target = f"ratio < {MOST_RATIO:g}, bytes < {MOST_BYTES}"
    report(
        options.folder,
        "pages",
        rows,
        target=target,
        decisions=decisions,
        refreshes=options.refreshes,
        grown_bytes=grown,
    )
    failures = [row["page"] for row in rows if row["ratio"] >= MOST_RATIO or row["bytes"] >= MOST_BYTES]
    if failures:
        raise SystemExit(f"too slow or too large: {', '.join(failures)}")


if __name__ == "__main__":
    main()
