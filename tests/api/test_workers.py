"""Several processes on one port: a repeated request gets the same job, even after a process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import httpx
import pytest

from broker.api.local_token import read
from broker.api.server import ListenOptions, NotListening, bound
from broker.api.workers import Workers, workers_serving
from broker.store.connection.database import Database
from tests.pilots.statements.test_job_match import add_jobs, follow
from tests.pools.pool_grid import emptied, execute, publish_places, refresh, rows

pytestmark = pytest.mark.slow

PLACE = {"site": "SITE_A", "ce": "ce1", "queue": "long", "vo": "lhcb", "cpu_time_s": 1_000_000}
CLIENTS, REQUESTS = 6, 10
WITHIN_S = 120


@pytest.fixture
def served(shared_database: Database, tmp_path: Path) -> Iterator[tuple[str, str, Workers]]:
    publish_places(emptied(shared_database))
    execute(shared_database, "TRUNCATE broker.matched_requests")
    refresh(shared_database, 0)
    add_jobs(shared_database, 1, 2 * CLIENTS * REQUESTS)
    follow(shared_database)
    with workers_serving(shared_database, ListenOptions(), 2, home=tmp_path, folder=None) as (url, workers):
        yield url, read(tmp_path), workers


def ask(url: str, token: str, pilot: str) -> list[int]:
    """Request jobs over a persistent connection, repeating a number until it is answered."""
    jobs, deadline_s = [], monotonic() + WITHIN_S
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as client:
        for number in range(REQUESTS):
            while True:
                assert monotonic() < deadline_s
                try:
                    answer = client.post("/api/v1/jobs:match", json={**PLACE, "pilot": pilot, "request_number": number})
                except httpx.TransportError:
                    continue
                if answer.status_code == 200 and answer.json()["pandaid"]:
                    jobs.append(answer.json()["pandaid"])
                    break
    return jobs


def test_no_job_is_given_twice_or_lost_when_a_process_is_killed(
    served: tuple[str, str, Workers], shared_database: Database
) -> None:
    url, token, workers = served
    first, second = workers.processes
    with ThreadPoolExecutor(CLIENTS) as pool:
        futures = [pool.submit(ask, url, token, f"pilot{number}") for number in range(CLIENTS)]
        while not rows(shared_database, "SELECT FROM broker.matched_requests"):
            pass
        os.kill(first, signal.SIGKILL)
        jobs = [job for future in futures for job in future.result()]
    assert len(jobs) == len(set(jobs)) == CLIENTS * REQUESTS
    jobs_sent = rows(shared_database, "SELECT count(*) FROM doma_panda.jobsactive4 WHERE jobstatus = 'sent'")
    requests_recorded = rows(shared_database, "SELECT count(*) FROM broker.matched_requests")
    assert jobs_sent == requests_recorded == [(CLIENTS * REQUESTS,)]
    deadline_s = monotonic() + WITHIN_S
    while first in workers.processes:
        assert monotonic() < deadline_s
        workers.look()
    assert second in workers.processes and len(set(workers.processes)) == 2


def test_a_port_in_use_is_refused(shared_database: Database, tmp_path: Path) -> None:
    bound_socket = bound(ListenOptions())
    listening = ListenOptions(port=bound_socket.getsockname()[1])
    with (
        bound_socket,
        pytest.raises(NotListening),
        workers_serving(shared_database, listening, 2, home=tmp_path, folder=None),
    ):
        pass


def test_the_command_serves_by_several_processes_until_it_is_stopped(shared_database: Database, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "broker.cli.main",
        "--db",
        shared_database.url,
        "api",
        "--port",
        "0",
        "--workers",
        "2",
    ]
    environment = {**os.environ, "HOME": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            line = next(text for text in process.stderr if text.startswith("API: "))
            url = line.split()[1].removesuffix("/api/v1")
            assert "by 2 processes" in line and httpx.get(f"{url}/health/live").status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(WITHIN_S) == 0
        finally:
            process.kill()
    with pytest.raises(httpx.TransportError):
        httpx.get(url)
