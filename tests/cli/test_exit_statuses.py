"""Every command exits with one of six statuses, each with one meaning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from broker.cli.application import build_app
from broker.errors import EXIT_STATUSES, NOT_FOUND, NOT_PLACED, WRONG_USAGE, did_you_mean, nearest
from broker.store.connection.database import Database
from tests.cli.commands import Command, runner
from tests.fault.processes import load_grid, made_jobs

NEEDS_A_DATABASE: dict[str, tuple[str, ...]] = {
    "acknowledge": ("source_stale", "--reason", "r"),
    "agents": (),
    "alarms": (),
    "classes": (),
    "config canary": (),
    "config diff": ("1", "2"),
    "config get": ("NQUEUED_SAT_CAP",),
    "config history": (),
    "config list": (),
    "config rollback": ("1",),
    "config set": ("NQUEUED_SAT_CAP", "5", "--reason", "r"),
    "config unset": ("NQUEUED_SAT_CAP", "--reason", "r"),
    "db dump": ("scenario.json",),
    "db psql": (),
    "db upgrade": (),
    "db url": (),
    "doctor": (),
    "explain": ("1",),
    "forecast check": (),
    "forecast list": (),
    "forecast show": ("1",),
    "history": ("1",),
    "import log": (),
    "import network": ("network.json",),
    "links": (),
    "match": ("",),
    "match-job": ("--queue", "Q", "--site", "S", "--ce", "C", "--vo", "atlas"),
    "notify decisions": (),
    "notify history": (),
    "nucleus": (),
    "outcomes": (),
    "quality show": (),
    "pause": ("all", "--until", "8h", "--reason", "r"),
    "pool list": (),
    "pool queues": ("P",),
    "pool resources": (),
    "pool show": ("P",),
    "queue history": ("Q",),
    "queue show": ("Q",),
    "queue set": ("Q", "status=online", "--reason", "r", "--until", "8h"),
    "queue unset": ("Q", "status"),
    "queues": (),
    "reasons": (),
    "replay": (),
    "retry-rule add": ("--source", "pilotErrorCode", "--code", "1235", "--action", "no_retry"),
    "retry-rule list": (),
    "retry-rule remove": ("1",),
    "retry-rule test": ("broker:1",),
    "resume": ("all",),
    "run": ("production_job",),
    "shadow": (),
    "shares": (),
    "share list": (),
    "share history": (),
    "share set": ("A", "1", "--reason", "r"),
    "share remove": ("A", "--reason", "r"),
    "snapshot export": ("snapshot.json",),
    "snapshot list": (),
    "snapshot show": (),
    "sss export": ("--task", "1"),
    "story": ("1",),
    "sweep": ("NQUEUED_SAT_CAP=1:2:1",),
    "task show": ("1",),
    "tasks": (),
    "timeouts": (),
    "user": ("alice",),
    "what-if": ("--set", "NQUEUED_SAT_CAP=5"),
    "why-not": ("1", "Q"),
    "why-timeout": ("1",),
    "job": ("1",),
    "jobs": (),
    "outputs leave": ("1", "a.root", "--reason", "r"),
    "outputs list": (),
    "outputs retry": ("1",),
    "pilots demand": (),
    "plugin labels": ("user", "--reason", "r"),
    "plugin log": (),
    "plugin off": ("--reason", "r"),
    "plugin on": ("--reason", "r"),
    "plugin percent": ("10", "--reason", "r"),
    "task audit": ("1",),
    "task finish": ("1",),
    "task kill": ("1",),
    "task pause": ("1",),
    "task priority": ("1", "900"),
    "task reassign": ("1", "--anew"),
    "task resume": ("1",),
    "task subscribe": ("1", "--to", "ann@example.org"),
    "task subscriptions": ("1",),
    "task unsubscribe": ("1", "--to", "ann@example.org"),
    "task retry": ("1",),
    "task try-now": ("1",),
}
"""Commands that read a database, with valid arguments."""

OTHERS = frozenset(
    {
        "api", "calibrate", "completion", "config doc", "db init", "db load", "db stop", "demo",
        "features announce-shutdown", "features publish", "features read", "features report", "features withdraw",
        "import cric", "import example", "import rucio", "import sites", "import workers", "init",
        "mcp", "job-status drain", "job-status rank", "job-status read", "job-status report", "job-status write",
        "notify list", "notify test",
        "pool check", "pool hash", "pool match", "rules", "serve", "simulate", "snapshot import", "sss import",
        "sss show", "sss validate", "submit", "task submit",
    }
)  # fmt: skip
"""Commands that need no database, create one, or read a file first."""


def leaves(command: Any = None, path: str = "") -> dict[str, list[str]]:
    """Every command with the names of its options."""
    click_command = typer.main.get_command(build_app()) if command is None else command
    inner = getattr(click_command, "commands", None)
    if inner is None:
        return {path: [name for parameter in click_command.params for name in parameter.opts]}
    return {
        name: names
        for key, subcommand in inner.items()
        for name, names in leaves(subcommand, f"{path} {key}".strip()).items()
    }


@pytest.fixture(scope="module")
def every_command() -> dict[str, list[str]]:
    return leaves()


@pytest.fixture
def command(broker_home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys)


def test_all_commands_are_classified_here(every_command: dict[str, list[str]]) -> None:
    assert set(every_command) == set(NEEDS_A_DATABASE) | OTHERS
    assert not set(NEEDS_A_DATABASE) & OTHERS


def test_wrong_usage_exits_with_2_and_is_an_object_in_json(
    every_command: dict[str, list[str]], command: Command
) -> None:
    for path, options in every_command.items():
        if path == "db psql":
            continue  # it takes the options of psql
        result = command(*path.split(), "--no-such-option")
        assert (result.status, result.out) == (WRONG_USAGE, ""), path
        if "--json" in options:
            result = command(*path.split(), "--no-such-option", "--json")
            assert result.status == WRONG_USAGE, path
            assert result.document["error"]["code"] == "wrong_use", path
            assert result.document["error"]["exit_status"] == WRONG_USAGE, path


@pytest.mark.parametrize("path", NEEDS_A_DATABASE)
def test_a_missing_database_is_reported_and_not_created(
    path: str, command: Command, broker_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network.json").write_text("{}")
    arguments = [*path.split(), *NEEDS_A_DATABASE[path]]
    result = command(*arguments)
    assert (result.status, result.out) == (NOT_FOUND, "")
    assert "there is no database yet" in result.err
    assert "broker db init" in result.err
    assert not broker_home.exists()
    if path != "db psql":
        error = command(*arguments, "--json").document["error"]
        assert (error["code"], error["what"]) == ("not_found", "there is no database yet")
        assert error["where"] == str(broker_home) and "--db" in error["what_to_do"]


@pytest.fixture
def on_database(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url)


def test_a_missing_object_exits_with_4(on_database: Command, database: Database) -> None:
    load_grid(database)
    cases: tuple[tuple[tuple[str, ...], str], ...] = (
        (("explain", "1"), "there is no task 1"),
        (("why-not", "1", "BNL"), "task 1"),
        (("story", "1"), "task 1"),
        (("history", "1"), "task 1"),
        (("queue", "show", "NOWHERE"), "there is no queue NOWHERE"),
        (("nucleus", "NOWHERE"), "NOWHERE"),
        (("user", "nobody"), "there is no user nobody"),
        (("replay", "77"), "no decision 77"),
        (("replay",), "no decision of the last 24h"),
        (("why-timeout", "1"), "no job 1"),
        (("rules", "production_jbo"), "did you mean production_job"),
        (("run", "production_jbo"), "did you mean production_job"),
        (("config", "get", "NQUEUED_SAT_CAPP"), "did you mean NQUEUED_SAT_CAP"),
        (("config", "diff", "98", "99"), "98"),
        (("config", "rollback", "99"), "99"),
        (("snapshot", "show", "nothing"), "no snapshot nothing"),
        (("snapshot", "show"), "no snapshot is stored"),
        (("pool", "show", "nothing"), "there is no pool nothing"),
        (("pool", "queues", "nothing"), "there is no pool nothing"),
        (("queue", "history", "NOWHERE"), "there is no queue NOWHERE"),
        (("queue", "unset", "NOWHERE", "status"), "there is no queue NOWHERE"),
        (("queue", "set", "NOWHERE", "status=offline", "--reason", "r", "--until", "8h"), "there is no queue NOWHERE"),
        (("match", "", "--queue", "NOWHERE"), "there is no queue NOWHERE"),
        (("what-if", "--set", "NQUEUED_SAT_CAP=5"), "no stored cycle"),
        (("what-if", "--set", "NQUEUED_SAT_CAP=5", "--snapshot", "nothing"), "no snapshot nothing"),
        (("what-if", "--rule", "no_such_rule=off"), "no_such_rule"),
        (("what-if", "--set", "NQUEUED_SAT_CAP=5", "--brokerage", "production_jbo"), "did you mean production_job"),
        (("sweep", "NQUEUED_SAT_CAPP=1:2:1"), "did you mean NQUEUED_SAT_CAP"),
        (("simulate", "--policy", "sed"), "did you mean seed?"),
    )
    for arguments, message in cases:
        result = on_database(*arguments)
        assert result.status == NOT_FOUND, (arguments, result)
        assert message in result.err, (arguments, result.err)
    result = on_database("run", "production_job", "--task", "1", "--dry-run", "--json")
    assert (result.status, result.document["reason"]) == (NOT_FOUND, "no_such_task")


def test_queues_are_found_in_any_case(on_database: Command, database: Database) -> None:
    load_grid(database)
    documents = [json.loads(line) for line in on_database("match", "", "--json").out.splitlines()]
    name = sorted(documents[0]["accepted"] + list(documents[0]["rejected"]))[0]
    assert name != name.swapcase()
    assert name in str(on_database("match", "", "--queue", name.swapcase(), "--json").document)
    result = on_database("match", "", "--queue", f"{name}x")
    assert result.status == NOT_FOUND
    assert name in result.err


def test_a_task_without_a_queue_exits_with_5(on_database: Command, database: Database) -> None:
    load_grid(database)
    decisions = [
        json.loads(line) for line in on_database("run", "production_job", "--dry-run", "--json").out.splitlines()
    ]
    by_outcome = {decision["outcome"]: decision["jeditaskid"] for decision in decisions}
    task = by_outcome["brokered"]
    assert on_database("run", "production_job", "--dry-run", "--task", str(task)).status == 0
    with database.begin() as connection:
        closed = "(data::jsonb || jsonb_build_object('status', 'offline'))::json"
        connection.exec_driver_sql(f"UPDATE doma_panda.schedconfig_json SET data = {closed}")
    result = on_database("run", "production_job", "--dry-run", "--task", str(task), "--json")
    assert result.status == NOT_PLACED
    assert {json.loads(line)["outcome"] for line in result.out.splitlines()} == {"pending"}
    # without --task it is an ordinary cycle
    assert on_database("run", "production_job", "--dry-run").status == 0


def _run_with_closed_pipe(*arguments: str) -> tuple[int, str]:
    """The exit status and stderr of a command whose stdout is closed after the first line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "broker.cli.entry", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    return process.wait(), errors


def test_a_closed_pipe_is_no_failure(tmp_path: Path) -> None:
    # more than a pipe holds, so that writing into it fails
    status, errors = _run_with_closed_pipe("config", "doc")
    assert (status, errors) == (0, "")


@pytest.mark.slow
def test_a_cycle_with_a_closed_pipe_is_recorded_as_done(database: Database) -> None:
    load_grid(database)
    status, errors = _run_with_closed_pipe("--db", database.url, "run", "production_job", "--json", "--seed", "1")
    assert status == 0 and "error" not in errors
    with database.begin() as connection:
        outcomes = connection.exec_driver_sql("SELECT outcome FROM broker.agent_runs").scalars().all()
    assert outcomes == ["done"]
    assert made_jobs(database) > 0


def test_the_nearest_names() -> None:
    known = ("production_job", "production_task", "analysis_job")
    assert nearest("PRODUCTION_JBO", known)[0] == "production_job"
    assert nearest("bnl", ("BNL", "BNL_HIMEM", "CERN"))[0] == "BNL"
    assert nearest("himem", ("BNL/MCORE_HIMEM", "CERN")) == ("BNL/MCORE_HIMEM",)
    assert nearest("zzz", known) == () == nearest("", ())
    assert did_you_mean("zzz", known, "see the list") == "see the list"


def test_the_reference_lists_all_statuses() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text(encoding="utf-8")
    for status, (name, meaning) in EXIT_STATUSES.items():
        assert f"| {status} | `{name}` | {meaning} |" in page
