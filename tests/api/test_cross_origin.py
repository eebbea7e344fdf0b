"""Pages of other origins: none may ask unless it is listed, and then with a token only."""

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
def listed(shared: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    with serving(shared, tmp_path, shipped(cors={"origins": [GRAFANA]})) as server, client_of(server) as found:
        yield found


@pytest.fixture
def plain(shared: Database, tmp_path: Path) -> Iterator[httpx.Client]:
    with serving(shared, tmp_path) as server, client_of(server) as found:
        yield found


def test_as_shipped_no_page_elsewhere_may_ask(plain: httpx.Client) -> None:
    assert "access-control-allow-origin" not in plain.get("/api/v1/whoami", headers={"Origin": GRAFANA}).headers
    assert plain.options("/api/v1/whoami", headers=PREFLIGHT).status_code == 405


def test_a_listed_origin_may_ask_with_a_token(listed: httpx.Client) -> None:
    before = listed.options("/api/v1/whoami", headers=PREFLIGHT)
    assert before.status_code == 200
    assert before.headers["access-control-allow-origin"] == GRAFANA
    assert "Authorization" in before.headers["access-control-allow-headers"]
    answer = listed.get("/api/v1/whoami", headers={"Origin": GRAFANA})
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == GRAFANA
    assert "access-control-allow-credentials" not in answer.headers
    assert "origin" in answer.headers["vary"].lower()


def test_a_route_that_pilots_ask_all_the_time_is_no_exception(listed: httpx.Client) -> None:
    answer = listed.post("/api/v1/jobs:match", json={}, headers={"Origin": GRAFANA})
    assert answer.status_code == 422 and answer.headers["access-control-allow-origin"] == GRAFANA


@pytest.mark.parametrize("origin", ["https://evil.example", "https://grafana.example.org.evil.example", "null"])
def test_no_other_origin_may(listed: httpx.Client, origin: str) -> None:
    assert listed.options("/api/v1/whoami", headers={**PREFLIGHT, "Origin": origin}).status_code == 400
    assert "access-control-allow-origin" not in listed.get("/api/v1/whoami", headers={"Origin": origin}).headers


def test_only_the_api_may_be_asked(listed: httpx.Client) -> None:
    for path in ("/metrics", "/health/live", "/login"):
        assert "access-control-allow-origin" not in listed.get(path, headers={"Origin": GRAFANA}).headers


@pytest.mark.parametrize("origin", ["*", "grafana.example.org", "https://a.org/path", "javascript:x"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValidationError):
        ApiConfiguration.model_validate({"cors": {"origins": [origin]}})
