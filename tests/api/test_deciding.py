"""Requests that decide: a few at once, without a connection, up to a deadline; others are answered meanwhile."""

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
from broker.api.server import Listening
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
    """Stands in for the evaluation of a case, which takes as long as it is wanted, or until it may end."""

    def __init__(self, end: threading.Event) -> None:
        self.begun, self.stopped, self.end = threading.Semaphore(0), threading.Event(), end
        self.error: Exception | None = None

    def __call__(self, case: remedies.Case, proceed: Callable[[], None] = lambda: None) -> remedies.Evaluated:
        self.begun.release()
        try:
            while not self.end.wait(0.01):
                proceed()
        except Exception as error:
            self.error = error
            self.stopped.set()
            raise
        return remedies.Evaluated((), Remedies(evaluated=True))

    def is_begun(self) -> bool:
        return self.begun.acquire(timeout=WITHIN_S)


@contextmanager
def evaluating(monkeypatch: pytest.MonkeyPatch) -> Iterator[Evaluating]:
    """Evaluations that do not end while the block runs."""
    end = threading.Event()
    found = Evaluating(end)
    monkeypatch.setattr(remedies, "evaluated_case", found)
    try:
        yield found
    finally:
        end.set()


@pytest.mark.slow
def test_a_crowd_that_evaluates_and_reports_leaves_health_and_readers_alone(
    decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = {"jobList": "[" + ",".join(f'{{"jobId": "{n}", "state": "running"}}' for n in range(1, 401)) + "]"}
    everybody = httpx.Limits(max_connections=None)
    with (
        process.serving(decided, Listening(port=0), home=tmp_path / "home", folder=None) as running,
        httpx.Client(base_url=running.server.url, timeout=WITHIN_S, limits=everybody) as client,
        ThreadPoolExecutor(2 * CROWD) as crowd,
        evaluating(monkeypatch) as under_way,
        decided.begin() as connection,
    ):
        connection.execute(sa.text(decided.names.sql("LOCK TABLE {panda}.jobsactive4 IN ACCESS EXCLUSIVE MODE")))
        bearer = {"Authorization": f"Bearer {running.token}"}

        def evaluate() -> int:
            return client.get(EVALUATED, params={"evaluate": "true"}, headers=bearer).status_code

        def report() -> int:
            return client.post("/server/panda/updateJobsInBulk", data=reports, headers={**bearer, **AGENT}).status_code

        asked = [crowd.submit(one) for one in (evaluate, report) for _ in range(CROWD)]
        assert under_way.is_begun() and _waits_for_a_lock(decided)
        for _ in range(5):
            checks = client.get("/health/ready").json()["checks"]
            assert [(one["name"], one["code"]) for one in checks[:2]] == [("database", "ok"), ("schema", "ok")]
            assert client.get(f"{V1}/config/NQUEUED_SAT_CAP").status_code == 200
        assert not all(one.done() for one in asked)
    assert {one.result() for one in asked} <= {200, 503}


def _waits_for_a_lock(database: Database) -> bool:
    """Whether a report waits for the lock that the test holds; seen from another connection."""
    query = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    end_s = time.monotonic() + WITHIN_S
    while time.monotonic() < end_s:
        with database.begin() as connection:
            if connection.execute(query).scalar_one():
                return True
    return False


def test_who_decides_holds_no_connection(decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        evaluating(monkeypatch) as under_way,
        serving(decided, tmp_path) as server,
        client_of(server) as client,
        ThreadPoolExecutor(1) as other,
    ):
        asked = other.submit(client.get, EVALUATED, params={"evaluate": "true"})
        assert under_way.is_begun()
        pool: Any = server.app.state.api.database.engine.pool
        assert pool.checkedout() == 0
        under_way.end.set()
        assert asked.result(WITHIN_S).json()["decisions"][0]["remedies"]["evaluated"]


def test_a_client_that_went_away_is_decided_for_no_longer(
    decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evaluating(monkeypatch) as under_way, serving(decided, tmp_path) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=WITHIN_S) as connection:
            head = f"GET {EVALUATED}?evaluate=true HTTP/1.1\r\nHost: {host}\r\n"
            connection.sendall(f"{head}Authorization: {BEARER['Authorization']}\r\n\r\n".encode())
            assert under_way.is_begun()
        assert under_way.stopped.wait(WITHIN_S)
        assert getattr(under_way.error, "code", "") == "client_disconnected"


def test_deciding_ends_at_its_deadline(decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    configuration = shipped(deciding={"within_s": 10.0})
    with (
        evaluating(monkeypatch) as under_way,
        serving(decided, tmp_path, configuration, steady_s=lambda: clock[0]) as server,
        client_of(server) as client,
        ThreadPoolExecutor(1) as other,
    ):
        asked = other.submit(client.get, EVALUATED, params={"evaluate": "true"})
        assert under_way.is_begun()
        clock[0] = 9.9
        assert not asked.done() and not under_way.stopped.is_set()
        clock[0] = 10.0
        refused = asked.result(WITHIN_S)
    assert (refused.status_code, refused.json()["code"]) == (503, "deciding_took_too_long")


def test_who_finds_all_places_taken_comes_again(
    decided: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = shipped(deciding={"at_once": 1}, database={"wait_s": 0.05})
    with (
        evaluating(monkeypatch) as under_way,
        serving(decided, tmp_path, configuration) as server,
        client_of(server) as client,
        ThreadPoolExecutor(1) as other,
    ):
        asked = other.submit(client.get, EVALUATED, params={"evaluate": "true"})
        assert under_way.is_begun()
        refused = client.get(f"{V1}/tasks/{TASK + 2}/why-not/ALPHA_MCORE")
        assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (
            503,
            "busy_deciding",
            "5",
        )
        under_way.end.set()
        assert asked.result(WITHIN_S).status_code == 200


@pytest.mark.parametrize("path", [EVALUATED, f"{V1}/queues/ALPHA_MCORE"])
def test_evaluating_needs_a_token_and_why_not_needs_none(decided: Database, tmp_path: Path, path: str) -> None:
    with serving(decided, tmp_path) as server, client_of(server, {}) as stranger, client_of(server) as client:
        assert stranger.get(path).status_code == client.get(path, params={"evaluate": True}).status_code == 200
        refused = stranger.get(path, params={"evaluate": True})
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert stranger.get(f"{V1}/tasks/{TASK + 2}/why-not/ALPHA_MCORE").json()["answers"]


@pytest.mark.parametrize("pilots", [8, 9])
def test_pilots_leave_connections_to_others(pilots: int) -> None:
    assert [DatabaseSection(connections=8, pilots=7).for_pilots, DatabaseSection(connections=8).for_pilots] == [7, 4]
    with pytest.raises(ValueError, match="below connections"):
        DatabaseSection(connections=8, pilots=pilots)
