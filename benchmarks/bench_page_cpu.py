"""The CPU time of each page, on the database of a demonstration or of an installation.

Requests go to the application in the same process. The CPU time of PostgreSQL is counted separately, from /proc, for
the processes that serve the connections of the application.
Usage: ``python -m benchmarks.bench_page_cpu --home FOLDER [--decisions N] [--requests N] [--api] [--page PAGE ...]
[--profile PAGE]``, with FOLDER of ``broker demo --where``. With ``--decisions`` the last decisions of the database are
first copied to other tasks and instants over 14 days until there are N (10 million take about 10 GB); the folder cannot
be used for anything else afterwards. With ``--api`` the API routes behind the pages are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import numpy as np
import sqlalchemy as sa
from fastapi import FastAPI

from benchmarks.many_decisions import count_decisions, fill
from benchmarks.measuring import cpu_of
from broker.api.app import create_app
from broker.api.configuration import load
from broker.api.presenting import to_path
from broker.api.process import pool
from broker.garbage_collection import keep_what_is_there
from broker.resources import path
from broker.store.connection.database import Database
from broker.store.connection.opening import open_database
from broker.web.mounting import page_parts
from broker.web.rendering import MENU

TOKEN = "a-token-for-the-benchmark"  # noqa: S105
MOST_MS = 100.0
TASK_COPIES = 100
"""Copies of each task of the demonstration, so that 10 million decisions belong to some 10,000 open tasks."""
KEY, RULE, CODE, NAME = "NQUEUED_SAT_CAP", "memory_max", "lowmemory", "BNL-ATL"
_WAITS = "SELECT min(jeditaskid) FROM broker.chunk_states WHERE outcome = 'pending'"
_BROKERED = "SELECT min(jeditaskid) FROM broker.chunk_states WHERE outcome = 'brokered'"
_QUEUE = "SELECT min(panda_queue) FROM doma_panda.schedconfig_json"
_USER = "SELECT min(username) FROM doma_panda.jedi_tasks WHERE tasktype = 'anal'"
_NUCLEUS = "SELECT min(nucleus) FROM doma_panda.jedi_tasks"
_JOB = "SELECT min(pandaid) FROM doma_panda.jobsactive4"
_POOL = "SELECT min(pool_id) FROM broker.submit_pools"
_PAGES: Mapping[str, str] = {
    "/tasks/{} (waits)": _WAITS,
    "/tasks/{} (brokered)": _BROKERED,
    "/tasks/{}/why-not/BNL": _WAITS,
    "/queues/{}": _QUEUE,
    "/nuclei/{}": _NUCLEUS,
    "/pools/{}": _POOL,
    "/jobs/{}": _JOB,
    "/users/{}": _USER,
    "/runs/{}": "SELECT min(id) FROM broker.runs",
    "/simulations/{}": "SELECT min(id) FROM broker.runs WHERE kind = 'simulation'",
    "/tasks?queue={}": _QUEUE,
    "/tasks?user={}": _USER,
    "/jobs?task={}": _BROKERED,
    "/jobs?queue={}": _QUEUE,
    "/plots/queues/{}": _QUEUE,
}
_PAGES_OF_NOTHING = (
    f"/rules/{RULE}", f"/reasons/{CODE}", f"/tuning/{KEY}", "/tuning/diff?first=1&second=1", "/docs/list_alarms",
    f"/search?q={NAME}", f"/search/suggestions?q={NAME}", "/tasks?status=pending", f"/tasks?reason={CODE}",
    "/plots/outcomes", "/mine",
)  # fmt: skip
_ROUTES: Mapping[str, str] = {
    "tasks/{}/decision (waits)": _WAITS,
    "tasks/{}/decision (brokered)": _BROKERED,
    "tasks/{}/history": _WAITS,
    "tasks/{}/why-not/BNL": _WAITS,
    "queues/{}": _QUEUE,
    "queues/{}/summary": _QUEUE,
    "queues/{}/jobs": _QUEUE,
    "queues/{}/demand": _QUEUE,
    "forecasts/queues/{}": _QUEUE,
    "nuclei/{}": _NUCLEUS,
    "users/{}": _USER,
    "pools/{}": _POOL,
    "jobs/{}": _JOB,
    "jobs/{}/match": _JOB,
    "tasks?queue={}": _QUEUE,
    "tasks?user={}": _USER,
}
_ROUTES_OF_NOTHING = (
    "tasks", "tasks?status=pending", f"tasks?reason={CODE}", "reasons", "queues", "nuclei", "links", "shares", "jobs",
    "rules/production_job", "alarms", "service", "sources", "quality", "forecasts", "pins", "canaries", "config",
    "config/history", "submit-pools", "pilot-demand", "retry-rules", "runs", "simulations", "shadow", "shadow/gate",
)  # fmt: skip


@dataclass(frozen=True)
class PageCpu:
    """The CPU time of one page in ms, of the process and of the database."""

    process: float
    database: float

    @property
    def both(self) -> float:
        """The sum of both."""
        return self.process + self.database


def addresses_of_things(database: Database, queries: Mapping[str, str]) -> list[str]:
    """Return the addresses of the things that the database has."""
    addresses_found = []
    with database.read_snapshot() as connection:
        for address, query in queries.items():
            with connection.begin_nested() as savepoint:
                try:
                    value = connection.scalar(sa.text(query))
                except sa.exc.ProgrammingError:
                    savepoint.rollback()
                    value = None
            if value is not None:
                addresses_found.append(address.partition(" (")[0].format(to_path(str(value))))
    return addresses_found


def addresses(database: Database) -> list[str]:
    """Return the pages of the menu, one page for each kind of thing, and filtered lists."""
    menu = [address for _, pages in MENU for address, _ in pages]
    return list(dict.fromkeys([*menu, *addresses_of_things(database, _PAGES), *_PAGES_OF_NOTHING]))


def routes(database: Database) -> list[str]:
    """Return the API routes whose answers the pages show."""
    all_routes = [*_ROUTES_OF_NOTHING, *addresses_of_things(database, _ROUTES)]
    return [f"/api/v1/{address}" for address in dict.fromkeys(all_routes)]


async def measure(
    app: FastAPI, pages: Sequence[str], requests: int, serving_s: Callable[[], float], profiled: str | None
) -> dict[str, PageCpu]:
    """Return the median CPU time of each page after two warm-up requests; ``serving_s`` is the time of the database."""
    cpu_by_page = {}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        client.headers.update({"Authorization": f"Bearer {TOKEN}"})
        for page in pages:
            accept = "application/json" if page.startswith("/api/") else "text/html"
            samples = []
            for _ in range(requests + 2):
                begin_s, served_s = time.process_time(), serving_s()
                answer = await client.get(page, headers={"Accept": accept})
                samples.append((1000 * (time.process_time() - begin_s), 1000 * (serving_s() - served_s)))
                if answer.status_code >= 400:
                    print(f"{page}: {answer.status_code} {answer.text[-300:]}", flush=True)
                    break
            # a refused page counts as infinitely slow
            complete = len(samples) == requests + 2
            process_ms, database_ms = (
                np.median(samples[2:], axis=0).tolist() if complete else (float("inf"), samples[-1][1])
            )
            cpu_by_page[page] = PageCpu(process_ms, database_ms)
            print(f"{process_ms:8.1f} + {database_ms:6.1f} ms of the database  {page}", flush=True)
        if profiled is not None:
            profile = cProfile.Profile()
            # a profile covers one thread
            with patch("anyio.to_thread.run_sync", _run_inline):
                profile.enable()
                await client.get(profiled, headers={"Accept": "text/html"})
                profile.disable()
            pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
    return cpu_by_page


async def _run_inline(work: Callable[..., Any], *values: Any, **_: Any) -> Any:
    return work(*values)


def seconds_of(serving: Database, watching: Database) -> Callable[[], float]:
    """Return a function that gives the server CPU seconds used so far by the connections of a pool."""
    name = sa.text("SELECT pid FROM pg_stat_activity WHERE application_name = :name")
    with serving.begin() as connection:
        parameters = {"name": connection.exec_driver_sql("SHOW application_name").scalar_one()}

    def seconds() -> float:
        with watching.begin() as connection:
            cpu_seconds = [cpu_of(process) for process in connection.scalars(name, parameters)]
        return sum(value for value in cpu_seconds if value == value)  # an ended process has none

    return seconds


def grow(database: Database, decisions: int) -> None:
    """Copy the decisions of the last instant if the database has less than half of the requested number."""
    if count_decisions(database) >= decisions / 2:
        return
    with database.read_snapshot() as connection:
        last = connection.scalar(sa.text("SELECT max(decided_at) FROM broker.decisions"))
    begin_s = time.monotonic()
    count = fill(database, decisions, last, TASK_COPIES, work_for=timedelta(days=1))
    print(f"{count:,} decisions after {time.monotonic() - begin_s:.0f} s", flush=True)


def main() -> None:
    """Measure and report; the exit status is 1 if a page takes too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="the folder of the database")
    parser.add_argument("--requests", type=int, default=10, help="how often each page is asked for")
    parser.add_argument("--page", action="append", help="only this page")
    parser.add_argument("--profile", help="a page of which the calls are shown")
    parser.add_argument("--api", action="store_true", help="routes of the API instead of pages")
    parser.add_argument("--decisions", type=int, default=0, help="so many are made first")
    options = parser.parse_args()
    configuration = load(path("config/api.yaml"))
    with (
        open_database(None, options.home) as database,
        tempfile.TemporaryDirectory() as home,
        pool(database, configuration) as serving,
    ):
        if options.decisions:
            grow(database, options.decisions)
        parts = page_parts(configuration, TOKEN, time.monotonic)
        app = create_app(
            serving, configuration, home=Path(home), folder=None, now=lambda: datetime.now(UTC),
            steady_s=time.monotonic, parts=parts,
        )  # fmt: skip
        keep_what_is_there()  # as the serving command does
        app.state.api.limiter.wait_s = lambda identity, address: 0.0
        pages = [options.profile] if options.profile else options.page
        pages = pages or (routes(database) if options.api else addresses(database))
        cpu_by_page = asyncio.run(measure(app, pages, options.requests, seconds_of(serving, database), options.profile))
    slow = [f"{page} {cpu.both:.0f} ms" for page, cpu in cpu_by_page.items() if cpu.both >= MOST_MS]
    if slow:
        raise SystemExit(f"more than {MOST_MS:g} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
