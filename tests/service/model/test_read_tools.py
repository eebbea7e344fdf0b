"""The tools are the reading operations of the API's own description, and none of the others."""

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
    found = [one for one in app.routes if isinstance(one, GuardedRoute)]
    return {(method, one.path_format): one for one in found for method in one.methods}


@pytest.fixture(scope="module")
def tools() -> tuple[Tool, ...]:
    """Those of the description as it is kept, which another test compares with the application."""
    return tools_of(json.loads((ROOT / "docs/reference/openapi.json").read_text(encoding="utf-8")))


def test_no_tool_reaches_a_route_that_writes(
    tools: tuple[Tool, ...], routes: dict[tuple[str, str], GuardedRoute]
) -> None:
    assert len(tools) > 50
    reached = {one.name: routes[one.method, V1 + one.path].policy for one in tools}
    assert {name for name, policy in reached.items() if policy.writes} == set()


def test_every_reading_route_is_a_tool(tools: tuple[Tool, ...], routes: dict[tuple[str, str], GuardedRoute]) -> None:
    reached = {(one.method, V1 + one.path) for one in tools}
    left = {
        path
        for (method, path), route in routes.items()
        if not route.policy.writes and path.startswith(V1) and not DIALECTS.intersection(route.tags)
        and (method, path) not in reached
    }  # fmt: skip
    # the description itself, a stream that never ends, and what is rolled back
    assert left == {"/api/v1/openapi.json", "/api/v1/events", "/api/v1/feasibility"}


def test_names_differ_and_schemas_stand_alone(tools: tuple[Tool, ...]) -> None:
    assert len({one.name for one in tools}) == len(tools)
    for one in tools:
        assert "#/components" not in str(one.schema), one.name
        assert one.schema["additionalProperties"] is False and "cursor" in one.schema["properties"]
        assert "after" not in one.schema["properties"]


def test_a_policy_that_writes_or_is_not_known_makes_no_tool() -> None:
    assert not {one.name for one in vars(policies).values() if isinstance(one, Policy) and one.writes} & READING
    answer = {"200": {"content": {"application/json": {"schema": {}}}}}
    operation = {"operationId": "one", "tags": ["a"], "responses": answer}
    paths = {
        "/api/v1/good": {"get": {**operation, "x-policy": "read"}},
        "/api/v1/writes": {"post": {**operation, "x-policy": "operate"}},
        "/api/v1/new": {"get": {**operation, "x-policy": "not known here"}},
        "/api/v1/unmarked": {"get": operation},
        "/elsewhere": {"get": {**operation, "x-policy": "read"}},
    }
    assert [one.path for one in read_tools({"paths": paths}, READING)] == ["good"]


def named(tools: tuple[Tool, ...], name: str) -> Tool:
    return next(one for one in tools if one.name == name)


def test_values_of_a_path_stay_in_their_place(tools: tuple[Tool, ...]) -> None:
    why_not, decide = named(tools, "get_why_not"), named(tools, "decide_now")
    asked = question_of(why_not, {"jeditaskid": 7, "queue": "BNL/MCORE #1?"})
    assert asked.path == "tasks/7/why-not/BNL/MCORE%20%231%3F"
    assert question_of(decide, {"name": "a/b:c", "body": {}}).path == "brokerage/a%2Fb%3Ac:decide"
    assert question_of(named(tools, "get_user"), {"user": "ann/b"}).path == "users/ann~2fb"
    for name in ("", "..", "../pins", "a/./b"):
        with pytest.raises(WrongName):
            question_of(why_not, {"jeditaskid": 7, "queue": name})
        with pytest.raises(WrongName):
            question_of(decide, {"name": name, "body": {}})


def test_a_page_follows_another_with_the_cursor_of_the_api(tools: tuple[Tool, ...]) -> None:
    asked = question_of(named(tools, "list_jobs"), {"limit": 5, "queue": None, "cursor": "x"}, after=12)
    assert (asked.method, asked.path, asked.query) == ("GET", "jobs", {"limit": 5, "after": 12})


def test_topics_choose_tools(tools: tuple[Tool, ...]) -> None:
    assert {one.topic for one in about_topics(tools, ["tasks", "config"])} == {"tasks", "config"}
    assert about_topics(tools, []) == tools
    with pytest.raises(UnknownTopic, match="did you mean tasks"):
        about_topics(tools, ["task"])
