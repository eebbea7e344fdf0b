"""``broker demo`` as a process: its output for a new user, and the rows that it leaves alone."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer

ROOT = Path(__file__).parents[3]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def broker(broker_home: Path) -> Run:
    """Run ``broker`` with arguments, in a fresh home and without a configured database."""

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "broker.cli.main", *words],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "BROKER_HOME": str(broker_home), **variables},
            timeout=120,
        )

    return run


@pytest.fixture
def demo_home(broker_home: Path) -> Iterator[Path]:
    """The home that the demonstration creates, with its server running across the commands."""
    home = broker_home / "demo"
    server = EmbeddedServer(home, {"fsync": "off"})
    server.start()
    yield home
    server.stop()


def _message(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert (result.returncode, result.stderr) == (0, "")
    (line,) = result.stdout.splitlines()
    message: dict[str, Any] = json.loads(line)
    return message


@pytest.mark.slow
def test_the_same_seed_gives_the_same_jobs_and_the_proposed_commands_work(broker: Run, demo_home: Path) -> None:
    report = _message(broker("demo", "--quick", "--json"))
    assert report["demo"]["sites"] >= 40
    assert report["jobs"] >= 1800
    assert report["funnel"][-1]["left"] == report["candidates"] - sum(line["removed"] for line in report["funnel"])
    assert report["waiting"]
    assert sum(assignment["nucleus"] is not None and assignment["jobs"] > 0 for assignment in report["nuclei"]) >= 3
    assert "no_complete_replica" in {assignment["reason"] for assignment in report["nuclei"]}
    assert report["explained"]["answers"]
    (throttled,) = [task for task in report["user_tasks"] if task["outcome"] == "throttled"]
    assert (throttled["condition"], throttled["cap"]) == ("running_jobs", 150)
    assert throttled["figure"] > 150
    (pending,) = [task for task in report["user_tasks"] if task["outcome"] == "pending"]
    assert "lowmemory" in dict(pending["codes"])
    assert sum(task["jobs"] > 0 for task in report["user_tasks"]) == len(report["user_tasks"]) - 2 == 18

    export, *commands = report["next"]
    assert export == f"export BROKER_HOME={demo_home}"
    for command in commands:
        name, *words = shlex.split(command)
        result = broker(*words, BROKER_HOME=str(demo_home))
        assert (name, result.returncode) == ("broker", 0), f"{command}: {result.stderr}"
        assert result.stdout
    # a later `broker serve` finds the grid at work: no job is lost or waits too long
    timeouts = broker("timeouts", "--json", BROKER_HOME=str(demo_home))
    assert (timeouts.returncode, timeouts.stdout) == (0, "")

    again = _message(broker("demo", "--quick", "--json"))
    assert [again[key] for key in ("nuclei", "jobs", "queues", "funnel", "waiting", "user_tasks")] == [
        report[key] for key in ("nuclei", "jobs", "queues", "funnel", "waiting", "user_tasks")
    ]


@pytest.mark.slow
def test_tables_are_shown_on_a_given_database_and_its_rows_are_safe(broker: Run, database: Database) -> None:
    result = broker("demo", "--quick", "--db", database.url)
    assert result.returncode == 0, result.stderr
    for text in (
        "waited for a nucleus",
        "Assignments",
        "Filter summary over all tasks",
        "Tasks that found no queue",
        "Tasks of users",
        "cap 150",
        "Why task",
        "Try next",
    ):
        assert text in result.stdout
    assert "Brokering" in result.stderr
    with database.begin() as connection:
        jobs = sa.text(f"SELECT count(*) FROM {database.names.table('jobsdefined4')} WHERE jobstatus = 'defined'")
        assert (connection.scalar(jobs) or 0) >= 1800

    second = broker("demo", "--quick", "--db", database.url)
    assert second.returncode == 3
    assert "hold rows already" in second.stderr
