"""Malicious or broken clients: their requests are refused with a problem, and other clients are served."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from tests.api.serving import BEARER, client_of, serving, shipped

V1 = "/api/v1"
DECIDE = f"{V1}/tasks:decisions"
IDLE = 500


@pytest.fixture(scope="module")
def hostile(shared_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    limits = {**shipped().limits.model_dump(), "body_bytes": 10_000, "header_within_s": 1.0, "body_within_s": 1.0}
    with serving(shared_database, tmp_path_factory.mktemp("home"), shipped(limits=limits)) as server:
        yield server


@pytest.fixture
def client(hostile: ApiServer) -> Iterator[httpx.Client]:
    with client_of(hostile) as http_client:
        yield http_client


@contextmanager
def raw(server: ApiServer) -> Iterator[socket.socket]:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        yield connection


def receive_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


BODIES: dict[str, tuple[bytes, dict[str, str], int, str]] = {
    "too large": (b"[" + b"1," * 6000 + b"1]", {}, 413, "body_too_large"),
    "a compressed bomb": (gzip.compress(b"0" * 5_000_000), {"Content-Encoding": "gzip"}, 413, "body_too_large"),
    "no gzip": (b"plain", {"Content-Encoding": "gzip"}, 400, "bad_gzip"),
    "gzip cut short": (gzip.compress(b"{}" * 100)[:-9], {"Content-Encoding": "gzip"}, 400, "bad_gzip"),
    "two gzip members": (gzip.compress(b"{}") * 2, {"Content-Encoding": "gzip"}, 400, "bad_gzip"),
    "another encoding": (b"{}", {"Content-Encoding": "br"}, 415, "unknown_content_encoding"),
    "too deep": (b"[" * 3000 + b"]" * 3000, {}, 400, "json_too_deep"),
    "no JSON": (b"{", {}, 400, "bad_json"),
    "not a number": (b'{"jeditaskids": [NaN]}', {}, 422, "invalid_request"),
    "a huge number": (b'{"jeditaskids": [' + b"9" * 400 + b"]}", {}, 422, "invalid_request"),
    "an unknown field": (b'{"jeditaskids": [1], "x": 1}', {}, 422, "invalid_request"),
    "a lone surrogate": (b'{"jeditaskids": ["\\ud800"]}', {}, 422, "invalid_request"),
    "no UTF-8": (b'{"jeditaskids": ["\xff"]}', {}, 400, "bad_request"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_bad_body_is_refused(client: httpx.Client, name: str) -> None:
    body, headers, status, code = BODIES[name]
    answer = client.post(DECIDE, content=body, headers={"Content-Type": "application/json", **headers})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert "Traceback" not in answer.text and "/" not in answer.json()["detail"].replace("UTC/", "")


def test_a_compressed_body_is_unpacked(client: httpx.Client) -> None:
    body = gzip.compress(json.dumps({"jeditaskids": [1]}).encode())
    answer = client.post(DECIDE, content=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})
    assert answer.json() == {"tasks": [], "unknown": [1]}


def test_the_body_of_a_request_without_a_token_is_not_read(hostile: ApiServer) -> None:
    with raw(hostile) as connection:
        head = f"POST {V1}/jobs:match HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        assert receive_all(connection).startswith(b"HTTP/1.1 401")


def test_too_many_headers_are_refused(client: httpx.Client, hostile: ApiServer) -> None:
    assert client.get("/health/live", headers={f"X-{n}": "x" for n in range(150)}).json()["code"] == "headers_too_large"
    with raw(hostile) as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 100_000)
        assert receive_all(connection).split(b"\r\n")[0].split()[1] in (b"400", b"431")


def test_slow_clients_are_disconnected(hostile: ApiServer, client: httpx.Client) -> None:
    with raw(hostile) as silent, raw(hostile) as slow_head, raw(hostile) as slow_body:
        slow_head.sendall(b"GET /health/live HT")
        bearer = f"Authorization: {BEARER['Authorization']}\r\n"
        head = f"POST {DECIDE} HTTP/1.1\r\nHost: localhost\r\n{bearer}Content-Type: application/json\r\n"
        head += "Content-Length: 50\r\n\r\n{"
        slow_body.sendall(head.encode())
        start_s = time.monotonic()
        assert receive_all(silent) == b"" and receive_all(slow_head) == b""
        assert slow_body.recv(65536).startswith(b"HTTP/1.1 408")
        assert time.monotonic() - start_s < 15
    assert client.get("/health/live").status_code == 200


def test_idle_connections_do_not_block_other_clients(hostile: ApiServer, client: httpx.Client) -> None:
    with ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(raw(hostile))
        assert client.get("/health/live").status_code == 200
        assert client.post(DECIDE, json={"jeditaskids": [1]}).status_code == 200


def test_no_transaction_stays_open_for_a_client_that_does_not_read(
    hostile: ApiServer, shared_database: Database
) -> None:
    with raw(hostile) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        bearer = f"Authorization: {BEARER['Authorization']}\r\n"
        connection.sendall(f"GET {V1}/config?limit=500 HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n".encode())
        assert connection.recv(10)
        with shared_database.begin() as checking:
            open_transactions = checking.execute(
                sa.text("""
                    SELECT count(*) FROM pg_stat_activity WHERE application_name = 'gridbroker api'
                    AND datname = current_database() AND xact_start IS NOT NULL""")
            ).scalar_one()
        assert open_transactions == 0


def test_a_statement_over_its_time_limit_is_cancelled(shared_database: Database, tmp_path: Path) -> None:
    configuration = shipped(database={"connections": 2, "statement_timeout_s": 0.2, "wait_s": 1})
    with (
        serving(shared_database, tmp_path, configuration) as server,
        client_of(server) as client,
        shared_database.begin() as blocking,
    ):
        blocking.execute(sa.text("LOCK TABLE broker.runs IN ACCESS EXCLUSIVE MODE"))
        answer = client.get(f"{V1}/runs")
    assert (answer.status_code, answer.json()["code"]) == (503, "statement_timeout")
    assert answer.headers["retry-after"] == "1"


def test_an_unexpected_failure_reveals_no_details(shared_database: Database, tmp_path: Path) -> None:
    with serving(shared_database, tmp_path) as server, client_of(server) as client:
        server.app.state.api.parts["metrics"] = object()
        answer = client.get("/metrics")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "object" not in answer.text and "Traceback" not in answer.text and answer.json()["request_id"]
