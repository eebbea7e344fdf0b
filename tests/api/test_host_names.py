"""Host names of requests: a foreign name that resolves to this service gets no answer (DNS rebinding)."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from broker.api import process
from broker.api.configuration import ApiConfiguration
from broker.api.envelope import Hosts
from broker.api.server import ListenOptions
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


def test_exactly_one_host_header_is_required() -> None:
    hosts = Hosts(LISTED)
    assert not hosts.is_allowed("/tasks", []) and not hosts.is_allowed("/tasks", [(b"host", b"localhost")] * 2)


@pytest.mark.parametrize("name", ["https://broker.example.org", "broker.example.org:443", "a b", ""])
def test_an_invalid_host_name_in_the_configuration_is_refused(name: str) -> None:
    assert ApiConfiguration().hosts == ("localhost", "127.0.0.1", "::1")
    with pytest.raises(ValidationError):
        ApiConfiguration(hosts=(name,))


def test_another_name_gets_no_page_and_no_answer(client: httpx.Client) -> None:
    for path in ("/api/v1/tasks", "/api/v1/whoami", "/login", "/metrics"):
        refusal = client.get(path, headers={"Host": "evil.example:80", **BEARER})
        assert (refusal.status_code, refusal.json()["code"]) == (421, "unknown_host"), path
        assert "hosts" in refusal.json()["remedy"] and "evil" not in refusal.text
    assert client.get("/health/live", headers={"Host": "10.0.0.7:8642"}).status_code == 200


def test_the_listening_address_is_an_allowed_name(shared_database: Database, tmp_path: Path) -> None:
    listening = ListenOptions("127.0.0.2", 0)
    with process.serving(shared_database, listening, home=tmp_path / "home", folder=None) as running:
        assert httpx.get(f"{running.server.url}/api/v1/openapi.json", timeout=60).status_code == 200
