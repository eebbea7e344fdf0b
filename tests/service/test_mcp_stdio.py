"""``broker mcp`` as an assistant starts it: a child process whose stdin and stdout carry only the protocol."""

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
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as database_and_server:
        yield database_and_server


class Child:
    """The command as a child process that reads and writes lines of JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self._number = process, 0

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        document: dict[str, Any] = json.loads(self.process.stdout.readline())
        return document

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request."""
        self._number += 1
        self.write(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}))
        answer = self.read()
        assert answer["id"] == self._number
        return answer

    def begin(self, version: str) -> dict[str, Any]:
        """The handshake."""
        client_info = {"name": "a test", "version": "1"}
        answer = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=client_info)
        self.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return answer["result"]  # type: ignore[no-any-return]


@contextlib.contextmanager
def child(database: Database, home: Path) -> Iterator[Child]:
    """``broker mcp`` directly on the database."""
    environment = {**os.environ, "BROKER_DATABASE_URL": database.url, "BROKER_HOME": str(home)}
    with subprocess.Popen(
        [sys.executable, *COMMAND], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Child(process)
        finally:
            process.kill()


def test_a_conversation_in_lines_of_json(decided: tuple[Database, ApiServer], tmp_path: Path) -> None:
    with child(decided[0], tmp_path) as broker:
        handshake = broker.begin("2024-11-05")
        assert handshake["protocolVersion"] == "2024-11-05" and handshake["serverInfo"]["name"] == "gridbroker"
        assert "only read" in handshake["instructions"] and "tools" in handshake["capabilities"]
        assert broker.ask("ping")["result"] == {}
        tools = broker.ask("tools/list")["result"]["tools"]
        assert {"get_decision", "get_queue", "search"} <= {tool["name"] for tool in tools}
        result = broker.ask("tools/call", name="get_decision", arguments={"jeditaskid": TASK})["result"]
        assert result["structuredContent"]["answer"]["task"]["jeditaskid"] == TASK
        assert result["content"][0]["text"] == result["structuredContent"]["sentence"]
        error = broker.ask("tools/call", name="no_such_tool", arguments={})["error"]
        assert error["code"] == -32602 and "there is no tool no_such_tool" in error["message"]
        assert broker.ask("no/such/method")["error"]["code"] == -32601
        assert broker.process.stdin is not None and broker.process.stdout is not None
        broker.process.stdin.close()
        assert broker.process.wait(WITHIN_S) == 0
        assert broker.process.stdout.read() == ""


def test_invalid_messages_are_survived_and_a_signal_ends_the_process(
    decided: tuple[Database, ApiServer], tmp_path: Path
) -> None:
    with child(decided[0], tmp_path) as broker:
        assert broker.begin("1999-01-01")["protocolVersion"] > "2025-01-01"
        for text in ("", "not JSON", "[]", '{"jsonrpc": "1.0"}', "\x00" * 10, "[" * 5_000):
            broker.write(text)
        number, answer = "mine", {}
        broker.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}))
        while answer.get("id") != number:
            answer = broker.read()
        assert answer["result"] == {}
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(WITHIN_S) == 128 + signal.SIGTERM


def test_a_remote_broker_is_asked_with_the_token_of_the_user(
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
            names = {tool.name for tool in (await broker.list_tools()).tools}
            assert {"whoami", "list_queues"} <= names and "list_tasks" not in names
            result = await broker.call_tool("whoami", {})
            assert result.structured_content["answer"]["issuer"] == "local"

    anyio.run(talk)
    assert not (tmp_path / "home").exists()
