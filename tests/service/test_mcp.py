"""Tools of an assistant: their answers are those of the API, they only read, and what they cannot do they say."""

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
"""Tools that are asked for something that the grid has not."""


@pytest.fixture(scope="module")
def decided(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, ApiServer]]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture(scope="module")
def transport(decided: tuple[Database, ApiServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """The API of this process, as ``broker mcp`` has it without a server."""
    with reading(decided[0], home=tmp_path_factory.mktemp("home"), folder=None) as found:
        yield found


@pytest.fixture(scope="module")
def assistant(transport: InProcess) -> Assistant:
    return assistant_of(transport)


def assistant_of(transport: InProcess, *topics: str, most_bytes: int = MOST_BYTES) -> Assistant:
    return Assistant(BrokerClient(ADDRESS, transport=transport), topics, most_bytes)


@pytest.fixture(scope="module")
def client(decided: tuple[Database, ApiServer]) -> Iterator[httpx.Client]:
    with client_of(decided[1]) as found:
        yield found


def test_every_tool_answers_on_transactions_that_only_read(assistant: Assistant, transport: InProcess) -> None:
    statements: list[str] = []

    def look(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if statement.startswith("ROLLBACK"):
            return  # whatever came before has failed, so that nothing else is answered
        shown = cursor.connection.execute("SHOW transaction_read_only").fetchone()
        statements.append(f"{shown[0]} {statement}")

    async def talk(asked: Client) -> None:
        for one in (await asked.list_tools()).tools:
            assert one.annotations is not None and one.annotations.read_only_hint
            given = {name: ARGUMENTS[name] for name in one.input_schema.get("required", ()) if name != "body"}
            given |= {"body": BODIES[one.name]} if one.name in BODIES else {}
            found = await asked.call_tool(one.name, given)
            assert bool(found.is_error) == (one.name in NOT_THERE), (one.name, found.content)

    # its own engine: servers of other tests in this process may write meanwhile
    engine = transport.database.engine
    sa.event.listen(engine, "before_cursor_execute", look)
    try:
        converse(assistant, talk)
    finally:
        sa.event.remove(engine, "before_cursor_execute", look)
    assert len(statements) > 100
    assert [one for one in statements if not one.startswith("on ")] == []


def test_a_write_by_the_same_connections_is_refused(transport: InProcess) -> None:
    with pytest.raises(OnlyReads), transport.database.begin() as connection:
        connection.execute(sa.text("CREATE TABLE broker.written (n int)"))


def test_an_answer_is_that_of_the_api_with_a_sentence(assistant: Assistant, client: httpx.Client) -> None:
    async def talk(asked: Client) -> Any:
        return await asked.call_tool("get_decision", {"jeditaskid": TASK + 2, "evaluate": False})

    found = converse(assistant, talk)
    expected = client.get(f"/api/v1/tasks/{TASK + 2}/decision", params={"evaluate": False}).json()
    assert found.structured_content["answer"] == expected
    sentence, document = (one.text for one in found.content)
    assert json.loads(document) == found.structured_content
    assert sentence == found.structured_content["sentence"]
    assert sentence.startswith("No queue") and "lowmemory" in sentence


def test_long_answers_are_had_in_parts(transport: InProcess, client: httpx.Client) -> None:
    async def talk(asked: Client) -> tuple[list[Any], int]:
        keys, cursor, times = [], None, 0
        while times == 0 or cursor is not None:
            given = {"limit": 100} | ({} if cursor is None else {"cursor": cursor})
            found = (await asked.call_tool("list_values", given)).structured_content
            assert size_of(found["answer"]) <= 4_100
            keys += [one["key"] for one in found["answer"]["items"]]
            cursor, times = found["cursor"], times + 1
        return keys, times

    keys, times = converse(assistant_of(transport, most_bytes=4_000), talk)
    expected, after = [], None
    while True:
        page = client.get("/api/v1/config", params={"limit": 500} | ({} if after is None else {"after": after})).json()
        expected += [one["key"] for one in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert keys == expected and times > 3


@pytest.mark.parametrize(
    ("name", "given", "said"),
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
def test_what_is_wrong_is_said_with_what_to_do(
    assistant: Assistant, name: str, given: dict[str, Any], said: tuple[str, ...]
) -> None:
    async def talk(asked: Client) -> Any:
        return await asked.call_tool(name, given)

    found = converse(assistant, talk)
    assert found.is_error and found.structured_content is None
    assert all(part in found.content[0].text for part in said), found.content[0].text


def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(assistant: Assistant) -> None:
    async def talk(asked: Client) -> None:
        for name in ("list_task", "kill", "set_value", "act_on_task"):
            with pytest.raises(MCPError, match=f"there is no tool {name}; "):
                await asked.call_tool(name, {})

    converse(assistant, talk)


@pytest.mark.slow
def test_the_policies_of_a_broker_elsewhere_count(decided: tuple[Database, ApiServer]) -> None:
    async def talk(asked: Client) -> tuple[Any, ...]:
        names = ("list_queues", "list_channels", "get_shadow")
        return tuple([await asked.call_tool(name, {}) for name in names])

    with BrokerClient(decided[1].url) as stranger:
        queues, *refused = converse(Assistant(stranger, (), MOST_BYTES), talk)
    assert not queues.is_error
    for one in refused:
        assert one.is_error and "token" in one.content[0].text, one.content
    with BrokerClient(decided[1].url, TOKEN) as known:
        assert not any(one.is_error for one in converse(Assistant(known, (), MOST_BYTES), talk))


def test_a_broker_that_is_away_is_named_and_asked_again() -> None:
    async def talk(asked: Client) -> None:
        with pytest.raises(MCPError, match=r"does not answer.*network"):
            await asked.list_tools()
        found = await asked.call_tool("list_queues", {})
        assert found.is_error and "does not answer" in found.content[0].text

    with BrokerClient("http://127.0.0.1:1") as nobody:
        converse(Assistant(nobody, (), MOST_BYTES), talk)


def test_topics_choose_what_is_listed(transport: InProcess) -> None:
    async def talk(asked: Client) -> list[str]:
        return [one.name for one in (await asked.list_tools()).tools]

    assert converse(assistant_of(transport, "search"), talk) == ["search"]
