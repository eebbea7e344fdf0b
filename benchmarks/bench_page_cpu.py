"""The CPU that each page takes of its process, on the database of a demonstration or of an installation.

Requests go to the application in the same process; the database runs in others, and is not counted.
Usage: ``python -m benchmarks.bench_page_cpu --home FOLDER [--decisions N] [--requests N] [--profile PAGE]``, with
FOLDER of ``broker demo --where``. With ``--decisions`` the last decisions there are first copied to other tasks and
instants of 14 days until there are so many, which 10 million take about 10 GB for; the folder is for nothing else then.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
import sqlalchemy as sa
from fastapi import FastAPI

from benchmarks.many_decisions import fill, stored
from broker.api.app import create_app
from broker.api.configuration import load
from broker.api.presenting import to_path
from broker.api.process import pool
from broker.resources import path
from broker.store.connection.database import Database
from broker.store.connection.opening import open_database
from broker.web.mounting import page_parts
from broker.web.rendering import MENU

TOKEN = "a-token-for-the-benchmark"  # noqa: S105
MOST_MS = 100.0
TASK_COPIES = 100
"""Of each task of the demonstration, so that 10 million decisions are of some 10,000 open tasks."""
KEY, RULE, CODE = "NQUEUED_SAT_CAP", "memory_max", "lowmemory"
_THINGS = {
    "/tasks/{} (waits)": "SELECT min(jeditaskid) FROM broker.chunk_states WHERE outcome = 'pending'",
    "/tasks/{} (brokered)": "SELECT min(jeditaskid) FROM broker.chunk_states WHERE outcome = 'brokered'",
    "/tasks/{}/why-not/BNL": "SELECT min(jeditaskid) FROM broker.chunk_states WHERE outcome = 'pending'",
    "/queues/{}": "SELECT min(panda_queue) FROM doma_panda.schedconfig_json",
    "/jobs/{}": "SELECT min(pandaid) FROM doma_panda.jobsactive4",
    "/users/{}": "SELECT min(username) FROM doma_panda.jedi_tasks WHERE tasktype = 'anal'",
}


def addresses(database: Database) -> list[str]:
    """The pages of the menu, and one of each kind of thing."""
    found = [address for _, pages in MENU for address, _ in pages]
    with database.read_snapshot() as connection:
        for address, query in _THINGS.items():
            value = connection.scalar(sa.text(query))
            if value is not None:
                found.append(address.partition(" (")[0].format(to_path(str(value))))
    return [*found, f"/rules/{RULE}", f"/reasons/{CODE}", f"/tuning/{KEY}"]


async def measure(app: FastAPI, pages: list[str], requests: int, profiled: str | None) -> dict[str, float]:
    """The median of the CPU of each page in ms, after two requests to warm up."""
    found = {}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        client.headers.update({"Authorization": f"Bearer {TOKEN}", "Accept": "text/html"})
        for page in pages:
            spent = []
            for _ in range(requests + 2):
                began = time.process_time()
                answer = await client.get(page)
                spent.append(1000 * (time.process_time() - began))
                if answer.status_code >= 400:
                    print(f"{page}: {answer.status_code} {answer.text[-300:]}", flush=True)
                    break
            # a page that is refused counts as one that never comes
            found[page] = float(np.median(spent[2:])) if len(spent) == requests + 2 else float("inf")
            print(f"{found[page]:8.1f} ms  {page}", flush=True)
        if profiled is not None:
            profile = cProfile.Profile()
            profile.enable()
            await client.get(profiled)
            profile.disable()
            pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
    return found


def grow(database: Database, decisions: int) -> None:
    """Copy the decisions of the last instant, where there are less than half of what is wanted."""
    if stored(database) >= decisions / 2:
        return
    with database.read_snapshot() as connection:
        last = connection.scalar(sa.text("SELECT max(decided_at) FROM broker.decisions"))
    began = time.monotonic()
    there = fill(database, decisions, last, TASK_COPIES, work_for=timedelta(days=1))
    print(f"{there:,} decisions after {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    """Measure and report; exit status 1 where a page takes too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="the folder of the database")
    parser.add_argument("--requests", type=int, default=10, help="how often each page is asked for")
    parser.add_argument("--profile", help="a page of which the calls are shown")
    parser.add_argument("--decisions", type=int, default=0, help="so many are made first")
    asked = parser.parse_args()
    configuration = load(path("config/api.yaml"))
    with (
        open_database(None, asked.home) as database,
        tempfile.TemporaryDirectory() as home,
        pool(database, configuration) as own,
    ):
        if asked.decisions:
            grow(database, asked.decisions)
        parts = page_parts(configuration, TOKEN, time.monotonic)
        app = create_app(
            own, configuration, home=Path(home), folder=None, now=lambda: datetime.now(UTC),
            steady_s=time.monotonic, parts=parts,
        )  # fmt: skip
        app.state.api.limiter.wait_s = lambda identity, address: 0.0
        pages = [asked.profile] if asked.profile else addresses(database)
        found = asyncio.run(measure(app, pages, asked.requests, asked.profile))
    slow = [f"{page} {spent:.0f} ms" for page, spent in found.items() if spent >= MOST_MS]
    if slow:
        raise SystemExit(f"more than {MOST_MS:g} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
