"""``broker mcp`` as an assistant starts it: a child process, whose stdin and stdout carry nothing but the protocol."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from tests.api.decided import decided_server
from tests.api.serving import TOKEN
from tests.brokerages.small_grid import TASK
from tests.conftest import TestServer

pytestmark = pytest.mark.slow
COMMAND = ("-m", "broker.cli.entry", "mcp")
WITHIN_S = 120


@pytest.fixture(scope="module")
def decided(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, ApiServer]]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as found:
        yield found


class Child:
    """The command; lines of JSON go in and come out."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self._number = process, 0

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """What is answered to a request."""
        self._number += 1
        self.write(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}))
        found = self.read()
        assert found["id"] == self._number
        return found

    def begin(self, version: str) -> dict[str, Any]:
        """The handshake."""
        about = {"name": "a test", "version": "1"}
        found = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=about)
        self.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return found["result"]  # type: ignore[no-any-return]


@contextlib.contextmanager
def child(database: Database, home: Path) -> Iterator[Child]:
    """``broker mcp`` on the database itself."""
    surroundings = {**os.environ, "BROKER_DATABASE_URL": database.url, "BROKER_HOME": str(home)}
    with subprocess.Popen(
        [sys.executable, *COMMAND], env=surroundings, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def test_a_conversation_in_lines_of_json(decided: tuple[Database, ApiServer], tmp_path: Path) -> None:
    with child(decided[0], tmp_path) as broker:
        begun = broker.begin("2024-11-05")
        assert begun["protocolVersion"] == "2024-11-05" and begun["serverInfo"]["name"] == "gridbroker"
        assert "only read" in begun["instructions"] and "tools" in begun["capabilities"]
        assert broker.ask("ping")["result"] == {}
        listed = broker.ask("tools/list")["result"]["tools"]
        assert {"get_decision", "get_queue", "search"} <= {one["name"] for one in listed}
        found = broker.ask("tools/call", name="get_decision", arguments={"jeditaskid": TASK})["result"]
        assert found["structuredContent"]["answer"]["task"]["jeditaskid"] == TASK
        assert found["content"][0]["text"] == found["structuredContent"]["sentence"]
        wrong = broker.ask("tools/call", name="no_such_tool", arguments={})["error"]
        assert wrong["code"] == -32602 and "there is no tool no_such_tool" in wrong["message"]
        assert broker.ask("no/such/method")["error"]["code"] == -32601
        assert broker.process.stdin is not None and broker.process.stdout is not None
        broker.process.stdin.close()
        assert broker.process.wait(WITHIN_S) == 0
        assert broker.process.stdout.read() == ""


def test_what_is_no_message_ends_nothing_and_a_signal_ends_it(
    decided: tuple[Database, ApiServer], tmp_path: Path
) -> None:
    with child(decided[0], tmp_path) as broker:
        assert broker.begin("1999-01-01")["protocolVersion"] > "2025-01-01"
        for text in ("", "not JSON", "[]", '{"jsonrpc": "1.0"}', "\x00" * 10, "[" * 5_000):
            broker.write(text)
        number, found = "mine", {}
        broker.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}))
        while found.get("id") != number:
            found = broker.read()
        assert found["result"] == {}
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(WITHIN_S) == 128 + signal.SIGTERM


def test_a_broker_elsewhere_is_asked_with_the_token_of_its_user(
    decided: tuple[Database, ApiServer], tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN, encoding="ascii")
    command = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, "--server", decided[1].url, "--topic", "who", "--topic", "grid"],
        env={"BEARER_TOKEN_FILE": str(file), "BROKER_HOME": str(tmp_path / "home")}, cwd=Path.cwd(),
    )  # fmt: skip

    async def talk() -> None:
        async with Client(command) as broker:
            names = {one.name for one in (await broker.list_tools()).tools}
            assert {"whoami", "list_queues"} <= names and "list_tasks" not in names
            found = await broker.call_tool("whoami", {})
            assert found.structured_content["answer"]["issuer"] == "local"

    anyio.run(talk)
    assert not (tmp_path / "home").exists()
