"""``broker doctor --ready``: what is missing before the first job, and why; ``broker explain`` says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker import resources
from broker.store.connection.database import Database
from tests.agents.feeds.test_sites import SITES, B
from tests.cli.commands import Command, runner

pytestmark = pytest.mark.slow

TASK = resources.path("config/first-task.yaml").read_text(encoding="utf-8")


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str], broker_home: Path, tmp_path: Path) -> Command:
    """A small installation with two sites."""
    command = runner(capsys, "--db", database.url)
    assert command("init", "--vo", "myexp").status == 0
    file = tmp_path / "sites.yaml"
    file.write_text(SITES + B)
    assert command("import", "sites", str(file)).status == 0
    return command


def ready(broker: Command) -> tuple[object, dict[str, dict[str, Any]]]:
    found = broker("doctor", "--ready", "--json")
    return found.status, {one["topic"]: one for one in map(json.loads, found.out.splitlines())}


def change(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(sa.text(database.names.sql(statement)))


def without(field: str) -> str:
    return f"UPDATE {{panda}}.schedconfig_json SET data = (data::jsonb - '{field}')::json"


def test_a_small_installation_is_ready_and_its_pilots_are_a_note(broker: Command) -> None:
    status, found = ready(broker)
    assert (status, {one["topic"] for one in found.values() if one["level"] != "ok"}) == (0, {"pilots"})
    assert [(found[name]["usable"], found[name]["of"]) for name in ("queues", "nuclei", "endpoints")] == [(2, 2)] * 3
    assert found["vo"]["finding"] == "the VO is myexp"
    assert "500 jobs of default may wait at a queue (NQUEUELIMITSITE_default)" in found["shares"]["finding"]
    assert set(found["pilots"]["why_not"]) == {"A_CE", "B_CE"}
    text = broker("doctor", "--ready")
    assert (text.status, text.err) == (0, "ready\n")


CASES = {
    "no cloud": (without("cloud"), "queues nuclei", "queues", "no cloud, so it is on no map"),
    "offline": (
        "UPDATE {panda}.schedconfig_json SET data = jsonb_set(data::jsonb, '{{status}}', '\"offline\"')::json".replace(
            "{{", "{"
        ).replace("}}", "}"),
        "queues",
        "queues",
        "status offline",
    ),
    "no site": ("DELETE FROM {panda}.panda_site", "queues nuclei", "queues", "it belongs to no site"),
    "no role": ("DELETE FROM {panda}.site", "queues nuclei", "queues", "is on record as neither nucleus nor satellite"),
    "bad record": (
        'UPDATE {panda}.schedconfig_json SET data = (data::jsonb || \'{"maxrss": "x"}\')::json',
        "queues nuclei",
        "queues",
        "its record cannot be used",
    ),
    "no resource types": ("DELETE FROM {panda}.resource_types", "resource_types queues", "queues", "no resource type"),
    "nowhere to write": (
        "DELETE FROM {panda}.panda_ddm_relation",
        "queues nuclei",
        "queues",
        "no endpoint to write to",
    ),
    "unknown space": ("UPDATE {panda}.ddm_endpoint SET space_free = NULL", "nuclei", "endpoints", "space unknown"),
    "at the threshold": (
        "UPDATE {panda}.ddm_endpoint SET space_free = 102",
        "nuclei",
        "nuclei",
        "_DISK has 102 GB, limit above 102 GB (DISK_THRESHOLD)",
    ),
    "stale": ("UPDATE {panda}.schedconfig_json SET last_update = '2001-01-01'", "sources", "sources", "stale"),
}


@pytest.mark.parametrize(("statement", "problems", "topic", "why"), list(CASES.values()), ids=list(CASES))
def test_what_is_missing_is_named_with_the_reason_of_each(
    broker: Command, database: Database, statement: str, problems: str, topic: str, why: str
) -> None:
    change(database, statement)
    status, found = ready(broker)
    assert (status, [one["topic"] for one in found.values() if one["level"] == "problem"]) == (1, problems.split())
    assert all(why in text for text in found[topic]["why_not"].values())
    assert found[topic]["why_not"]
    assert all(one["remedy"] for one in found.values() if one["level"] == "problem")
    assert broker("doctor", "--ready").err == f"not ready: {', '.join(problems.split())}\n"


def test_just_above_the_threshold_it_is_ready_and_one_of_two_is_a_note(broker: Command, database: Database) -> None:
    change(database, "UPDATE {panda}.ddm_endpoint SET space_free = 103")
    assert ready(broker)[0] == 0
    change(database, "UPDATE {panda}.ddm_endpoint SET space_free = 102 WHERE ddm_endpoint_name = 'A_DISK'")
    status, found = ready(broker)
    assert (status, found["nuclei"]["level"], found["nuclei"]["usable"]) == (0, "note", 1)


def test_pilots_are_a_condition_where_the_profile_asks_for_them(broker: Command, broker_home: Path) -> None:
    (broker_home / "config" / "broker.yaml").write_text("profile: seed\n")
    status, found = ready(broker)
    assert (status, found["pilots"]["level"]) == (1, "problem")


def test_without_anything_it_says_where_to_begin(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = ready(runner(capsys, "--db", database.url))
    assert status == 1
    assert found["vo"]["remedy"] == "make it yours with broker init --vo NAME"
    assert "broker import sites FILE" in found["queues"]["remedy"]
    assert found["shares"]["remedy"].startswith("broker share set default")


def test_explain_says_the_same_where_nothing_was_a_candidate(
    broker: Command, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "task.yaml").write_text(TASK)
    task = str(broker("task", "submit", str(tmp_path / "task.yaml"), "--json").document["jeditaskid"])
    change(database, without("cloud"))
    broker("run", "production_task")
    shown = broker("explain", task).out
    assert "Missing: queues: 0 of 2 usable; not A_CE: no cloud" in shown
    assert "Missing: nuclei: no nucleus" in shown
    assert "No single change" not in shown
    decision = broker("explain", task, "--json").document["decisions"][0]
    _, now = ready(broker)
    assert decision["missing"] == [now["queues"], now["nuclei"]]


def test_explain_says_nothing_of_it_where_candidates_were_rejected(
    broker: Command, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "task.yaml").write_text(TASK)
    task = str(broker("task", "submit", str(tmp_path / "task.yaml"), "--json").document["jeditaskid"])
    # enough for the queues, not for the nuclei
    change(database, "UPDATE {panda}.ddm_endpoint SET space_free = 50")
    broker("run", "production_task")
    found = broker("explain", task, "--json").document["decisions"][0]
    assert (found["verdict"]["reason"], found["missing"]) == ("space", [])


def test_all_queues_are_listed_before_any_decision_and_when_they_came_later(broker: Command, tmp_path: Path) -> None:
    def listed(*words: str) -> list[str]:
        return [json.loads(line)["queue"] for line in broker("queues", *words, "--json").out.splitlines()]

    assert listed() == ["A_CE", "B_CE"]
    assert listed("--site", "b") == ["B_CE"]
    assert listed("--status", "offline") == []
    unknown = broker("queues", "--site", "C")
    assert (unknown.status, "known are A, B" in unknown.err) == (2, True)
    (tmp_path / "task.yaml").write_text(TASK)
    broker("task", "submit", str(tmp_path / "task.yaml"))
    broker("run", "production_task")
    (tmp_path / "sites.yaml").write_text(SITES + B.replace("B_CE", "C_CE"))
    broker("import", "sites", str(tmp_path / "sites.yaml"))
    assert listed() == ["A_CE", "B_CE", "C_CE"]
