"""The manners of every route: problems, request ids, odd paths, bodies, tags, fields, rates."""

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


def test_a_path_with_dots_that_no_client_tidied_up(server: ApiServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(b"GET /api/v1/../v1/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400") and b"odd_path" in answer


def test_another_method_is_a_problem(client: httpx.Client) -> None:
    answer = client.post("/api/v1/whoami")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")


def test_a_request_keeps_a_plain_identifier_and_gets_another_for_an_odd_one(client: httpx.Client) -> None:
    assert client.get("/health/live", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert client.get("/health/live", headers={"X-Request-Id": "a b<>"}).headers["x-request-id"] != "a b<>"
    assert client.get("/health/live", headers={"X-Request-Id": "a b\x1b"}).headers.get("x-request-id") != "a b\x1b"


def test_health_needs_no_token_and_readiness_needs_a_service(stranger: httpx.Client) -> None:
    assert stranger.get("/health/live").json()["status"] == "ok"
    assert stranger.get("/health/startup").status_code == 200
    ready = stranger.get("/health/ready")
    assert (ready.status_code, ready.json()["checks"][-1]["code"]) == (503, "no_leader")


def test_an_answer_that_the_client_has_is_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/api/v1/whoami")
    again = client.get("/api/v1/whoami", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get("/api/v1/whoami", headers={"If-None-Match": '"another"'})
    assert other.status_code == 200


def test_fields_are_chosen_and_unknown_ones_refused(client: httpx.Client) -> None:
    assert client.get("/api/v1/whoami", params={"fields": "issuer"}).json() == {"issuer": "local"}
    nested = client.get("/api/v1/whoami", params={"fields": "roles.reader,subject"}).json()
    assert nested["roles"] == {"reader": ["/"]}
    wrong = client.get("/api/v1/whoami", params={"fields": "issuer,nothing"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "unknown_field")


def test_who_shows_no_token_or_a_wrong_one(stranger: httpx.Client) -> None:
    bad = ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"})
    for headers in bad:
        answer = stranger.get("/api/v1/whoami", headers=headers)
        assert (answer.status_code, answer.json()["detail"]) == (401, "a valid token is needed")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_the_description_is_openapi_31_and_problems_are_problems(stranger: httpx.Client) -> None:
    found = stranger.get("/api/v1/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    operation = found["paths"]["/api/v1/whoami"]["get"]
    assert operation["x-policy"] == "known" and operation["security"] == [{"bearer": []}]
    assert set(operation["responses"]) == {"200", "4XX", "5XX"}
    assert list(operation["responses"]["4XX"]["content"]) == [PROBLEM]


def test_a_token_has_a_rate_of_its_own(shared: Database, tmp_path: Path) -> None:
    slow = {"per_s": 0.001, "burst": 2}
    rates = {**shipped().rate.model_dump(), "anonymous": slow}
    with serving(shared, tmp_path, shipped(rate=rates)) as server, client_of(server, {}) as somebody:
        statuses = [somebody.get("/health/live").status_code for _ in range(3)]
        refused = somebody.get("/health/live")
        assert statuses == [200, 200, 429]
        assert refused.json()["code"] == "too_many_requests" and int(refused.headers["retry-after"]) >= 1
        with client_of(server) as known:
            assert known.get("/health/live").status_code == 200


@pytest.mark.parametrize("kind", [psycopg.errors.IdleInTransactionSessionTimeout, psycopg.errors.TransactionTimeout])
def test_a_transaction_that_the_server_ended_is_tried_again_later(kind: type[psycopg.Error]) -> None:
    problem = problem_of(kind("terminating connection"))
    assert (problem.status, problem.code) == (503, "database_unavailable") and "Retry-After" in problem.headers
