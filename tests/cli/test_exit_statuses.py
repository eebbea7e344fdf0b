"""Every command ends with one of six statuses, and each of them means one thing."""

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
"""Commands that read a database, with arguments that are good."""

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
"""Commands that need no database, make one, or read a file first."""


def leaves(command: Any = None, path: str = "") -> dict[str, list[str]]:
    """Every command with the names of its options."""
    found = typer.main.get_command(build_app()) if command is None else command
    inner = getattr(found, "commands", None)
    if inner is None:
        return {path: [name for one in found.params for name in one.opts]}
    return {name: names for key, one in inner.items() for name, names in leaves(one, f"{path} {key}".strip()).items()}


@pytest.fixture(scope="module")
def every_command() -> dict[str, list[str]]:
    return leaves()


@pytest.fixture
def command(broker_home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys)


def test_all_commands_are_sorted_here(every_command: dict[str, list[str]]) -> None:
    assert set(every_command) == set(NEEDS_A_DATABASE) | OTHERS
    assert not set(NEEDS_A_DATABASE) & OTHERS


def test_wrong_use_is_2_of_every_command_and_an_object_for_programs(
    every_command: dict[str, list[str]], command: Command
) -> None:
    for path, options in every_command.items():
        if path == "db psql":
            continue  # its options are those of psql
        done = command(*path.split(), "--no-such-option")
        assert (done.status, done.out) == (WRONG_USAGE, ""), path
        if "--json" in options:
            done = command(*path.split(), "--no-such-option", "--json")
            assert done.status == WRONG_USAGE, path
            assert done.document["error"]["code"] == "wrong_use", path
            assert done.document["error"]["exit_status"] == WRONG_USAGE, path


@pytest.mark.parametrize("path", NEEDS_A_DATABASE)
def test_without_a_database_none_is_made(
    path: str, command: Command, broker_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network.json").write_text("{}")
    arguments = [*path.split(), *NEEDS_A_DATABASE[path]]
    done = command(*arguments)
    assert (done.status, done.out) == (NOT_FOUND, "")
    assert "there is no database yet" in done.err
    assert "broker db init" in done.err
    assert not broker_home.exists()
    if path != "db psql":
        error = command(*arguments, "--json").document["error"]
        assert (error["code"], error["what"]) == ("not_found", "there is no database yet")
        assert error["where"] == str(broker_home) and "--db" in error["what_to_do"]


@pytest.fixture
def on_database(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys, "--db", database.url)


def test_what_is_not_there_is_4_whatever_it_is(on_database: Command, database: Database) -> None:
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
        (("run", "production_job", "--task", "1", "--dry-run"), ""),
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
    for arguments, told in cases:
        done = on_database(*arguments)
        assert done.status == NOT_FOUND, (arguments, done)
        assert told in done.err, (arguments, done.err)


def test_queues_are_found_whatever_the_case(on_database: Command, database: Database) -> None:
    load_grid(database)
    listed = [json.loads(line) for line in on_database("match", "", "--json").out.splitlines()]
    name = sorted(listed[0]["accepted"] + list(listed[0]["rejected"]))[0]
    assert name != name.swapcase()
    assert name in str(on_database("match", "", "--queue", name.swapcase(), "--json").document)
    done = on_database("match", "", "--queue", f"{name}x")
    assert done.status == NOT_FOUND
    assert name in done.err


def test_a_task_that_finds_no_queue_is_5(on_database: Command, database: Database) -> None:
    load_grid(database)
    decided = [
        json.loads(line) for line in on_database("run", "production_job", "--dry-run", "--json").out.splitlines()
    ]
    by_outcome = {one["outcome"]: one["jeditaskid"] for one in decided}
    placed = by_outcome["brokered"]
    assert on_database("run", "production_job", "--dry-run", "--task", str(placed)).status == 0
    with database.begin() as connection:
        closed = "(data::jsonb || jsonb_build_object('status', 'offline'))::json"
        connection.exec_driver_sql(f"UPDATE doma_panda.schedconfig_json SET data = {closed}")
    done = on_database("run", "production_job", "--dry-run", "--task", str(placed), "--json")
    assert done.status == NOT_PLACED
    assert {json.loads(line)["outcome"] for line in done.out.splitlines()} == {"pending"}
    # without --task it is a cycle like any other
    assert on_database("run", "production_job", "--dry-run").status == 0


def _piped(*arguments: str) -> tuple[int, str]:
    """The exit status of a command whose reader goes after the first line, and its stderr."""
    process = subprocess.Popen(
        [sys.executable, "-m", "broker.cli.entry", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    return process.wait(), told


def test_a_reader_that_goes_is_no_failure(tmp_path: Path) -> None:
    # more than a pipe holds, so that writing into it fails
    status, told = _piped("config", "doc")
    assert (status, told) == (0, "")


@pytest.mark.slow
def test_a_cycle_whose_reader_goes_is_recorded_as_done(database: Database) -> None:
    load_grid(database)
    status, told = _piped("--db", database.url, "run", "production_job", "--json", "--seed", "1")
    assert status == 0 and "error" not in told
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


def test_the_statuses_are_the_table_of_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text(encoding="utf-8")
    for status, (name, meaning) in EXIT_STATUSES.items():
        assert f"| {status} | `{name}` | {meaning} |" in page
