"""``broker doctor --ready`` and ``broker explain`` name what is missing before the first job, and why."""

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
    result = broker("doctor", "--ready", "--json")
    return result.status, {line["topic"]: line for line in map(json.loads, result.out.splitlines())}


def execute(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(sa.text(database.names.sql(statement)))


def remove_field_sql(field: str) -> str:
    return f"UPDATE {{panda}}.schedconfig_json SET data = (data::jsonb - '{field}')::json"


def test_a_small_installation_is_ready_and_missing_pilots_are_only_a_note(broker: Command) -> None:
    status, topics = ready(broker)
    assert (status, {line["topic"] for line in topics.values() if line["level"] != "ok"}) == (0, {"pilots"})
    assert [(topics[name]["usable"], topics[name]["of"]) for name in ("queues", "nuclei", "endpoints")] == [(2, 2)] * 3
    assert topics["vo"]["finding"] == "the VO is myexp"
    assert "500 jobs of default may wait at a queue (NQUEUELIMITSITE_default)" in topics["shares"]["finding"]
    assert set(topics["pilots"]["why_not"]) == {"A_CE", "B_CE"}
    text = broker("doctor", "--ready")
    assert (text.status, text.err) == (0, "ready\n")


CASES = {
    "no cloud": (remove_field_sql("cloud"), "queues nuclei", "queues", "no cloud, so it is on no map"),
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
def test_each_missing_part_is_named_with_the_reason(
    broker: Command, database: Database, statement: str, problems: str, topic: str, why: str
) -> None:
    execute(database, statement)
    status, topics = ready(broker)
    assert (status, [line["topic"] for line in topics.values() if line["level"] == "problem"]) == (1, problems.split())
    assert all(why in text for text in topics[topic]["why_not"].values())
    assert topics[topic]["why_not"]
    assert all(line["remedy"] for line in topics.values() if line["level"] == "problem")
    assert broker("doctor", "--ready").err == f"not ready: {', '.join(problems.split())}\n"


def test_above_the_threshold_it_is_ready_and_one_full_nucleus_is_a_note(broker: Command, database: Database) -> None:
    execute(database, "UPDATE {panda}.ddm_endpoint SET space_free = 103")
    assert ready(broker)[0] == 0
    execute(database, "UPDATE {panda}.ddm_endpoint SET space_free = 102 WHERE ddm_endpoint_name = 'A_DISK'")
    status, topics = ready(broker)
    assert (status, topics["nuclei"]["level"], topics["nuclei"]["usable"]) == (0, "note", 1)


def test_missing_pilots_are_a_problem_if_the_profile_requires_them(broker: Command, broker_home: Path) -> None:
    (broker_home / "config" / "broker.yaml").write_text("profile: seed\n")
    status, topics = ready(broker)
    assert (status, topics["pilots"]["level"]) == (1, "problem")


def test_an_empty_installation_gets_the_first_steps(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    status, topics = ready(runner(capsys, "--db", database.url))
    assert status == 1
    assert topics["vo"]["remedy"] == "make it yours with broker init --vo NAME"
    assert "broker import sites FILE" in topics["queues"]["remedy"]
    assert topics["shares"]["remedy"].startswith("broker share set default")


def test_explain_names_the_missing_parts_without_candidates(
    broker: Command, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "task.yaml").write_text(TASK)
    task = str(broker("task", "submit", str(tmp_path / "task.yaml"), "--json").document["jeditaskid"])
    execute(database, remove_field_sql("cloud"))
    broker("run", "production_task")
    text = broker("explain", task).out
    assert "Missing: queues: 0 of 2 usable; not A_CE: no cloud" in text
    assert "Missing: nuclei: no nucleus" in text
    assert "No single change" not in text
    decision = broker("explain", task, "--json").document["decisions"][0]
    _, topics = ready(broker)
    assert decision["missing"] == [topics["queues"], topics["nuclei"]]


def test_explain_names_no_missing_parts_if_candidates_were_rejected(
    broker: Command, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "task.yaml").write_text(TASK)
    task = str(broker("task", "submit", str(tmp_path / "task.yaml"), "--json").document["jeditaskid"])
    # enough space for the queues, too little for the nuclei
    execute(database, "UPDATE {panda}.ddm_endpoint SET space_free = 50")
    broker("run", "production_task")
    decision = broker("explain", task, "--json").document["decisions"][0]
    assert (decision["verdict"]["reason"], decision["missing"]) == ("space", [])


def test_queues_are_listed_before_any_decision_and_after_a_later_import(broker: Command, tmp_path: Path) -> None:
    def queue_names(*words: str) -> list[str]:
        return [json.loads(line)["queue"] for line in broker("queues", *words, "--json").out.splitlines()]

    assert queue_names() == ["A_CE", "B_CE"]
    assert queue_names("--site", "b") == ["B_CE"]
    assert queue_names("--status", "offline") == []
    refusal = broker("queues", "--site", "C")
    assert (refusal.status, "known are A, B" in refusal.err) == (2, True)
    (tmp_path / "task.yaml").write_text(TASK)
    broker("task", "submit", str(tmp_path / "task.yaml"))
    broker("run", "production_task")
    (tmp_path / "sites.yaml").write_text(SITES + B.replace("B_CE", "C_CE"))
    broker("import", "sites", str(tmp_path / "sites.yaml"))
    assert queue_names() == ["A_CE", "B_CE", "C_CE"]
