"""This release upgrades and uses a database of the previous release while the previous release still serves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa

from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.matches import Match
from broker.store.connection.database import Database
from broker.store.connection.embedded_binaries import program
from broker.store.scenarios.scenario_file import write_scenario
from broker.store.schema import migrate
from broker.store.service import leases
from tests.fault.auditor import audit, baseline
from tests.fault.processes import AGENT, PATIENCE_S, broker, load_grid, made_jobs, scenario, wait_until
from tests.pilots.statements.test_job_match import add_jobs

pytestmark = pytest.mark.slow

#: The contents of the previous release's wheel, without the demo data; replaced at each release.
PREVIOUS_RELEASE = Path(__file__).with_name("release_before.tar.xz")
PRESENT = datetime.now(UTC).replace(microsecond=0)
FAST = f"""
agents:
  {AGENT}: {{period_s: 0.5, cycle_budget_s: 60}}
service: {{retry_first_s: 0.2, heartbeat_every_s: 1}}
"""


@pytest.fixture(scope="module")
def previous_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(PREVIOUS_RELEASE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(autouse=True)
def fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the agents of this test's services twice a second."""
    (tmp_path / "agents.yaml").write_text(FAST)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))


@contextmanager
def run_older(folder: Path, url: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command of the previous release as a process that ends with the block."""
    command = [sys.executable, "-m", "broker.cli.main", "--db", url, *words]
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def output_of_older(folder: Path, url: str, *words: str) -> str:
    with run_older(folder, url, *words) as process:
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    return out


def runs(database: Database, outcome: str, after: int = 0) -> list[tuple[int, str]]:
    """Return id and holder of cycles with this outcome that are newer than ``after``."""
    with database.begin() as connection:
        result = connection.execute(
            sa.text("SELECT id, holder FROM broker.agent_runs WHERE outcome = :outcome AND id > :after ORDER BY id"),
            {"outcome": outcome, "after": after},
        )
        return [(row.id, row.holder) for row in result]


def change(database: Database, statement: str) -> None:
    with database.begin() as connection:
        assert connection.execute(sa.text(statement)).rowcount > 0


PLACE = ("--site", "SITE", "--ce", "ce", "--queue", "QUEUE", "--vo", "lhcb")
PART = "UPDATE doma_panda.jedi_tasks SET status = '{}' WHERE status = '{}' AND jeditaskid % 2 = 0"


@pytest.mark.slow
def test_two_releases_run_side_by_side_without_harm(
    empty_database: Database, previous_release: Path, tmp_path: Path
) -> None:
    database = empty_database
    file = tmp_path / "grid.json.gz"
    write_scenario(file, scenario(PRESENT))
    output_of_older(previous_release, database.url, "db", "init")
    output_of_older(previous_release, database.url, "db", "load", str(file))
    change(database, PART.format("paused", "running"))
    before = baseline(database)
    with run_older(previous_release, database.url, "serve") as older_process:
        wait_until(lambda: bool(runs(database, "done")), "a cycle of the release before")
        older_jobs = made_jobs(database)
        assert older_jobs > 0
        applied = migrate.upgrade(database).applied
        assert applied, "the release before has the schema of this one: make its archive anew"
        change(database, PART.format("running", "paused"))
        last_run = max(number for number, _ in runs(database, "done"))
        wait_until(lambda: bool(runs(database, "refused", last_run)), "a cycle of the release before after the upgrade")
        assert older_process.poll() is None
        assert made_jobs(database) == older_jobs, "it writes nothing under a schema that it does not know"
        with broker(database.url, "serve") as newer_process:
            wait_until(lambda: services(database) == 2, "both serve")
            older_process.send_signal(signal.SIGTERM)
            assert older_process.wait(PATIENCE_S) == 0
            wait_until(lambda: made_jobs(database) > older_jobs, "jobs by this release")
            newer_process.send_signal(signal.SIGTERM)
            assert newer_process.wait(PATIENCE_S) == 0
    assert made_jobs(database) > older_jobs
    assert audit(database, before) == []


def services(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text("SELECT count(*) FROM broker.services")).scalar_one())


def test_waiting_jobs_in_task_queues_of_the_previous_release_stay_waiting(
    empty_database: Database, previous_release: Path
) -> None:
    database = empty_database
    output_of_older(previous_release, database.url, "db", "init")
    for first, kind in ((1, "simul"), (11, "evgen"), (21, "")):
        add_jobs(database, first, 10, processingtype=kind, prodsourcelabel="managed", computingsite="QUEUE")
    output_of_older(previous_release, database.url, "run", "activation")
    older_job = json.loads(output_of_older(previous_release, database.url, "match-job", *PLACE, "--json"))["pandaid"]
    migrate.upgrade(database)
    matched_jobs = [older_job, match_with_newer(database)]  # from the task queues as the previous release left them
    for _ in range(2):
        output_of_newer(database, "run", "activation")
        assert count_waiting_jobs(database) == 28
    matched_jobs += [match_with_newer(database) for _ in range(28)]
    assert sorted(matched_jobs) == list(range(1, 31)) and count_waiting_jobs(database) == 0
    types = "SELECT DISTINCT queue.job_type FROM broker.task_queues AS queue WHERE queue.job_type IS NOT NULL"
    with database.begin() as connection:
        assert sorted(connection.execute(sa.text(types)).scalars()) == ["evgen", "managed", "simul"]


def output_of_newer(database: Database, *words: str) -> str:
    with broker(database.url, *words) as process:
        out, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, errors
    return out


def match_with_newer(database: Database) -> int:
    with psycopg.connect(database.url, autocommit=True) as connection:
        matcher = Matcher(connection, database.names, np.random.default_rng(1))
        match = matcher.match(Pilot("SITE", "ce", "QUEUE", "lhcb"), datetime.now(UTC))
    assert isinstance(match, Match), match
    return match.pandaid


def count_waiting_jobs(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text("SELECT count(*) FROM broker.waiting_jobs")).scalar_one())


def test_a_restored_backup_is_the_way_back_to_a_release_before_1_0(
    empty_database: Database, make_database: Callable[..., Database], previous_release: Path, tmp_path: Path
) -> None:
    upgraded, restored = empty_database, make_database(migrated=False)
    grid, backup = tmp_path / "grid.json.gz", tmp_path / "backup"
    write_scenario(grid, scenario(PRESENT))
    output_of_older(previous_release, upgraded.url, "db", "init")
    output_of_older(previous_release, upgraded.url, "db", "load", str(grid))
    before = baseline(upgraded)
    output_of_older(previous_release, upgraded.url, "run", AGENT)
    job_count = made_jobs(upgraded)
    subprocess.run([program("pg_dump"), "--format=custom", f"--file={backup}", upgraded.url], check=True)
    assert migrate.upgrade(upgraded).applied
    with run_older(previous_release, upgraded.url, "run", AGENT) as process:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, "newer broker" in errors) == (3, True)
    subprocess.run([program("pg_restore"), "--no-owner", f"--dbname={restored.url}", str(backup)], check=True)
    assert made_jobs(restored) == job_count > 0
    output_of_older(previous_release, restored.url, "run", AGENT)
    assert "production_job" in output_of_older(previous_release, restored.url, "agents")
    assert made_jobs(restored) >= job_count
    assert migrate.upgrade(restored).applied
    assert audit(restored, before) == []


def test_the_previous_release_rejects_an_unknown_schema(database: Database, previous_release: Path) -> None:
    with run_older(previous_release, database.url, "agents") as process:
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, "")
    assert "newer broker" in errors


def test_a_service_yields_its_agents_to_a_newer_broker(database: Database) -> None:
    """From this release on, a newer broker need not wait until this one is stopped."""
    load_grid(database, PRESENT)
    with broker(database.url, "serve") as process:
        wait_until(lambda: bool(runs(database, "done")), "a cycle before the upgrade")
        with database.begin() as connection:
            connection.execute(sa.text("UPDATE broker.oldest_writer SET release = '99.0.0', version = 9999"))
        wait_until(lambda: not is_lease_held(database), "the lease is free")
        assert process.poll() is None


def is_lease_held(database: Database) -> bool:
    with database.begin() as connection:
        row = leases.find(connection, AGENT)
    return row is not None and row.expires_in_s > 0
