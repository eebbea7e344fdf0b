"""Behaviour common to all routes: problems, request ids, odd paths, bodies, tags, fields, rates."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import psycopg
import pytest

from broker.api.problems import problem_of
from broker.api.server import ApiServer
from broker.store.connection.database import Database
from tests.api.serving import client_of, serving, shipped

PROBLEM = "application/problem+json"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/nowhere", 404, "no_such_route"),
        ("/api/v1/nowhere", 404, "no_such_route"),
        ("/api/v1/whoami/", 404, "no_such_route"),
        ("/api//v1/whoami", 400, "odd_path"),
        ("/api/v1/%2e%2e/whoami", 400, "odd_path"),
        ("/api/v1/..%2fwhoami", 400, "odd_path"),
        ("/api/v1/who%00ami", 400, "odd_path"),
        ("/api/v1/who%5cami", 400, "odd_path"),
        ("/" + "a" * 2100, 400, "odd_path"),
    ],
)
def test_a_path_that_leads_nowhere_is_a_problem(client: httpx.Client, path: str, status: int, code: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"], answer.json()["code"]) == (status, PROBLEM, code)
    assert answer.json()["type"] == f"/reasons/{code}"
    assert answer.headers["x-request-id"] == answer.json()["request_id"]


def test_a_path_with_unnormalized_dots(server: ApiServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(b"GET /api/v1/../v1/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400") and b"odd_path" in answer


def test_another_method_is_a_problem(client: httpx.Client) -> None:
    answer = client.post("/api/v1/whoami")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")


def test_a_plain_request_id_is_kept_and_an_odd_one_replaced(client: httpx.Client) -> None:
    assert client.get("/health/live", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert client.get("/health/live", headers={"X-Request-Id": "a b<>"}).headers["x-request-id"] != "a b<>"
    assert client.get("/health/live", headers={"X-Request-Id": "a b\x1b"}).headers.get("x-request-id") != "a b\x1b"


def test_health_needs_no_token_and_readiness_needs_a_service(stranger: httpx.Client) -> None:
    assert stranger.get("/health/live").json()["status"] == "ok"
    assert stranger.get("/health/startup").status_code == 200
    ready = stranger.get("/health/ready")
    assert (ready.status_code, ready.json()["checks"][-1]["code"]) == (503, "no_leader")


def test_an_unchanged_answer_is_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/api/v1/whoami")
    repeated = client.get("/api/v1/whoami", headers={"If-None-Match": first.headers["etag"]})
    assert (repeated.status_code, repeated.content) == (304, b"")
    different_tag = client.get("/api/v1/whoami", headers={"If-None-Match": '"another"'})
    assert different_tag.status_code == 200


def test_fields_are_chosen_and_unknown_ones_refused(client: httpx.Client) -> None:
    assert client.get("/api/v1/whoami", params={"fields": "issuer"}).json() == {"issuer": "local"}
    nested = client.get("/api/v1/whoami", params={"fields": "roles.reader,subject"}).json()
    assert nested["roles"] == {"reader": ["/"]}
    refusal = client.get("/api/v1/whoami", params={"fields": "issuer,nothing"})
    assert (refusal.status_code, refusal.json()["code"]) == (400, "unknown_field")


def test_a_missing_or_wrong_token_is_refused(stranger: httpx.Client) -> None:
    bad_headers = ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"})
    for headers in bad_headers:
        answer = stranger.get("/api/v1/whoami", headers=headers)
        assert (answer.status_code, answer.json()["detail"]) == (401, "a valid token is needed")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_the_description_is_openapi_31_and_declares_problems(stranger: httpx.Client) -> None:
    document = stranger.get("/api/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    operation = document["paths"]["/api/v1/whoami"]["get"]
    assert operation["x-policy"] == "known" and operation["security"] == [{"bearer": []}]
    assert set(operation["responses"]) == {"200", "4XX", "5XX"}
    assert list(operation["responses"]["4XX"]["content"]) == [PROBLEM]


def test_each_token_has_its_own_rate(shared_database: Database, tmp_path: Path) -> None:
    slow = {"per_s": 0.001, "burst": 2}
    rates = {**shipped().rate.model_dump(), "anonymous": slow}
    with serving(shared_database, tmp_path, shipped(rate=rates)) as server, client_of(server, {}) as anonymous:
        statuses = [anonymous.get("/health/live").status_code for _ in range(3)]
        refusal = anonymous.get("/health/live")
        assert statuses == [200, 200, 429]
        assert refusal.json()["code"] == "too_many_requests" and int(refusal.headers["retry-after"]) >= 1
        with client_of(server) as authenticated:
            assert authenticated.get("/health/live").status_code == 200


@pytest.mark.parametrize("kind", [psycopg.errors.IdleInTransactionSessionTimeout, psycopg.errors.TransactionTimeout])
def test_a_transaction_ended_by_the_server_may_be_retried(kind: type[psycopg.Error]) -> None:
    problem = problem_of(kind("terminating connection"))
    assert (problem.status, problem.code) == (503, "database_unavailable") and "Retry-After" in problem.headers
