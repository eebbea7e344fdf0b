"""Pilots request jobs from two API processes while the database crashes and limits change: no job twice, none lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from broker.api.local_token import read
from broker.api.server import ListenOptions
from broker.api.workers import workers_serving
from broker.pilots.statements.running_limits import count_running, set_limits
from broker.pilots.statements.task_queue_rows import follow_jobs, weigh
from broker.store.connection.database import Database
from broker.store.connection.embedded import SUPERUSER, EmbeddedServer
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.schema.migrate import upgrade
from tests.pilots.statements.test_job_match import add_jobs
from tests.pools.pool_grid import START, publish_places, refresh, rows

pytestmark = pytest.mark.slow

PLACE = {"site": "SITE_A", "ce": "ce1", "queue": "long", "vo": "lhcb", "cpu_time_s": 1_000_000}
PILOTS, JOBS, LIMITED = 4, 400, 24
PATIENCE_S = 240
_TWICE = "SELECT pandaid FROM broker.matched_requests GROUP BY 1 HAVING count(*) > 1"
_SENT = "SELECT processingtype, count(*) FROM doma_panda.jobsactive4 WHERE jobstatus = 'sent' GROUP BY 1"
_LOST = """
SELECT job.pandaid FROM doma_panda.jobsactive4 AS job
LEFT JOIN broker.waiting_jobs AS waiting USING (pandaid) LEFT JOIN broker.matched_requests AS noted USING (pandaid)
WHERE NOT (job.jobstatus = 'activated' AND waiting.pandaid IS NOT NULL AND noted.pandaid IS NULL
           OR job.jobstatus = 'sent' AND waiting.pandaid IS NULL AND noted.pandaid IS NOT NULL)"""


class Pilots:
    """Request jobs repeatedly, with the same request number until a response arrives.

    Attributes:
        jobs: the jobs of each pilot.
    """

    def __init__(self, url: str, token: str) -> None:
        self.jobs: list[list[int]] = [[] for _ in range(PILOTS)]
        self.stopped = threading.Event()
        self._url, self._headers = url, {"Authorization": f"Bearer {token}"}

    def ask(self, number: int) -> None:
        request = 0
        with httpx.Client(base_url=self._url, headers=self._headers, timeout=20) as client:
            while not self.stopped.is_set():
                body = {**PLACE, "pilot": f"p{number}", "request_number": request}
                try:
                    response = client.post("/api/v1/jobs:match", json=body)
                except httpx.TransportError:
                    continue
                if response.status_code != 200:
                    continue  # the database is unavailable
                request += 1
                if response.json()["pandaid"] is not None:
                    self.jobs[number].append(response.json()["pandaid"])

    def all_jobs(self) -> list[int]:
        return [job for pilot_jobs in self.jobs for job in pilot_jobs]


@pytest.fixture
def database(own_server: EmbeddedServer) -> Iterator[Database]:
    with Database(own_server.url(SUPERUSER)) as server_database:
        upgrade(server_database)
        publish_places(server_database)
        refresh(server_database, 0)
        for place, kind in enumerate(("simul", "evgen")):
            add_jobs(server_database, 1 + place * JOBS, JOBS, processingtype=kind, prodsourcelabel="managed")
        with server_database.begin() as connection:
            follow_jobs(connection, server_database.names, START)
            weigh(connection, lambda shares: np.full(len(shares), 1000.0), background=False)
        limit(server_database, LIMITED)
        yield server_database


def limit(database: Database, most: float) -> None:
    with database.begin() as connection:
        set_limits(connection, lambda types, _: np.array([most if kind == "simul" else np.inf for kind in types]))
    with database.begin() as connection:
        count_running(Database.raw(connection), database.names, START)


def count_sent_jobs(database: Database) -> dict[str, int]:
    return {str(kind): int(count) for kind, count in rows(database, _SENT)}


def wait_for(jobs: int, pilots: Pilots) -> None:
    deadline_s, goal = monotonic() + PATIENCE_S, len(pilots.all_jobs()) + jobs
    while len(pilots.all_jobs()) < goal:
        assert monotonic() < deadline_s


def crash(database: Database, server: EmbeddedServer) -> None:
    """Kill the server and start it again."""
    os.kill(int((server.pgdata / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
    server.start()
    deadline_s = monotonic() + PATIENCE_S
    while True:
        assert monotonic() < deadline_s
        try:
            with database.begin() as connection:
                connection.execute(sa.text("SELECT true"))
                return
        except TRANSIENT_ERRORS:
            continue


def test_no_job_is_assigned_twice_or_lost_when_the_database_crashes_and_limits_change(
    database: Database, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    with (
        workers_serving(database, ListenOptions(), 2, home=tmp_path, folder=None) as (url, workers),
        ThreadPoolExecutor(PILOTS) as pool,
    ):
        pilots = Pilots(url, read(tmp_path))
        futures = [pool.submit(pilots.ask, number) for number in range(PILOTS)]
        try:
            wait_for(30, pilots)
            limit(database, LIMITED // 2)
            wait_for(20, pilots)
            crash(database, own_server)
            wait_for(20, pilots)
            limit(database, LIMITED)
            os.kill(workers.processes[0], signal.SIGKILL)
            workers.look()
            wait_for(20, pilots)
            assert count_sent_jobs(database)["simul"] <= LIMITED
        finally:
            pilots.stopped.set()
        for future in futures:
            future.result()
    matched_jobs = pilots.all_jobs()
    assert len(matched_jobs) == len(set(matched_jobs)) and rows(database, _TWICE) == rows(database, _LOST) == []
    sent_jobs = count_sent_jobs(database)
    assert sent_jobs["simul"] <= LIMITED and len(matched_jobs) <= sum(sent_jobs.values()) <= len(matched_jobs) + PILOTS
