from __future__ import annotations

from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.service import health, leases, services
from broker.store.service.health import Problem, ServiceState, problems
from broker.store.service.leases import LeaseTerms
from tests.fault.silent_proxy import silent_proxy


def service(seen_s_ago: float = 1.0, started_s_ago: float = 1000.0, holder: str = "one", **state: Any) -> ServiceState:
    return ServiceState(holder, seen_s_ago, started_s_ago, ["a", "b"], state)


HELD = {"a": -10.0, "b": -0.1}


@pytest.mark.parametrize(
    ("services_found", "expired_s_ago", "expected"),
    [
        ([], {}, [Problem("no_service")]),
        ([service()], HELD, []),
        ([service(30.0)], HELD, []),
        ([service(30.1)], HELD, [Problem("heartbeat_old", None, 30.1, 30.0)]),
        ([service(30.1, healthy_within_s=60.0)], HELD, []),
        ([service(60.1, healthy_within_s=60.0)], HELD, [Problem("heartbeat_old", None, 60.1, 60.0)]),
        ([service(500.0, holder="killed"), service()], HELD, []),
        ([service(500.0, holder="killed", overdue=["a"]), service()], HELD, []),
        ([service(overdue=["b"])], HELD, [Problem("cycle_overdue", "b")]),
        ([service(failing={"a": 3})], HELD, [Problem("agent_failing", "a", 3)]),
        ([service()], {"a": 30.0, "b": -1.0}, []),
        ([service()], {"a": 30.1, "b": -1.0}, [Problem("no_leader", "a", 30.1, 30.0)]),
        ([service()], {"b": -1.0}, [Problem("no_leader", "a", 1000.0, 30.0)]),
        ([service(started_s_ago=29.0)], {"b": -1.0}, []),
        ([service(started_s_ago=5.0)], {"a": 1e6, "b": -1.0}, []),
        ([service()], {**HELD, "of another service": 1e6}, []),
        ([service(parts={"a": 2})], {"a#1/2": -5.0, "a#2/2": -5.0, "a": 1e6, "b": -1.0}, []),
        ([service(parts={"a": 2})], {"a#1/2": -5.0, "b": -1.0}, [Problem("no_leader", "a#2/2", 1000.0, 30.0)]),
        ([service(parts={"a": 2})], {"a#3/3": -5.0, "b": -1.0}, []),
        ([service()], {"a#1/2": -5.0, "b": -1.0}, []),
        ([service(feeds=["a"], overdue=["a"])], {"b": -1.0}, []),
        ([service(feeds=["a"], failing={"a": 3, "b": 4})], HELD, [Problem("agent_failing", "b", 4)]),
        ([service(60.0, feeds=["a"])], HELD, [Problem("heartbeat_old", None, 60.0, 30.0)]),
    ],
)
def test_problems_of_services_and_leases(
    services_found: list[ServiceState], expired_s_ago: dict[str, float], expected: list[Problem]
) -> None:
    assert problems(services_found, expired_s_ago) == expected


def test_services_and_leases_are_read_from_the_database(database: Database) -> None:
    assert health.read(database.url, "here") == ([], {})
    with database.begin() as connection:
        assert leases.acquire(connection, "a", "one", LeaseTerms()).lease is not None
        services.beat(connection, "one", "here", "1", ["a"], {"overdue": ["a"]})
        services.beat(connection, "two", "elsewhere", "1", ["a"])
        services.beat(connection, "old release", "there", "1", ["a"])
    (local,), expired_s_ago = health.read(database.url, "here")
    assert (local.holder, local.agents, local.state) == ("one", ["a"], {"overdue": ["a"]})
    assert 0 <= local.seen_s_ago < 60
    assert -15 <= expired_s_ago["a"] < 0
    (remote,), _ = health.read(database.url, "there")
    assert remote.state == {}


def test_a_silent_database_is_not_waited_for(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ANSWER_WITHIN_S", 1.0)
    with silent_proxy(database.url) as proxy:
        original = psycopg.connect

        def connect(*arguments: Any, **keywords: Any) -> Any:
            connection = original(*arguments, **keywords)
            proxy.silence()
            return connection

        monkeypatch.setattr(psycopg, "connect", connect)
        with pytest.raises(psycopg.OperationalError):
            health.read(proxy.url, "here")
        assert proxy.swallowed > 0


def test_missing_tables_raise_the_drivers_error(empty_database: Database) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        health.read(empty_database.url, "here")
    with empty_database.begin() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1
