"""Connections whose peer vanishes without a word: nobody waits for them without end."""

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
def through(proxy: SilentProxy) -> Iterator[Database]:
    with Database(proxy.url) as through:
        yield through


def test_every_connection_has_the_kernel_look_after_its_peer(through: Database) -> None:
    with through.begin() as connection:
        fileno = through.raw(connection).fileno()
        with socket.socket(fileno=os.dup(fileno)) as own:
            keeps_alive = own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            idle_s = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            every_s = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
            count = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
            unconfirmed_ms = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert keeps_alive == 1
    assert 10 <= idle_s + count * every_s <= 20
    assert 10_000 <= unconfirmed_ms == SILENCE["tcp_user_timeout"] <= 20_000


def test_an_address_may_say_otherwise(proxy: SilentProxy) -> None:
    with (
        Database(proxy.url + "?tcp_user_timeout=18000") as through,
        through.begin() as connection,
        socket.socket(fileno=os.dup(through.raw(connection).fileno())) as own,
    ):
        assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 18_000


def test_work_on_a_silent_connection_is_cut_in_time(proxy: SilentProxy, through: Database) -> None:
    with through.begin() as connection:
        connection.execute(ONE)
    started = time.monotonic()
    with (
        pytest.raises(ConnectionCut, match="no answer within 1 s"),
        through.within(1.0) as limited,
        limited.begin() as connection,
    ):
        connection.execute(ONE)
        proxy.silence()
        connection.execute(ONE)
    assert 0.9 < time.monotonic() - started < 5
    assert proxy.swallowed > 0
    with through.within(5.0) as limited, limited.begin() as connection:
        assert connection.scalar(ONE) == 1


def test_a_pooled_connection_that_went_silent_is_replaced(
    proxy: SilentProxy, through: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "PING_WITHIN_S", 0.5)
    with through.begin() as connection:
        connection.execute(ONE)
    proxy.silence()
    with through.begin() as connection:
        assert connection.scalar(ONE) == 1
    assert proxy.swallowed > 0


def test_a_server_that_never_answers_is_not_waited_for(proxy: SilentProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy.silence(new_ones_too=True)
    monkeypatch.setattr(database_module, "CONNECT_WITHIN_S", 2)
    with Database(proxy.url) as through, pytest.raises(DatabaseUnavailable, match="cannot connect"), through.begin():
        pass
    assert proxy.answered_late > 0


def test_nor_one_that_falls_silent_at_the_first_questions(proxy: SilentProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "CONNECT_WITHIN_S", 2)
    with Database(proxy.url) as through:
        original = through.engine.dialect.initialize

        def fall_silent(connection: sa.Connection) -> None:
            proxy.silence()
            original(connection)

        monkeypatch.setattr(through.engine.dialect, "initialize", fall_silent)
        with pytest.raises((DatabaseUnavailable, sa.exc.OperationalError)), through.begin():
            pass
    assert proxy.swallowed > 0


def test_what_is_opened_after_the_cut_is_cut_too(database: Database) -> None:
    work = OpenConnections()
    work.cut("late")
    with pytest.raises(ConnectionCut, match="late"), database.limited(work, lambda: 10.0).begin() as connection:
        connection.execute(ONE)


@pytest.mark.parametrize(("left_s", "shown"), [(7.5, "7500ms"), (5.0, "5s"), (1e9, None)])
@pytest.mark.parametrize("name", ["statement_timeout", "lock_timeout"])
def test_reads_and_writes_may_take_what_is_left(
    database: Database, name: str, left_s: float, shown: str | None
) -> None:
    limited = database.limited(OpenConnections(), lambda: left_s)
    longest = "2147483647ms"
    for begin in (limited.begin, limited.read_snapshot):
        with begin() as connection:
            assert connection.scalar(sa.text(f"SHOW {name}")) == (shown or longest)
    with database.begin() as connection:
        assert connection.scalar(sa.text(f"SHOW {name}")) == "0"


@pytest.mark.parametrize("left_s", [0.05, 0.0, -3.0])
def test_a_read_ends_when_the_time_is_used_up(database: Database, left_s: float) -> None:
    limited = database.limited(OpenConnections(), lambda: left_s)
    with pytest.raises(sa.exc.OperationalError) as caught, limited.read_snapshot() as connection:
        connection.execute(sa.text("SELECT pg_sleep(20)"))
    assert isinstance(caught.value.orig, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable)


def test_work_without_an_end_has_no_limits(database: Database) -> None:
    with database.limited(OpenConnections(), lambda: float("inf")).begin() as connection:
        assert connection.scalar(sa.text("SHOW statement_timeout")) == "0"


def test_a_sibling_has_connections_of_its_own(database: Database) -> None:
    own_pid = sa.text("SELECT pg_backend_pid()")
    with database.sibling("leases", 1) as sibling, database.begin() as one, sibling.begin() as other:
        assert one.scalar(own_pid) != other.scalar(own_pid)
        assert sibling.names == database.names
        assert other.scalar(sa.text("SHOW application_name")) == "leases"


def test_deadlines_come_in_their_order_and_only_while_their_block_runs() -> None:
    deadlines, called, all_called = Deadlines(), list[str](), threading.Event()

    def call(name: str) -> None:
        called.append(name)
        if len(called) == 2:
            all_called.set()

    with (
        deadlines.after(0.1, lambda: call("second")),
        deadlines.after(float("inf"), lambda: call("never")),
        deadlines.after(0.02, lambda: call("first")),
    ):
        with deadlines.after(0.01, lambda: call("too late")):
            pass
        assert all_called.wait(10)
    assert called == ["first", "second"]
