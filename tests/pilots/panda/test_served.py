"""The pilot interface on the port of the API, with the local token."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import httpx
from starlette.requests import HTTPConnection

from broker.access import policies
from broker.access.policies import Grant, Role
from broker.api.process import identify_pilot, serving
from broker.api.server import ListenOptions
from broker.api.state import ApiState, RateLimiter
from broker.pilots.routes.panda.access import TooManyRequests
from broker.store.connection.database import Database
from tests.api.serving import shipped
from tests.pilots.panda.pilot_grid import AGENT

NOW = datetime(2026, 8, 1, tzinfo=UTC)


def test_pilots_and_api_clients_share_one_port(shared_database: Database, tmp_path: Path) -> None:
    with (
        serving(shared_database, ListenOptions(port=0), home=tmp_path / "home", folder=None) as running,
        httpx.Client(base_url=running.server.url, headers=AGENT, timeout=30) as client,
    ):
        request = {"siteName": "NOWHERE"}
        refusal = client.post("/server/panda/getJob", data=request)
        assert (refusal.status_code, refusal.json()["StatusCode"]) == (200, 70)
        refusal_of_wrong_token = client.post(
            "/server/panda/getJob", data=request, headers={"authorization": "Bearer wrong"}
        )
        assert refusal_of_wrong_token.json()["StatusCode"] == 70
        valid_token = {"authorization": f"Bearer {running.token}"}
        assert client.post("/server/panda/getJob", data=request, headers=valid_token).json()["StatusCode"] == 20
        assert client.post("/api/v1/pilot/update_job", json={}).status_code == 403
        assert client.get("/health/live").status_code == 200
        assert client.get("/cache/schedconfig/NOWHERE.json").status_code == 404


def test_pilots_and_their_addresses_have_the_rate_limit_of_pilots(shared_database: Database, tmp_path: Path) -> None:
    rates = shipped().rate.model_dump() | {"anonymous": {"per_s": 0.001, "burst": 1}}
    configuration = shipped(rate=rates | {"pilot": {"per_s": 0.001, "burst": 2}})
    home, pilot = tmp_path / "home", policies.Identity("p", "local", {Role.PILOT: Grant(Role.PILOT)})

    async def identify_header(connection: HTTPConnection) -> policies.Identity | None:
        return pilot if "authorization" in connection.headers else None

    limiter = RateLimiter(configuration.rate, lambda: 0.0)
    state = ApiState(
        shared_database, configuration, None, home, lambda: NOW, lambda: 0.0, limiter, identify=[identify_header]
    )
    identify = identify_pilot(state)

    def outcomes_of(headers: list[tuple[bytes, bytes]]) -> list[str]:
        connection = HTTPConnection({"type": "http", "headers": headers, "client": ("192.0.2.1", 1)})
        outcomes = []
        for _ in range(3):
            try:
                identity = asyncio.run(identify(connection))  # type: ignore[arg-type]
                outcomes.append("nobody" if identity is None else identity.name)
            except TooManyRequests as error:
                outcomes.append(f"wait {error.wait_s:g}")
        return outcomes

    assert outcomes_of([(b"authorization", b"x")]) == ["p", "p", "wait 1000"]
    assert outcomes_of([]) == ["nobody", "nobody", "wait 1000"]
    assert limiter.wait_s(None, "192.0.2.1") == 0, "what is no pilot's has a rate of its own"
