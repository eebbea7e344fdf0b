"""Connections whose peer vanishes silently are never waited for indefinitely."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from broker.store.connection import database as database_module
from broker.store.connection.database import SILENCE, Database
from broker.store.connection.deadlines import Deadlines
from broker.store.connection.errors import ConnectionCut, DatabaseUnavailable
from broker.store.connection.open_connections import OpenConnections
from tests.fault.silent_proxy import SilentProxy, silent_proxy

ONE = sa.text("SELECT 1")


@pytest.fixture
def proxy(database: Database) -> Iterator[SilentProxy]:
    with silent_proxy(database.url) as proxy:
        yield proxy


@pytest.fixture
def proxied_database(proxy: SilentProxy) -> Iterator[Database]:
    with Database(proxy.url) as proxied_database:
        yield proxied_database


def test_every_connection_has_kernel_keepalives_for_its_peer(proxied_database: Database) -> None:
    with proxied_database.begin() as connection:
        fileno = proxied_database.raw(connection).fileno()
        with socket.socket(fileno=os.dup(fileno)) as socket_copy:
            keeps_alive = socket_copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            idle_s = socket_copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            every_s = socket_copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
            count = socket_copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
            unconfirmed_ms = socket_copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert keeps_alive == 1
    assert 10 <= idle_s + count * every_s <= 20
    assert 10_000 <= unconfirmed_ms == SILENCE["tcp_user_timeout"] <= 20_000


def test_an_address_may_override_the_timeout(proxy: SilentProxy) -> None:
    with (
        Database(proxy.url + "?tcp_user_timeout=18000") as proxied_database,
        proxied_database.begin() as connection,
        socket.socket(fileno=os.dup(proxied_database.raw(connection).fileno())) as socket_copy,
    ):
        assert socket_copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 18_000


def test_work_on_a_silent_connection_is_cut_in_time(proxy: SilentProxy, proxied_database: Database) -> None:
    with proxied_database.begin() as connection:
        connection.execute(ONE)
    started_s = time.monotonic()
    with (
        pytest.raises(ConnectionCut, match="no answer within 1 s"),
        proxied_database.within(1.0) as limited,
        limited.begin() as connection,
    ):
        connection.execute(ONE)
        proxy.silence()
        connection.execute(ONE)
    assert 0.9 < time.monotonic() - started_s < 5
    assert proxy.swallowed > 0
    with proxied_database.within(5.0) as limited, limited.begin() as connection:
        assert connection.scalar(ONE) == 1


def test_a_pooled_connection_that_went_silent_is_replaced(
    proxy: SilentProxy, proxied_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "PING_WITHIN_S", 0.5)
    with proxied_database.begin() as connection:
        connection.execute(ONE)
    proxy.silence()
    with proxied_database.begin() as connection:
        assert connection.scalar(ONE) == 1
    assert proxy.swallowed > 0


def test_a_server_that_never_answers_is_not_waited_for(proxy: SilentProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy.silence(new_ones_too=True)
    monkeypatch.setattr(database_module, "CONNECT_WITHIN_S", 2)
    with (
        Database(proxy.url) as proxied_database,
        pytest.raises(DatabaseUnavailable, match="cannot connect"),
        proxied_database.begin(),
    ):
        pass
    assert proxy.answered_late > 0


def test_a_server_that_falls_silent_during_the_initial_queries_is_not_waited_for(
    proxy: SilentProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "CONNECT_WITHIN_S", 2)
    with Database(proxy.url) as proxied_database:
        original = proxied_database.engine.dialect.initialize

        def fall_silent(connection: sa.Connection) -> None:
            proxy.silence()
            original(connection)

        monkeypatch.setattr(proxied_database.engine.dialect, "initialize", fall_silent)
        with pytest.raises((DatabaseUnavailable, sa.exc.OperationalError)), proxied_database.begin():
            pass
    assert proxy.swallowed > 0


def test_connections_opened_after_the_cut_are_cut_too(database: Database) -> None:
    work = OpenConnections()
    work.cut("late")
    with pytest.raises(ConnectionCut, match="late"), database.limited(work, lambda: 10.0).begin() as connection:
        connection.execute(ONE)


@pytest.mark.parametrize(("left_s", "expected"), [(7.5, "7500ms"), (5.0, "5s"), (1e9, None)])
@pytest.mark.parametrize("name", ["statement_timeout", "lock_timeout"])
def test_reads_and_writes_are_limited_to_the_remaining_time(
    database: Database, name: str, left_s: float, expected: str | None
) -> None:
    limited = database.limited(OpenConnections(), lambda: left_s)
    longest = "2147483647ms"
    for begin in (limited.begin, limited.read_snapshot):
        with begin() as connection:
            assert connection.scalar(sa.text(f"SHOW {name}")) == (expected or longest)
    with database.begin() as connection:
        assert connection.scalar(sa.text(f"SHOW {name}")) == "0"


@pytest.mark.parametrize("left_s", [0.05, 0.0, -3.0])
def test_a_read_ends_when_no_time_remains(database: Database, left_s: float) -> None:
    limited = database.limited(OpenConnections(), lambda: left_s)
    with pytest.raises(sa.exc.OperationalError) as caught, limited.read_snapshot() as connection:
        connection.execute(sa.text("SELECT pg_sleep(20)"))
    assert isinstance(caught.value.orig, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable)


def test_work_without_a_deadline_has_no_limits(database: Database) -> None:
    with database.limited(OpenConnections(), lambda: float("inf")).begin() as connection:
        assert connection.scalar(sa.text("SHOW statement_timeout")) == "0"


def test_a_sibling_has_separate_connections(database: Database) -> None:
    own_pid = sa.text("SELECT pg_backend_pid()")
    with database.sibling("leases", 1) as sibling, database.begin() as first, sibling.begin() as second:
        assert first.scalar(own_pid) != second.scalar(own_pid)
        assert sibling.names == database.names
        assert second.scalar(sa.text("SHOW application_name")) == "leases"


def test_deadlines_fire_in_order_and_only_while_their_block_runs() -> None:
    deadlines, calls, all_called = Deadlines(), list[str](), threading.Event()

    def call(name: str) -> None:
        calls.append(name)
        if len(calls) == 2:
            all_called.set()

    with (
        deadlines.after(0.1, lambda: call("second")),
        deadlines.after(float("inf"), lambda: call("never")),
        deadlines.after(0.02, lambda: call("first")),
    ):
        with deadlines.after(0.01, lambda: call("too late")):
            pass
        assert all_called.wait(10)
    assert calls == ["first", "second"]
