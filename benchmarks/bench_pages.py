"""Pages against the routes of the API that they show, in one run: p95 of both, and the bytes of each page.

The stored decisions are those of ``bench_decisions_store``. Requests go to the application in the same process, page
and routes in turn, so that a slow moment meets both. A page that shows several routes is compared with their sum. With
``--refreshes`` the first page is asked for so often, and the memory of the process before and after is compared.
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
from benchmarks.many_decisions import fill, stored
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
class Shown:
    """A page, the routes of the API that it shows, and what was measured of both in ms."""

    page: str
    routes: Sequence[str]
    page_ms: list[float] = field(default_factory=list)
    route_ms: list[list[float]] = field(default_factory=list)
    bytes: int = 0


def shown(database: Database) -> list[Shown]:
    """The pages with their routes, about things that the database has."""
    with database.read_snapshot() as connection:
        task = connection.scalar(sa.text("SELECT min(jeditaskid) FROM broker.chunk_states"))
        queue = connection.scalar(sa.text("SELECT min(panda_queue) FROM doma_panda.schedconfig_json"))
        user = connection.scalar(sa.text("SELECT min(username) FROM doma_panda.jedi_tasks WHERE username <> ''"))
        job = connection.scalar(sa.text("SELECT min(pandaid) FROM doma_panda.jobsactive4"))
    return [
        Shown("/", ["reasons", "alarms", "service"]),
        Shown("/tasks", ["tasks?limit=100"]),
        Shown(f"/tasks/{task}", [f"tasks/{task}/decision", f"tasks/{task}/history"]),
        Shown(f"/tasks/{task}/why-not/{queue}", [f"tasks/{task}/why-not/{queue}?every_rule=true"]),
        Shown("/queues", ["queues"]),
        Shown(f"/queues/{queue}", [f"queues/{queue}/summary", f"queues/{queue}/jobs"]),
        Shown("/nuclei", ["nuclei"]),
        Shown("/links", ["links?limit=10000"]),
        Shown("/shares", ["shares"]),
        Shown("/map", ["queues", "nuclei", "links?limit=40"]),
        Shown("/rules", RULES),
        Shown(f"/rules/{RULE}", RULES),
        Shown(f"/reasons/{CODE}", [*RULES, f"tasks?reason={CODE}"]),
        Shown("/tuning", ["config", "config/history", "canaries"]),
        Shown(f"/tuning/{KEY}", [f"config/{KEY}", f"config/history?key={KEY}", "runs"]),
        Shown("/service", ["service", "alarms"]),
        *([Shown(f"/users/{to_path(user)}", [f"users/{to_path(user)}"])] if user else []),
        *([Shown(f"/jobs/{job}", [f"jobs/{job}"])] if job else []),
    ]


def application(database: Database, home: Path) -> FastAPI:
    """The application with the page; a benchmark is many clients, so nothing limits their rate."""
    configuration = load(path("config/api.yaml"))
    parts = page_parts(configuration, TOKEN, time.monotonic)
    app = create_app(
        database, configuration, home=home, folder=None, now=lambda: NOW, steady_s=time.monotonic, parts=parts
    )
    app.state.api.limiter.wait_s = lambda identity, address: 0.0
    return app


async def measure(app: FastAPI, pages: Sequence[Shown], requests: int) -> None:
    """Ask for each page and its routes in turn, after two of each to warm up."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        for one in pages:
            one.route_ms = [[] for _ in one.routes]
            for at in range(requests + 2):
                milliseconds, one.bytes = await _timed(client, one.page, "text/html")
                routes = [(await _timed(client, f"/api/v1/{route}", "application/json"))[0] for route in one.routes]
                if at >= 2:
                    one.page_ms.append(milliseconds)
                    for kept, found in zip(one.route_ms, routes, strict=True):
                        kept.append(found)
            print(", ".join(f"{name} {value}" for name, value in row_of(one).items()), flush=True)


async def _timed(client: httpx.AsyncClient, address: str, accept: str) -> tuple[float, int]:
    began = perf_counter()
    answer = await client.get(address, headers={"Accept": accept})
    spent = 1000 * (perf_counter() - began)
    if answer.status_code != 200:
        raise SystemExit(f"{address}: {answer.status_code} {answer.text[:300]}")
    return spent, len(answer.content)


async def grown_bytes(app: FastAPI, times: int) -> int:
    """By how much this process grows while the first page is refreshed so often, after a tenth as many."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        for _ in range(times // 10):
            await _timed(client, "/", "text/html")
        before = _resident_bytes()
        for _ in range(times):
            await _timed(client, "/", "text/html")
    return _resident_bytes() - before


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def row_of(one: Shown) -> dict[str, Any]:
    """The figures of a page."""
    page = float(np.percentile(one.page_ms, 95))
    routes = sum(float(np.percentile(found, 95)) for found in one.route_ms)
    return {"page": one.page, "page_p95_ms": page, "api_p95_ms": routes, "ratio": page / routes, "bytes": one.bytes}


def main() -> None:
    """Measure and report; exit status 1 where a page is too slow or too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--rows", type=int, default=ROWS, help="how many decisions are stored")
    parser.add_argument("--home", type=Path, help="a folder for the database, which stays")
    parser.add_argument("--requests", type=int, default=40, help="how often each page is asked for")
    parser.add_argument("--refreshes", type=int, default=0, help="how often the first page is refreshed")
    asked = parser.parse_args()
    scenario = make_scenario(TASKS, QUEUES, JOBS, seed=SEED)
    with loaded(scenario, asked.home) as database, tempfile.TemporaryDirectory() as home:
        decisions = stored(database)
        if not decisions:
            broker_once("production_job", database, NOW, SEED, lambda told: None)
            decisions = fill(database, asked.rows)
        with pool(database, load(path("config/api.yaml"))) as own:
            app, pages = application(own, Path(home)), shown(database)
            asyncio.run(measure(app, pages, asked.requests))
            grown = asyncio.run(grown_bytes(app, asked.refreshes)) if asked.refreshes else None
    rows = [row_of(one) for one in pages]
    target = f"ratio < {MOST_RATIO:g}, bytes < {MOST_BYTES}"
    report(
        asked.folder, "pages", rows, target=target, decisions=decisions, refreshes=asked.refreshes, grown_bytes=grown
    )
    bad = [row["page"] for row in rows if row["ratio"] >= MOST_RATIO or row["bytes"] >= MOST_BYTES]
    if bad:
        raise SystemExit(f"too slow or too large: {', '.join(bad)}")


if __name__ == "__main__":
    main()
