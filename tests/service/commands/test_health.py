"""The health check as a container runs it: a separate, quick process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from broker.service.commands import health
from broker.store.connection.database import Database
from broker.store.service import services
from broker.store.service.health import Problem

SLOW = ("typer", "sqlalchemy", "numpy", "pydantic", "apscheduler", "rich", "yaml")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys, atexit; from broker.cli import entry; "
        f"atexit.register(lambda: print([name for name in {SLOW!r} if name in sys.modules])); "
        "entry.main(sys.argv[1:])"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.slow
def test_a_check_by_address_needs_none_of_the_slow_packages(database: Database) -> None:
    result = run("--db", database.url, "agents", "--health")
    assert (result.returncode, result.stdout) == (1, "[]\n")
    assert result.stderr == f"not healthy: no service has said that it runs on {socket.gethostname()}\n"
    with database.begin() as connection:
        services.beat(connection, "one", socket.gethostname(), "1", [], {"overdue": ["cleanup"]})
    result = run("agents", "--health", BROKER_DATABASE_URL=database.url)
    assert (result.returncode, result.stdout, result.stderr) == (
        1,
        "[]\n",
        "not healthy: a cycle of cleanup is overdue\n",
    )
    with database.begin() as connection:
        services.beat(connection, "one", socket.gethostname(), "1", [])
    result = run("agents", "--health", BROKER_DATABASE_URL=database.url)
    assert (result.returncode, result.stdout, result.stderr) == (0, "[]\n", "")


def test_an_unreachable_database_is_reported_without_its_password() -> None:
    result = run("agents", "--health", BROKER_DATABASE_URL="postgresql://me:secret@localhost:1/nothing")
    assert (result.returncode, result.stdout) == (1, "[]\n")
    assert result.stderr.startswith("not healthy: the database does not answer")
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "url"),
    [
        (["agents", "--health"], {"BROKER_DATABASE_URL": "postgresql://a"}, "postgresql://a"),
        (["--db", "postgresql://b", "agents", "--health"], {"BROKER_DATABASE_URL": "postgresql://a"}, "postgresql://b"),
        (["agents", "--health"], {}, None),
        (["agents", "--health", "--json"], {"BROKER_DATABASE_URL": "postgresql://a"}, None),
        (["agents"], {"BROKER_DATABASE_URL": "postgresql://a"}, None),
        (["--db"], {"BROKER_DATABASE_URL": "postgresql://a"}, None),
    ],
)
def test_other_arguments_are_left_to_the_command(
    arguments: list[str], environment: dict[str, str], url: str | None
) -> None:
    assert health.requested_database(arguments, environment) == url


@pytest.mark.slow
def test_the_password_is_read_from_a_file_and_a_missing_file_is_left_to_the_command(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@ss\n", encoding="utf-8")
    variables = {"BROKER_DATABASE_URL": "postgresql://me@a/b", "BROKER_DATABASE_PASSWORD_FILE": str(file)}
    assert health.requested_database(["agents", "--health"], variables) == "postgresql://me:p%40ss@a/b"
    file.unlink()
    assert health.requested_database(["agents", "--health"], variables) is None
    result = run("agents", "--health", **variables)
    assert result.returncode != 0
    assert f"BROKER_DATABASE_PASSWORD_FILE={file}" in result.stderr


def test_the_embedded_database_is_checked_without_being_started() -> None:
    url = health.requested_database(["agents", "--health"], {"BROKER_HOME": "/nowhere/home"})
    assert url is not None
    assert "%2F" not in url
    assert "/nowhere/home" in url
    assert health.check(url) == 1


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (Problem("no_service"), "no service has said that it runs on here"),
        (Problem("heartbeat_old", None, 31.4, 30.0), "the last heartbeat is 31 s old (limit 30 s)"),
        (Problem("cycle_overdue", "cleanup"), "a cycle of cleanup is overdue"),
        (Problem("agent_failing", "cleanup", 4), "the last 4 cycles of cleanup failed"),
        (Problem("no_leader", "cleanup", 61.0, 30.0), "nobody has led cleanup for 61 s (limit 30 s)"),
    ],
)
def test_every_problem_is_a_sentence(problem: Problem, sentence: str) -> None:
    assert health.shown(problem, "here") == sentence
