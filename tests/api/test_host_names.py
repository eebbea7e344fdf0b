"""The name by which the service is asked: a page of another site whose name leads here gets nothing."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from broker.api import process
from broker.api.configuration import ApiConfiguration
from broker.api.envelope import Hosts
from broker.api.server import Listening
from broker.store.connection.database import Database
from tests.api.serving import BEARER

LISTED = ("localhost", "127.0.0.1", "::1", "broker.example.org", "*.grid.example")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        (b"localhost", True),
        (b"LOCALHOST:8642", True),
        (b"localhost.:8642", True),
        (b"127.0.0.1:8642", True),
        (b"[::1]:8642", True),
        (b"broker.example.org", True),
        (b"one.grid.example:443", True),
        (b"grid.example", False),
        (b"evilgrid.example", False),
        (b"evil.example", False),
        (b"broker.example.org.evil.example", False),
        (b"evil.example#localhost", False),
        (b"", False),
        (b"[::1", False),
        (b"\xff", False),
    ],
)
def test_only_listed_names_are_answered(host: bytes, allowed: bool) -> None:
    hosts = Hosts(LISTED)
    assert hosts.is_allowed("/tasks", [(b"host", host)]) is allowed
    assert hosts.is_allowed("/health/ready", [(b"host", host)])
    assert Hosts(["*"]).is_allowed("/tasks", [(b"host", host)])


def test_one_name_is_asked_for() -> None:
    hosts = Hosts(LISTED)
    assert not hosts.is_allowed("/tasks", []) and not hosts.is_allowed("/tasks", [(b"host", b"localhost")] * 2)


@pytest.mark.parametrize("name", ["https://broker.example.org", "broker.example.org:443", "a b", ""])
def test_a_name_in_the_configuration_is_a_name(name: str) -> None:
    assert ApiConfiguration().hosts == ("localhost", "127.0.0.1", "::1")
    with pytest.raises(ValidationError):
        ApiConfiguration(hosts=(name,))


def test_another_name_gets_no_page_and_no_answer(client: httpx.Client) -> None:
    for path in ("/api/v1/tasks", "/api/v1/whoami", "/login", "/metrics"):
        refused = client.get(path, headers={"Host": "evil.example:80", **BEARER})
        assert (refused.status_code, refused.json()["code"]) == (421, "unknown_host"), path
        assert "hosts" in refused.json()["remedy"] and "evil" not in refused.text
    assert client.get("/health/live", headers={"Host": "10.0.0.7:8642"}).status_code == 200


def test_the_name_that_it_listens_on_is_its_own(shared: Database, tmp_path: Path) -> None:
    listening = Listening("127.0.0.2", 0)
    with process.serving(shared, listening, home=tmp_path / "home", folder=None) as running:
        assert httpx.get(f"{running.server.url}/api/v1/openapi.json", timeout=60).status_code == 200
