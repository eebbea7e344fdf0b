"""The interface for pilots on the port of the API, with the token of the machine."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import httpx
from starlette.requests import HTTPConnection

from broker.access import policies
from broker.access.policies import Grant, Role
from broker.api.process import identify_pilot, serving
from broker.api.server import Listening
from broker.api.state import ApiState, RateLimiter
from broker.pilots.routes.panda.access import TooManyRequests
from broker.store.connection.database import Database
from tests.api.serving import shipped
from tests.pilots.panda.pilot_grid import AGENT

NOW = datetime(2026, 8, 1, tzinfo=UTC)


def test_pilots_and_others_on_one_port(shared: Database, tmp_path: Path) -> None:
    with (
        serving(shared, Listening(port=0), home=tmp_path / "home", folder=None) as running,
        httpx.Client(base_url=running.server.url, headers=AGENT, timeout=30) as client,
    ):
        asked = {"siteName": "NOWHERE"}
        refused = client.post("/server/panda/getJob", data=asked)
        assert (refused.status_code, refused.json()["StatusCode"]) == (200, 70)
        wrong = client.post("/server/panda/getJob", data=asked, headers={"authorization": "Bearer wrong"})
        assert wrong.json()["StatusCode"] == 70
        good = {"authorization": f"Bearer {running.token}"}
        assert client.post("/server/panda/getJob", data=asked, headers=good).json()["StatusCode"] == 20
        assert client.post("/api/v1/pilot/update_job", json={}).status_code == 403
        assert client.get("/health/live").status_code == 200
        assert client.get("/cache/schedconfig/NOWHERE.json").status_code == 404


def test_pilots_and_their_addresses_have_the_rate_of_pilots(shared: Database, tmp_path: Path) -> None:
    rates = shipped().rate.model_dump() | {"anonymous": {"per_s": 0.001, "burst": 1}}
    configuration = shipped(rate=rates | {"pilot": {"per_s": 0.001, "burst": 2}})
    home, pilot = tmp_path / "home", policies.Identity("p", "local", {Role.PILOT: Grant(Role.PILOT)})

    async def known(connection: HTTPConnection) -> policies.Identity | None:
        return pilot if "authorization" in connection.headers else None

    limiter = RateLimiter(configuration.rate, lambda: 0.0)
    state = ApiState(shared, configuration, None, home, lambda: NOW, lambda: 0.0, limiter, identify=[known])
    identify = identify_pilot(state)

    def asking(headers: list[tuple[bytes, bytes]]) -> list[str]:
        connection = HTTPConnection({"type": "http", "headers": headers, "client": ("192.0.2.1", 1)})
        found = []
        for _ in range(3):
            try:
                who = asyncio.run(identify(connection))  # type: ignore[arg-type]
                found.append("nobody" if who is None else who.name)
            except TooManyRequests as refused:
                found.append(f"wait {refused.wait_s:g}")
        return found

    assert asking([(b"authorization", b"x")]) == ["p", "p", "wait 1000"]
    assert asking([]) == ["nobody", "nobody", "wait 1000"]
    assert limiter.wait_s(None, "192.0.2.1") == 0, "what is no pilot's has a rate of its own"
