"""The notification process dies before its commit, or the database falls silent: delivery repeats under one number."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from agents.notifications.settings_file import FILE
from broker.store.connection.database import Database
from tests.fault.processes import PATIENCE_S, broker, free_leases, wait_until
from tests.fault.silent_proxy import silent_proxy
from tests.notifications.stomp_server import stomp_server
from tests.notifications.web_server import Receiver, receiver

pytestmark = pytest.mark.slow
RUN = ("run", "notifications")


@pytest.fixture
def web() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


@pytest.fixture
def alarmed_database(database: Database, web: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database with one alarm for the receiver."""
    (tmp_path / "secret").write_text("secret")
    hook = {"kind": "webhook", "address": web.address, "secret_file": str(tmp_path / "secret")}
    rule = {"name": "paused", "to": ["hook"], "alarms": ["agent_paused"], "severity": "info"}
    settings = {"channels": {"hook": hook}, "rules": [rule], "first_pause_s": 0.001, "longest_pause_s": 0.001}
    (tmp_path / FILE).write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    with database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO broker.agent_pauses (agent, reason, editor, set_at, until) "
            "VALUES ('timeouts', 'because', 'ann', clock_timestamp(), clock_timestamp() + interval '1 day')"
        )
    return database


def states(database: Database) -> list[tuple[str, int]]:
    with database.begin() as connection:
        rows = connection.execute(sa.text("SELECT state, tries FROM broker.notifications ORDER BY id"))
        return [(state, tries) for state, tries in rows]


@pytest.mark.parametrize(
    ("point", "deliveries"), [("before_delivery", 0), ("after_delivery", 1), ("after_write_before_commit", 0)]
)
def test_a_kill_at_any_point_repeats_the_delivery_under_the_same_number(
    alarmed_database: Database, web: Receiver, tmp_path: Path, point: str, deliveries: int
) -> None:
    with broker(alarmed_database.url, *RUN, fault=f"{point}:kill", markers=tmp_path) as process:
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert (tmp_path / point).exists() and len(web.got) == deliveries
    free_leases(alarmed_database)
    with broker(alarmed_database.url, *RUN) as process:
        assert process.wait(PATIENCE_S) == 0
    assert {state for state, _ in states(alarmed_database)} == {"delivered"}
    assert len(web.got) == deliveries + 1
    numbers = {(headers["X-Gridbroker-Incident"], headers["X-Gridbroker-Delivery"]) for headers, _ in web.got}
    assert len(numbers) == 1 and len({body for _, body in web.got}) == 1
    assert json.loads(web.got[0][1])["about"] == "timeouts"


@pytest.mark.parametrize(("point", "deliveries"), [("before_delivery", 0), ("after_delivery", 1)])
def test_a_kill_around_a_stomp_message_repeats_it_under_the_same_number(
    alarmed_database: Database, tmp_path: Path, point: str, deliveries: int
) -> None:
    with stomp_server() as server:
        mq = {"kind": "stomp", "host": "127.0.0.1", "port": server.port, "security": "none", "destination": "/queue/q"}
        rule = {"name": "paused", "to": ["mq"], "alarms": ["agent_paused"], "severity": "info"}
        settings = {"channels": {"mq": mq}, "rules": [rule], "first_pause_s": 0.001, "longest_pause_s": 0.001}
        (tmp_path / FILE).write_text(yaml.safe_dump(settings))
        with broker(alarmed_database.url, *RUN, fault=f"{point}:kill", markers=tmp_path) as process:
            assert process.wait(PATIENCE_S) == -signal.SIGKILL
        assert len(server.sent) == deliveries
        free_leases(alarmed_database)
        with broker(alarmed_database.url, *RUN) as process:
            assert process.wait(PATIENCE_S) == 0
    assert {state for state, _ in states(alarmed_database)} == {"delivered"}
    assert len(server.sent) == deliveries + 1
    assert len({headers["X-Gridbroker-Delivery"] for headers, _ in server.sent}) == 1


def test_a_database_lost_after_the_delivery_fails_the_cycle_and_the_next_cycle_repeats_it(
    alarmed_database: Database, web: Receiver, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    with silent_proxy(alarmed_database.url) as proxy:
        fault = f"after_delivery:pause:{go}"
        with broker(proxy.url, *RUN, fault=fault, markers=tmp_path) as process:
            wait_until((tmp_path / "after_delivery").exists, "the fault point was reached")
            proxy.silence(new_ones_too=True)
            go.touch()
            assert process.wait(PATIENCE_S) != 0
    free_leases(alarmed_database)
    assert states(alarmed_database) == [("waiting", 1)]
    with broker(alarmed_database.url, *RUN) as process:
        assert process.wait(PATIENCE_S) == 0
    assert states(alarmed_database) == [("delivered", 2)]
    assert len(web.got) == 2 and len({headers["X-Gridbroker-Delivery"] for headers, _ in web.got}) == 1
