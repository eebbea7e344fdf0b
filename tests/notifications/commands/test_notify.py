"""``broker notify``, ``broker task subscribe`` and ``broker doctor`` as people type them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from agents.notifications.settings_file import FILE
from broker.store.connection.database import Database
from tests.agents.notifications.telling import FAILING, Told, cycle
from tests.cli.commands import Command, runner
from tests.notifications.web_server import Receiver, receiver


@pytest.fixture
def web() -> Iterator[Receiver]:
    with receiver() as web_receiver:
        yield web_receiver


@pytest.fixture
def command(
    database: Database, web: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:  # fmt: skip
    (tmp_path / "secret").write_text("the-secret")
    hook = {"kind": "webhook", "address": web.address, "secret_file": str(tmp_path / "secret")}
    quiet = {"from": "22:00", "to": "07:00", "zone": "Europe/Zurich"}
    rule = {"name": "all", "to": ["hook"], "alarms": ["*"], "lasts_min": 5, "quiet": quiet}
    settings = {"channels": {"hook": hook}, "rules": [rule], "subscriptions": {"channels": ["hook"]}}
    (tmp_path / FILE).write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    with database.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO doma_panda.jedi_tasks (jeditaskid, taskname, status) VALUES (1, 'mc.first', 'running')"
        )
    return runner(capsys, "--db", database.url)


def test_the_list_shows_channels_and_rules_and_no_secret(command: Command) -> None:
    result = command("notify", "list")
    assert result.status == 0, result.err
    assert "22:00 to 07:00 Europe/Zurich" in result.out and "after 5 min" in result.out
    assert "hook/secret" not in result.out and "the-secret" not in result.out
    assert command("notify", "list", "--json").document["channels"][0]["takes_subscribers"] is True


def test_a_test_message_is_delivered_or_its_failure_explained(command: Command, web: Receiver) -> None:
    assert command("notify", "test", "hook").status == 0
    assert web.documents[0]["event"] == "test"
    web.answers.append(503)
    failure = command("notify", "test", "hook")
    assert failure.status == 1 and "status 503" in failure.err
    missing = command("notify", "test", "hok")
    assert missing.status == 4 and "did you mean hook" in missing.err


def test_the_history_lists_sent_messages(command: Command, database: Database) -> None:
    cycle(database, Told(), FAILING)
    result = command("notify", "history", "--since", "3650d", "--json")
    assert (result.document["sentence"], result.document["state"]) == ("BNL fails", "delivered")
    assert "BNL fails" in command("notify", "history", "--since", "3650d").out
    assert command("notify", "history", "--state", "lost").status == 2


def test_subscribing_and_unsubscribing(command: Command) -> None:
    assert command("task", "subscribe", "1", "--to", "hook", "--editor", "ann").status == 0
    (subscription,) = command("task", "subscriptions", "1", "--json").document["subscriptions"]
    assert (subscription["to"], subscription["subscribed_by"]) == ("hook", "ann")
    assert command("task", "unsubscribe", "1", "--to", "hook").status == 0
    assert command("task", "unsubscribe", "1", "--to", "hook").status == 4
    assert command("task", "subscribe", "1", "--to", "nowhere").status == 2
    assert command("task", "subscribe", "2", "--to", "hook").status == 4


def test_the_doctor_names_a_channel_that_cannot_work(command: Command, tmp_path: Path) -> None:
    assert "1 channels, 1 rules" in command("doctor").out
    (tmp_path / "secret").unlink()
    assert "channel hook" in command("doctor").out
    (tmp_path / FILE).write_text("channels: 7")
    assert "no notification is sent: channels: 7 is no mapping" in command("doctor").out
