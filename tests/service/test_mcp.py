"""Tools of an assistant: they answer like the API, only read, and explain their errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from broker.api.in_process import ADDRESS, InProcess, reading
from broker.api.server import ApiServer
from broker.service.commands.mcp import MOST_BYTES
from broker.service.commands.mcp_server import Assistant
from broker.service.model.bounded_answer import size_of
from broker.store.connection.database import Database
from broker.store.connection.errors import OnlyReads
from gridbroker_client import BrokerClient
from tests.api.decided import decided_server
from tests.api.serving import TOKEN, client_of
from tests.brokerages.small_grid import TASK
from tests.conftest import TestServer
from tests.service.assistant import converse

ARGUMENTS = {
    "brokerage": "production_job", "ce": "C", "first": 1, "jeditaskid": TASK, "key": "NQUEUED_SAT_CAP",
    "name": "production_job", "nucleus": "ALPHA", "pandaid": 1, "pool": "P", "q": "ALPHA", "queue": "ALPHA_MCORE",
    "run": "1", "second": 1, "simulation": "1", "site": "ALPHA", "task": TASK, "user": "prodsys",
}  # fmt: skip
BODIES: dict[str, Any] = {
    "get_decisions": {"jeditaskids": [TASK]},
    "decide_now": {"seed": 1},
    "match_of_specs": {"job": {}},
    "match_of_node": {"site": "ALPHA", "ce": "C", "queue": "ALPHA_MCORE", "platforms": ["x86_64"]},
    "test_retry_rule": {"name": "broker:1"},
}
NOT_THERE = {"get_pool", "get_queue_forecasts", "get_run", "get_simulation", "match_of_specs", "test_retry_rule"}
"""Tools whose arguments name objects that are missing on the grid."""


@pytest.fixture(scope="module")
def decided(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, ApiServer]]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as database_and_server:
        yield database_and_server


@pytest.fixture(scope="module")
def transport(decided: tuple[Database, ApiServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """The API in this process, as used by ``broker mcp`` without a server."""
    with reading(decided[0], home=tmp_path_factory.mktemp("home"), folder=None) as in_process:
        yield in_process


@pytest.fixture(scope="module")
def assistant(transport: InProcess) -> Assistant:
    return assistant_of(transport)


def assistant_of(transport: InProcess, *topics: str, most_bytes: int = MOST_BYTES) -> Assistant:
    return Assistant(BrokerClient(ADDRESS, transport=transport), topics, most_bytes)


@pytest.fixture(scope="module")
def client(decided: tuple[Database, ApiServer]) -> Iterator[httpx.Client]:
    with client_of(decided[1]) as http_client:
        yield http_client


def test_every_tool_answers_in_read_only_transactions(assistant: Assistant, transport: InProcess) -> None:
    statements: list[str] = []

    def record(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if statement.startswith("ROLLBACK"):
            return  # the transaction has failed, and no further statement would be answered
        setting = cursor.connection.execute("SHOW transaction_read_only").fetchone()
        statements.append(f"{setting[0]} {statement}")

    async def talk(session: Client) -> None:
        for tool in (await session.list_tools()).tools:
            assert tool.annotations is not None and tool.annotations.read_only_hint
            arguments = {name: ARGUMENTS[name] for name in tool.input_schema.get("required", ()) if name != "body"}
            arguments |= {"body": BODIES[tool.name]} if tool.name in BODIES else {}
            result = await session.call_tool(tool.name, arguments)
            assert bool(result.is_error) == (tool.name in NOT_THERE), (tool.name, result.content)

    # only this engine: servers of other tests in this process may write meanwhile
    engine = transport.database.engine
    sa.event.listen(engine, "before_cursor_execute", record)
    try:
        converse(assistant, talk)
    finally:
        sa.event.remove(engine, "before_cursor_execute", record)
    assert len(statements) > 100
    assert [statement for statement in statements if not statement.startswith("on ")] == []


def test_a_write_over_these_connections_is_refused(transport: InProcess) -> None:
    with pytest.raises(OnlyReads), transport.database.begin() as connection:
        connection.execute(sa.text("CREATE TABLE broker.written (n int)"))


def test_an_answer_agrees_with_the_api_and_has_a_sentence(assistant: Assistant, client: httpx.Client) -> None:
    async def talk(session: Client) -> Any:
        return await session.call_tool("get_decision", {"jeditaskid": TASK + 2, "evaluate": False})

    result = converse(assistant, talk)
    expected = client.get(f"/api/v1/tasks/{TASK + 2}/decision", params={"evaluate": False}).json()
    assert result.structured_content["answer"] == expected
    sentence, document = (part.text for part in result.content)
    assert json.loads(document) == result.structured_content
    assert sentence == result.structured_content["sentence"]
    assert sentence.startswith("No queue") and "lowmemory" in sentence


def test_long_answers_are_split_into_parts(transport: InProcess, client: httpx.Client) -> None:
    async def talk(session: Client) -> tuple[list[Any], int]:
        keys, cursor, times = [], None, 0
        while times == 0 or cursor is not None:
            arguments = {"limit": 100} | ({} if cursor is None else {"cursor": cursor})
            content = (await session.call_tool("list_values", arguments)).structured_content
            assert size_of(content["answer"]) <= 4_100
            keys += [item["key"] for item in content["answer"]["items"]]
            cursor, times = content["cursor"], times + 1
        return keys, times

    keys, times = converse(assistant_of(transport, most_bytes=4_000), talk)
    expected, after = [], None
    while True:
        page = client.get("/api/v1/config", params={"limit": 500} | ({} if after is None else {"after": after})).json()
        expected += [item["key"] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert keys == expected and times > 3


@pytest.mark.parametrize(
    ("name", "arguments", "messages"),
    [
        ("get_decision", {"jeditaskid": "many"}, ("jeditaskid: 'many' is not of type 'integer'", "correct it")),
        ("get_decision", {"task": 1}, ("task: there is no such argument; did you mean jeditaskid?",)),
        ("get_decision", {}, ("'jeditaskid' is a required property",)),
        ("list_values", {"limit": 0}, ("limit: 0 is less than the minimum of 1",)),
        ("get_decision", {"jeditaskid": 1}, ("there is no task 1", "broker tasks")),
        ("list_tasks", {"cursor": "none"}, ("no cursor of an answer: 'none'", "ask without a cursor")),
        ("list_tasks", {"fields": "nothing"}, ("there is no field nothing",)),
        ("get_queue", {"queue": ".."}, ("queue", "give a number or name")),
    ],
)
def test_errors_are_explained_with_a_remedy(
    assistant: Assistant, name: str, arguments: dict[str, Any], messages: tuple[str, ...]
) -> None:
    async def talk(session: Client) -> Any:
        return await session.call_tool(name, arguments)

    result = converse(assistant, talk)
    assert result.is_error and result.structured_content is None
    assert all(part in result.content[0].text for part in messages), result.content[0].text


def test_an_unknown_tool_is_a_protocol_error(assistant: Assistant) -> None:
    async def talk(session: Client) -> None:
        for name in ("list_task", "kill", "set_value", "act_on_task"):
            with pytest.raises(MCPError, match=f"there is no tool {name}; "):
                await session.call_tool(name, {})

    converse(assistant, talk)


@pytest.mark.slow
def test_the_policies_of_a_remote_broker_apply(decided: tuple[Database, ApiServer]) -> None:
    async def talk(session: Client) -> tuple[Any, ...]:
        names = ("list_queues", "list_channels", "get_shadow")
        return tuple([await session.call_tool(name, {}) for name in names])

    with BrokerClient(decided[1].url) as stranger:
        queues, *refusals = converse(Assistant(stranger, (), MOST_BYTES), talk)
    assert not queues.is_error
    for result in refusals:
        assert result.is_error and "token" in result.content[0].text, result.content
    with BrokerClient(decided[1].url, TOKEN) as authenticated:
        assert not any(result.is_error for result in converse(Assistant(authenticated, (), MOST_BYTES), talk))


def test_an_unreachable_broker_is_named_and_asked_again() -> None:
    async def talk(session: Client) -> None:
        with pytest.raises(MCPError, match=r"does not answer.*network"):
            await session.list_tools()
        result = await session.call_tool("list_queues", {})
        assert result.is_error and "does not answer" in result.content[0].text

    with BrokerClient("http://127.0.0.1:1") as unreachable:
        converse(Assistant(unreachable, (), MOST_BYTES), talk)


def test_topics_choose_the_listed_tools(transport: InProcess) -> None:
    async def talk(session: Client) -> list[str]:
        return [tool.name for tool in (await session.list_tools()).tools]

    assert converse(assistant_of(transport, "search"), talk) == ["search"]
