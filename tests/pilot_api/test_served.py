"""The interface for pilots on the port of the API, with the token of the machine."""

from __future__ import annotations

from pathlib import Path

import httpx

from broker.api.listening import Listening
from broker.api.process import serving
from broker.store.connection.database import Database
from tests.pilot_api.pilot_grid import AGENT


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
