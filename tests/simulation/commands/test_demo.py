"""``broker demo`` as a process: what a new user sees, and what it leaves alone."""

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
    """Runs ``broker`` with words; its home is fresh and nothing names a database."""

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
    """The home that the demonstration makes for itself, with its server kept up between the commands."""
    home = broker_home / "demo"
    server = EmbeddedServer(home, {"fsync": "off"})
    server.start()
    yield home
    server.stop()


def _message(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    told: dict[str, Any] = json.loads(line)
    return told


@pytest.mark.slow
def test_the_same_seed_gives_the_same_jobs_and_what_it_proposes_works(broker: Run, demo_home: Path) -> None:
    told = _message(broker("demo", "--quick", "--json"))
    assert told["demo"]["sites"] >= 40
    assert told["jobs"] >= 1800
    assert told["funnel"][-1]["left"] == told["candidates"] - sum(line["removed"] for line in told["funnel"])
    assert told["waiting"]
    assert sum(given["nucleus"] is not None and given["jobs"] > 0 for given in told["nuclei"]) >= 3
    assert "no_complete_replica" in {given["reason"] for given in told["nuclei"]}
    assert told["explained"]["answers"]
    (throttled,) = [task for task in told["user_tasks"] if task["outcome"] == "throttled"]
    assert (throttled["condition"], throttled["cap"]) == ("running_jobs", 150)
    assert throttled["figure"] > 150
    (pending,) = [task for task in told["user_tasks"] if task["outcome"] == "pending"]
    assert "lowmemory" in dict(pending["codes"])
    assert sum(task["jobs"] > 0 for task in told["user_tasks"]) == len(told["user_tasks"]) - 2 == 18

    export, *commands = told["next"]
    assert export == f"export BROKER_HOME={demo_home}"
    for command in commands:
        name, *words = shlex.split(command)
        done = broker(*words, BROKER_HOME=str(demo_home))
        assert (name, done.returncode) == ("broker", 0), f"{command}: {done.stderr}"
        assert done.stdout
    # who goes on with `broker serve` sees the grid at work: none of its jobs is lost or waits for too long
    looked = broker("timeouts", "--json", BROKER_HOME=str(demo_home))
    assert (looked.returncode, looked.stdout) == (0, "")

    again = _message(broker("demo", "--quick", "--json"))
    assert [again[key] for key in ("nuclei", "jobs", "queues", "funnel", "waiting", "user_tasks")] == [
        told[key] for key in ("nuclei", "jobs", "queues", "funnel", "waiting", "user_tasks")
    ]


@pytest.mark.slow
def test_people_see_tables_on_a_given_database_and_its_rows_are_safe(broker: Run, database: Database) -> None:
    done = broker("demo", "--quick", "--db", database.url)
    assert done.returncode == 0, done.stderr
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
        assert text in done.stdout
    assert "Brokering" in done.stderr
    with database.begin() as connection:
        jobs = sa.text(f"SELECT count(*) FROM {database.names.table('jobsdefined4')} WHERE jobstatus = 'defined'")
        assert (connection.scalar(jobs) or 0) >= 1800

    refused = broker("demo", "--quick", "--db", database.url)
    assert refused.returncode == 3
    assert "hold rows already" in refused.stderr
