"""Pages of other origins may use the API only if they are listed, and only with a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from broker.api.configuration import ApiConfiguration
from broker.store.connection.database import Database
from tests.api.serving import client_of, serving, shipped

GRAFANA = "https://grafana.example.org"
PREFLIGHT = {
    "Origin": GRAFANA,
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "Authorization",
}


@pytest.fixture
def listed_client(shared_database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    with (
        serving(shared_database, tmp_path, shipped(cors={"origins": [GRAFANA]})) as server,
        client_of(server) as client,
    ):
        yield client


@pytest.fixture
def plain_client(shared_database: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    with serving(shared_database, tmp_path) as server, client_of(server) as client:
        yield client


def test_the_shipped_configuration_allows_no_other_origin(plain_client: httpx.Client) -> None:
    assert "access-control-allow-origin" not in plain_client.get("/api/v1/whoami", headers={"Origin": GRAFANA}).headers
    assert plain_client.options("/api/v1/whoami", headers=PREFLIGHT).status_code == 405


def test_a_listed_origin_may_ask_with_a_token(listed_client: httpx.Client) -> None:
    preflight = listed_client.options("/api/v1/whoami", headers=PREFLIGHT)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == GRAFANA
    assert "Authorization" in preflight.headers["access-control-allow-headers"]
    answer = listed_client.get("/api/v1/whoami", headers={"Origin": GRAFANA})
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == GRAFANA
    assert "access-control-allow-credentials" not in answer.headers
    assert "origin" in answer.headers["vary"].lower()


def test_the_match_route_allows_listed_origins_too(listed_client: httpx.Client) -> None:
    answer = listed_client.post("/api/v1/jobs:match", json={}, headers={"Origin": GRAFANA})
    assert answer.status_code == 422 and answer.headers["access-control-allow-origin"] == GRAFANA


@pytest.mark.parametrize("origin", ["https://evil.example", "https://grafana.example.org.evil.example", "null"])
def test_unlisted_origins_are_refused(listed_client: httpx.Client, origin: str) -> None:
    assert listed_client.options("/api/v1/whoami", headers={**PREFLIGHT, "Origin": origin}).status_code == 400
    assert "access-control-allow-origin" not in listed_client.get("/api/v1/whoami", headers={"Origin": origin}).headers


def test_other_origins_may_only_use_the_api(listed_client: httpx.Client) -> None:
    for path in ("/metrics", "/health/live", "/login"):
        assert "access-control-allow-origin" not in listed_client.get(path, headers={"Origin": GRAFANA}).headers


@pytest.mark.parametrize("origin", ["*", "grafana.example.org", "https://a.org/path", "javascript:x"])
def test_an_invalid_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValidationError):
        ApiConfiguration.model_validate({"cors": {"origins": [origin]}})
