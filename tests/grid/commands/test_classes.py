"""``broker classes``, and ``broker run`` of the agents that write the classes, as an operator uses them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.agents.classified_grid import HUGE, SAMPLES, SHARES, at, site
from tests.brokerages.small_grid import TASK
from tests.brokerages.test_analysis_scenarios import SHARE, analysis
from tests.cli.commands import Command, runner


@pytest.fixture
def command(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url)


def lines(command: Command, *arguments: str) -> list[dict[str, Any]]:
    result = command(*arguments)
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_classes_written_by_the_agents_are_shown_with_their_age(database: Database, command: Command) -> None:
    load(database, analysis(**SAMPLES, jobsactive4=HUGE, global_shares=SHARES))
    assert lines(command, "classes", "--json", "--at", "scenario") == []
    queues = lines(command, "run", "site_class", "--json")
    assert [(line["queue"], line["class"]) for line in queues] == [("ALPHA_MCORE", "hi"), ("BETA", "mid"), ("GAMMA_MCORE", "lo")]  # fmt: skip  # noqa: E501
    evaluations = lines(command, "run", "task_class", "--json")
    assert (evaluations[0]["user"], evaluations[0]["rem_slots_A"]) == ("alice", 0)
    assert (evaluations[1]["jeditaskid"], evaluations[1]["class"]) == (TASK, "C")
    assert {line["gshare"] for line in lines(command, "run", "share_usage", "--json", "--dry-run")} >= {SHARE}
    lines(command, "run", "share_usage", "--json")
    entries = lines(command, "classes", "--json", "--at", "2026-08-01T12:15:01")
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for line in entries:
        by_kind.setdefault(line["kind"], []).append(line)
    assert {kind: len(rows) for kind, rows in by_kind.items()} == {"queue": 3, "share": 5, "user": 1, "task": 1}
    queue, task, user = by_kind["queue"][0], by_kind["task"][0], by_kind["user"][0]
    share = next(line for line in by_kind["share"] if line["gshare"] == SHARE)
    assert (queue["queue"], queue["class"], queue["n"], queue["fresh"]) == ("ALPHA_MCORE", "hi", 2, True)
    assert (task["jeditaskid"], task["class"], task["age_s"], task["limit_s"]) == (TASK, "C", 901.0, 900.0)
    assert (user["user"], user["limit_s"], user["fresh"]) == ("alice", 1200.0, True)
    assert (task["fresh"], share["fresh"], share["limit_s"]) == (False, False, 900.0)
    assert all(line["fresh"] for line in lines(command, "classes", "--json", "--at", "2026-08-01T12:15:00"))


def test_unreadable_rows_are_shown_with_the_problem(database: Database, command: Command) -> None:
    wait = {"metric": "analy_pmerge_jobs_wait_time", "computingsite": "ONE_SAMPLE", "gshare": "NULL"}
    users = {"metric": "analy_user_eval", "value_json": {"a\u202eb": {"rem_slots_A": 3}, "x": 5}, "timestamp": at(0)}
    rows = [
        site("NAMELESS", 7),
        site("LIST", 1) | {"value_json": [1]},
        site("TIMELESS", 1) | {"timestamp": None},
        site("OLD", 1, minutes=60.1),
        wait | {"value_json": {"n": 1, "w_cl95upp": None}, "timestamp": at(0)},
        users,
    ]
    texts = ('{"class": NaN}', '{"class": 2, "pct_finished": 1e999}', '{"class": "S"}')
    evaluations = [
        {"jeditaskid": number, "metric": "analy_task_eval", "value_json": text, "timestamp": at(0)}
        for number, text in enumerate(texts)
    ]
    load(database, analysis(metrics=rows, task_evaluation=evaluations))
    entries = lines(command, "classes", "--json", "--at", "scenario")
    queues = {
        line["queue"]: (line["class"], line["fresh"], line["problem"]) for line in entries if line["kind"] == "queue"
    }
    assert queues == {
        "LIST": (None, False, "value_json: wrong_type: 'list'"),
        "NAMELESS": (None, False, "there is no such class"),
        "OLD": ("hi", False, None),
        "ONE_SAMPLE": (None, False, "too few samples for a class"),
        "TIMELESS": ("hi", False, None),
    }
    assert [line["age_s"] for line in entries if line.get("queue") == "TIMELESS"] == [None]
    problems = {line["user"]: line["problem"] for line in entries if line["kind"] == "user"}
    assert problems == {"a\u202eb": None, "x": "not an object"}
    tasks = {line["jeditaskid"]: (line["class"], line["fresh"]) for line in entries if line["kind"] == "task"}
    assert tasks == {0: (None, False), 1: ("S", True), 2: (None, False)}
    table = command("classes", "--at", "scenario")
    assert (table.status, "\u202e" in table.out, "a\\u202eb" in table.out) == (0, False, True)


def test_tables_for_people(database: Database, command: Command) -> None:
    """An agent with rows of users and of tasks prints a table of each; an agent without rows says so."""
    load(database, analysis(metrics=[site("ALPHA_MCORE", 1)], jobsactive4=HUGE))
    result = command("run", "task_class", "--dry-run")
    assert result.status == 0
    assert "slotsRunning 8000" in result.out and str(TASK) in result.out
    assert "users 1, tasks 1" in result.err
    assert command("run", "site_class").out == "there was nothing to do\n"
    assert command("classes", "--at", "soon").status == 2
