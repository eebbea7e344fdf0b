"""Every route declares its policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from broker.api.app import create_app
from broker.api.guarded_route import GuardedRoute, MissingPolicy, guarded_router
from broker.store.connection.database import Database
from tests.api.serving import shipped, utc_now


@pytest.fixture
def routes(tmp_path: Path) -> Iterator[list[object]]:
    with Database("postgresql://localhost:1/none") as database:
        app = create_app(database, shipped(), home=tmp_path, folder=None, now=utc_now, steady_s=lambda: 0.0)
        yield list(app.routes)


def test_every_route_declares_its_policy(routes: list[object]) -> None:
    api = [route for route in routes if isinstance(route, APIRoute)]
    assert len(api) > 25
    assert [route.path for route in api if not isinstance(route, GuardedRoute)] == []
    assert [route for route in routes if not isinstance(route, APIRoute)] == []


def test_every_writing_route_declares_it(routes: list[object]) -> None:
    reading_posts = {
        "/api/v1/tasks:decisions", "/api/v1/brokerage/{name}:decide", "/api/v1/feasibility", "/api/v1/match/specs",
        "/api/v1/match/nodes", "/api/v1/retry-rules:test",
    }  # fmt: skip
    for route in routes:
        assert isinstance(route, GuardedRoute)
        changes = not route.methods <= {"GET", "HEAD"} and route.path not in reading_posts
        assert route.policy.writes == changes, route.path


def test_a_route_without_a_policy_is_an_error() -> None:
    router = guarded_router(tag="x")
    with pytest.raises(MissingPolicy, match="/x"):

        @router.get("/x")
        def forgotten() -> None:
            """Nothing."""
