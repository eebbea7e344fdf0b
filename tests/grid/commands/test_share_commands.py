"""The commands of ``broker share``, as an operator uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.gdpconfig_rows import TuningStore
from tests.cli.commands import Command, runner

JDL = '[Executable = "/bin/true"; JobRequirements = [CPUTime = 3600]]'


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("LOGNAME", "operator")
    return runner(capsys, "--db", database.url)


def shares_by_name(broker: Command) -> dict[str, dict[str, Any]]:
    lines = broker("share", "list", "--json").out.splitlines()
    return {share["name"]: share for share in map(json.loads, lines)}


def test_shares_are_added_changed_and_removed_and_the_history_keeps_every_change(broker: Command) -> None:
    assert broker("share", "set", "default", "100", "--reason", "first").status == 0
    assert (
        broker("share", "set", "Test", "10", "--parent", "default", "--label", "test", "--reason", "tests").status == 0
    )
    assert broker("share", "set", "Test", "20", "--reason", "more").status == 0
    share = shares_by_name(broker)["Test"]
    assert (share["value"], share["parent"], share["prodsourcelabel"]) == (20, "default", "test")
    refusal = broker("share", "remove", "default", "--reason", "x")
    assert (refusal.status, "Test would lose the parent" in refusal.err) == (3, True)
    assert broker("share", "remove", "Test", "--reason", "enough").status == 0
    assert list(shares_by_name(broker)) == ["default"]
    events = [json.loads(line) for line in broker("share", "history", "Test", "--json").out.splitlines()]
    assert [(event["editor"], event["reason"]) for event in events] == [
        ("operator", "enough"),
        ("operator", "more"),
        ("operator", "tests"),
    ]
    assert (events[1]["old"]["value"], events[1]["new"]["value"], events[0]["new"]) == (10, 20, None)


def test_invalid_shares_are_refused_with_field_value_and_remedy(broker: Command) -> None:
    refusal = broker("share", "set", "A", "40000", "--reason", "x")
    assert (refusal.status, refusal.err.strip()) == (
        3,
        "error: 40000 is out of range; value of A; give a whole number from 0 to 32767",
    )
    assert broker("share", "set", "A", "1", "--parent", "nobody", "--reason", "x").status == 4
    assert broker("share", "remove", "A", "--reason", "x").status == 4
    assert broker("share", "set", "A", "1", "--reason", " ").status == 2
    assert shares_by_name(broker) == {}


def test_a_task_without_a_share_gets_the_default_share_and_its_limit(
    broker: Command, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "one.jdl").write_text(JDL)
    assert broker("submit", str(tmp_path / "one.jdl"), "--user", "me").status == 0
    assert broker("share", "set", "default", "100", "--reason", "ours").status == 0
    assert broker("submit", str(tmp_path / "one.jdl"), "--user", "me").status == 0
    with database.begin() as connection:
        shares = connection.scalars(sa.text("SELECT gshare FROM doma_panda.jedi_tasks ORDER BY jeditaskid")).all()
    assert shares == [None, "default"]
    assert broker("config", "set", "NQUEUELIMITSITE_default", "500", "--reason", "few queues").status == 0
    assert broker("config", "set", "NQUEUELIMITSITE", "300", "--reason", "few queues").status == 0
    with database.begin() as connection:
        tuning = TuningStore().read_current(connection).tuning("atlas")
    assert tuning.by_suffix("NQUEUELIMITSITE", ["default", None, "other"]).tolist() == [500, 300, 300]
    assert shares_by_name(broker)["default"]["waiting_jobs_a_queue"] == 500
    refusal = broker("share", "remove", "default", "--reason", "x")
    assert (refusal.status, "1 tasks of it have not ended" in refusal.err) == (3, True)
