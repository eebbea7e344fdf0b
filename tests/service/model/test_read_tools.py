"""The tools are exactly the reading operations of the API description."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.access import policies
from broker.access.policies import Policy
from broker.api.app import create_app
from broker.api.guarded_route import GuardedRoute
from broker.service.answers.assistant_tools import READING, tools_of
from broker.service.model.read_tools import (
    DIALECTS,
    V1,
    Tool,
    UnknownTopic,
    WrongName,
    about_topics,
    question_of,
    read_tools,
)
from broker.store.connection.database import Database
from tests.api.serving import shipped, utc_now
from tests.docs.source_tree import ROOT


@pytest.fixture(scope="module")
def routes() -> dict[tuple[str, str], GuardedRoute]:
    """Every route by method and path."""
    with Database("postgresql://localhost:1/none") as database:
        app = create_app(database, shipped(), home=Path(), folder=None, now=utc_now, steady_s=lambda: 0.0)
    guarded_routes = [route for route in app.routes if isinstance(route, GuardedRoute)]
    return {(method, route.path_format): route for route in guarded_routes for method in route.methods}


@pytest.fixture(scope="module")
def tools() -> tuple[Tool, ...]:
    """The tools of the stored description, which another test compares with the application."""
    return tools_of(json.loads((ROOT / "docs/reference/openapi.json").read_text(encoding="utf-8")))


def test_no_tool_reaches_a_route_that_writes(
    tools: tuple[Tool, ...], routes: dict[tuple[str, str], GuardedRoute]
) -> None:
    assert len(tools) > 50
    policies_of_tools = {tool.name: routes[tool.method, V1 + tool.path].policy for tool in tools}
    assert {name for name, policy in policies_of_tools.items() if policy.writes} == set()


def test_every_reading_route_is_a_tool(tools: tuple[Tool, ...], routes: dict[tuple[str, str], GuardedRoute]) -> None:
    covered = {(tool.method, V1 + tool.path) for tool in tools}
    uncovered = {
        path
        for (method, path), route in routes.items()
        if not route.policy.writes and path.startswith(V1) and not DIALECTS.intersection(route.tags)
        and (method, path) not in covered
    }  # fmt: skip
    # the description itself, an endless stream, and an operation that is rolled back
    assert uncovered == {"/api/v1/openapi.json", "/api/v1/events", "/api/v1/feasibility"}


def test_names_are_unique_and_schemas_self_contained(tools: tuple[Tool, ...]) -> None:
    assert len({tool.name for tool in tools}) == len(tools)
    for tool in tools:
        assert "#/components" not in str(tool.schema), tool.name
        assert tool.schema["additionalProperties"] is False and "cursor" in tool.schema["properties"]
        assert "after" not in tool.schema["properties"]


def test_a_writing_or_unknown_policy_gives_no_tool() -> None:
    assert (
        not {policy.name for policy in vars(policies).values() if isinstance(policy, Policy) and policy.writes}
        & READING
    )
    answer = {"200": {"content": {"application/json": {"schema": {}}}}}
    operation = {"operationId": "one", "tags": ["a"], "responses": answer}
    paths = {
        "/api/v1/good": {"get": {**operation, "x-policy": "read"}},
        "/api/v1/writes": {"post": {**operation, "x-policy": "operate"}},
        "/api/v1/new": {"get": {**operation, "x-policy": "not known here"}},
        "/api/v1/unmarked": {"get": operation},
        "/elsewhere": {"get": {**operation, "x-policy": "read"}},
    }
    assert [tool.path for tool in read_tools({"paths": paths}, READING)] == ["good"]


def tool_named(tools: tuple[Tool, ...], name: str) -> Tool:
    return next(tool for tool in tools if tool.name == name)


def test_path_values_are_escaped(tools: tuple[Tool, ...]) -> None:
    why_not, decide = tool_named(tools, "get_why_not"), tool_named(tools, "decide_now")
    question = question_of(why_not, {"jeditaskid": 7, "queue": "BNL/MCORE #1?"})
    assert question.path == "tasks/7/why-not/BNL/MCORE%20%231%3F"
    assert question_of(decide, {"name": "a/b:c", "body": {}}).path == "brokerage/a%2Fb%3Ac:decide"
    assert question_of(tool_named(tools, "get_user"), {"user": "ann/b"}).path == "users/ann~2fb"
    for name in ("", "..", "../pins", "a/./b"):
        with pytest.raises(WrongName):
            question_of(why_not, {"jeditaskid": 7, "queue": name})
        with pytest.raises(WrongName):
            question_of(decide, {"name": name, "body": {}})


def test_the_next_page_uses_the_cursor_of_the_api(tools: tuple[Tool, ...]) -> None:
    question = question_of(tool_named(tools, "list_jobs"), {"limit": 5, "queue": None, "cursor": "x"}, after=12)
    assert (question.method, question.path, question.query) == ("GET", "jobs", {"limit": 5, "after": 12})


def test_topics_choose_tools(tools: tuple[Tool, ...]) -> None:
    assert {tool.topic for tool in about_topics(tools, ["tasks", "config"])} == {"tasks", "config"}
    assert about_topics(tools, []) == tools
    with pytest.raises(UnknownTopic, match="did you mean tasks"):
        about_topics(tools, ["task"])
