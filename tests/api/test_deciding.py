"""Requests that decide: few at once, without a database connection, with a deadline, and without blocking others."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from broker.api import process
from broker.api.configuration import DatabaseSection
from broker.api.server import ListenOptions
from broker.decisions.answers import remedies
from broker.decisions.answers.decision_model import Remedies
from broker.store.connection.database import Database
from tests.api.decided import decided_database
from tests.api.serving import BEARER, client_of, serving, shipped
from tests.brokerages.small_grid import TASK
from tests.conftest import TestServer

V1 = "/api/v1"
EVALUATED = f"{V1}/tasks/{TASK + 2}/decision"
CROWD = 50
AGENT = {"User-Agent": "pilot/3.10"}
WITHIN_S = 60


@pytest.fixture(scope="module")
def decided(test_server: TestServer) -> Iterator[Database]:
    with decided_database(test_server) as database:
        yield database


class Evaluating:
    """Replaces the evaluation of a case; it runs until ``end`` is set or the evaluation is stopped."""

    def __init__(self, end: threading.Event) -> None:
        self.begun, self.stopped, self.end = threading.Semaphore(0), threading.Event(), end
        self.error: Exception | None = None

    def __call__(self, case: remedies.Case, proceed: Callable[[], None] = lambda: None) -> remedies.EvaluationResult:
        self.begun.release()
        try:
            while not self.end.wait(0.01):
                proceed()
        except Exception as error:
            self.error = error
            self.stopped.set()
            raise
        return remedies.EvaluationResult((), Remedies(evaluated=True))

    def is_begun(self) -> bool:
        return self.begun.acquire(timeout=WITHIN_S)


@contextmanager
def evaluating(monkeypatch: pytest.MonkeyPatch) -> Iterator[Evaluating]:
    """Replace evaluations by ones that do not end while the block runs."""
    end = threading.Event()
    evaluation = Evaluating(end)
    monkeypatch.setattr(remedies, "evaluated_case", evaluation)
    try:
        yield evaluation
    finally:
        end.set()


@pytest.mark.slow
def test_many_evaluations_and_reports_do_not_block_health_checks_and_readers(
    decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = {"jobList": "[" + ",".join(f'{{"jobId": "{n}", "state": "running"}}' for n in range(1, 401)) + "]"}
    unlimited = httpx.Limits(max_connections=None)
    with (
        process.serving(decided, ListenOptions(port=0), home=tmp_path / "home", folder=None) as running,
        httpx.Client(base_url=running.server.url, timeout=WITHIN_S, limits=unlimited) as client,
        ThreadPoolExecutor(2 * CROWD) as crowd,
        evaluating(monkeypatch) as evaluation,
        decided.begin() as connection,
    ):
        connection.execute(sa.text(decided.names.sql("LOCK TABLE {panda}.jobsactive4 IN ACCESS EXCLUSIVE MODE")))
        bearer = {"Authorization": f"Bearer {running.token}"}

        def evaluate() -> int:
            return client.get(EVALUATED, params={"evaluate": "true"}, headers=bearer).status_code

        def report() -> int:
            return client.post("/server/panda/updateJobsInBulk", data=reports, headers={**bearer, **AGENT}).status_code

        requests = [crowd.submit(action) for action in (evaluate, report) for _ in range(CROWD)]
        assert evaluation.is_begun() and _waits_for_a_lock(decided)
        for _ in range(5):
            checks = client.get("/health/ready").json()["checks"]
            assert [(check["name"], check["code"]) for check in checks[:2]] == [("database", "ok"), ("schema", "ok")]
            assert client.get(f"{V1}/config/NQUEUED_SAT_CAP").status_code == 200
        assert not all(request.done() for request in requests)
    assert {request.result() for request in requests} <= {200, 503}


def _waits_for_a_lock(database: Database) -> bool:
    """Whether a report waits for the lock held by the test, as seen from another connection."""
    query = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    end_s = time.monotonic() + WITHIN_S
    while time.monotonic() < end_s:
        with database.begin() as connection:
            if connection.execute(query).scalar_one():
                return True
    return False


def test_deciding_holds_no_database_connection(
    decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        evaluating(monkeypatch) as evaluation,
        serving(decided, tmp_path) as server,
        client_of(server) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        request = thread.submit(client.get, EVALUATED, params={"evaluate": "true"})
        assert evaluation.is_begun()
        pool: Any = server.app.state.api.database.engine.pool
        assert pool.checkedout() == 0
        evaluation.end.set()
        assert request.result(WITHIN_S).json()["decisions"][0]["remedies"]["evaluated"]


def test_deciding_stops_when_the_client_disconnects(
    decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluating(monkeypatch) as evaluation, serving(decided, tmp_path) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=WITHIN_S) as connection:
            head = f"GET {EVALUATED}?evaluate=true HTTP/1.1\r\nHost: {host}\r\n"
            connection.sendall(f"{head}Authorization: {BEARER['Authorization']}\r\n\r\n".encode())
            assert evaluation.is_begun()
        assert evaluation.stopped.wait(WITHIN_S)
        assert getattr(evaluation.error, "code", "") == "client_disconnected"


def test_deciding_ends_at_its_deadline(decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    configuration = shipped(deciding={"within_s": 10.0})
    with (
        evaluating(monkeypatch) as evaluation,
        serving(decided, tmp_path, configuration, steady_s=lambda: clock[0]) as server,
        client_of(server) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        request = thread.submit(client.get, EVALUATED, params={"evaluate": "true"})
        assert evaluation.is_begun()
        clock[0] = 9.9
        assert not request.done() and not evaluation.stopped.is_set()
        clock[0] = 10.0
        refusal = request.result(WITHIN_S)
    assert (refusal.status_code, refusal.json()["code"]) == (503, "deciding_took_too_long")


def test_a_request_beyond_the_limit_is_told_to_retry(
    decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = shipped(deciding={"at_once": 1}, database={"wait_s": 0.05})
    with (
        evaluating(monkeypatch) as evaluation,
        serving(decided, tmp_path, configuration) as server,
        client_of(server) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        request = thread.submit(client.get, EVALUATED, params={"evaluate": "true"})
        assert evaluation.is_begun()
        refusal = client.get(f"{V1}/tasks/{TASK + 2}/why-not/ALPHA_MCORE")
        assert (refusal.status_code, refusal.json()["code"], refusal.headers["retry-after"]) == (
            503,
            "busy_deciding",
            "5",
        )
        evaluation.end.set()
        assert request.result(WITHIN_S).status_code == 200


@pytest.mark.parametrize("path", [EVALUATED, f"{V1}/queues/ALPHA_MCORE"])
def test_evaluating_needs_a_token_and_why_not_needs_none(decided: Database, tmp_path: Path, path: str) -> None:
    with serving(decided, tmp_path) as server, client_of(server, {}) as stranger, client_of(server) as client:
        assert stranger.get(path).status_code == client.get(path, params={"evaluate": True}).status_code == 200
        refusal = stranger.get(path, params={"evaluate": True})
        assert (refusal.status_code, refusal.json()["code"]) == (401, "unauthenticated")
        assert stranger.get(f"{V1}/tasks/{TASK + 2}/why-not/ALPHA_MCORE").json()["answers"]


@pytest.mark.parametrize("pilots", [8, 9])
def test_some_connections_are_reserved_for_other_requests(pilots: int) -> None:
    assert [DatabaseSection(connections=8, pilots=7).for_pilots, DatabaseSection(connections=8).for_pilots] == [7, 4]
    with pytest.raises(ValueError, match="below connections"):
        DatabaseSection(connections=8, pilots=pilots)
