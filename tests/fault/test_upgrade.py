"""A database of the release before is upgraded and used by this one while the other still serves."""

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

#: What the wheel of the release before holds, without the data of the demo: made anew at each release.
RELEASE_BEFORE = Path(__file__).with_name("release_before.tar.xz")
PRESENT = datetime.now(UTC).replace(microsecond=0)
FAST = f"""
agents:
  {AGENT}: {{period_s: 0.5, cycle_budget_s: 60}}
service: {{retry_first_s: 0.2, heartbeat_every_s: 1}}
"""


@pytest.fixture(scope="module")
def release_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(RELEASE_BEFORE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(autouse=True)
def fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Services of this test run their agents twice a second."""
    (tmp_path / "agents.yaml").write_text(FAST)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))


@contextmanager
def older(folder: Path, url: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command of the release before as a process; it does not outlive the block."""
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


def done_by_older(folder: Path, url: str, *words: str) -> str:
    with older(folder, url, *words) as process:
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    return out


def runs(database: Database, outcome: str, after: int = 0) -> list[tuple[int, str]]:
    """Cycles with this outcome, newer than one: id and holder."""
    with database.begin() as connection:
        found = connection.execute(
            sa.text("SELECT id, holder FROM broker.agent_runs WHERE outcome = :outcome AND id > :after ORDER BY id"),
            {"outcome": outcome, "after": after},
        )
        return [(row.id, row.holder) for row in found]


def change(database: Database, statement: str) -> None:
    with database.begin() as connection:
        assert connection.execute(sa.text(statement)).rowcount > 0


PLACE = ("--site", "SITE", "--ce", "ce", "--queue", "QUEUE", "--vo", "lhcb")
PART = "UPDATE doma_panda.jedi_tasks SET status = '{}' WHERE status = '{}' AND jeditaskid % 2 = 0"


@pytest.mark.slow
def test_two_releases_side_by_side_do_one_another_no_harm(
    empty_database: Database, release_before: Path, tmp_path: Path
) -> None:
    database = empty_database
    file = tmp_path / "grid.json.gz"
    write_scenario(file, scenario(PRESENT))
    done_by_older(release_before, database.url, "db", "init")
    done_by_older(release_before, database.url, "db", "load", str(file))
    change(database, PART.format("paused", "running"))
    before = baseline(database)
    with older(release_before, database.url, "serve") as serving:
        wait_until(lambda: bool(runs(database, "done")), "a cycle of the release before")
        by_older = made_jobs(database)
        assert by_older > 0
        applied = migrate.upgrade(database).applied
        assert applied, "the release before has the schema of this one: make its archive anew"
        change(database, PART.format("running", "paused"))
        last = max(number for number, _ in runs(database, "done"))
        wait_until(lambda: bool(runs(database, "refused", last)), "a cycle of the release before after the upgrade")
        assert serving.poll() is None
        assert made_jobs(database) == by_older, "it writes nothing under a schema that it does not know"
        with broker(database.url, "serve") as newer:
            wait_until(lambda: services(database) == 2, "both serve")
            serving.send_signal(signal.SIGTERM)
            assert serving.wait(PATIENCE_S) == 0
            wait_until(lambda: made_jobs(database) > by_older, "jobs by this release")
            newer.send_signal(signal.SIGTERM)
            assert newer.wait(PATIENCE_S) == 0
    assert made_jobs(database) > by_older
    assert audit(database, before) == []


def services(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text("SELECT count(*) FROM broker.services")).scalar_one())


def test_jobs_that_wait_in_task_queues_of_the_release_before_go_on_waiting(
    empty_database: Database, release_before: Path
) -> None:
    database = empty_database
    done_by_older(release_before, database.url, "db", "init")
    for first, kind in ((1, "simul"), (11, "evgen"), (21, "")):
        add_jobs(database, first, 10, processingtype=kind, prodsourcelabel="managed", computingsite="QUEUE")
    done_by_older(release_before, database.url, "run", "activation")
    older_job = json.loads(done_by_older(release_before, database.url, "match-job", *PLACE, "--json"))["pandaid"]
    migrate.upgrade(database)
    taken = [older_job, given_by_newer(database)]  # of the task queues as the other left them
    for _ in range(2):
        done_by_newer(database, "run", "activation")
        assert waiting(database) == 28
    taken += [given_by_newer(database) for _ in range(28)]
    assert sorted(taken) == list(range(1, 31)) and waiting(database) == 0
    types = "SELECT DISTINCT queue.job_type FROM broker.task_queues AS queue WHERE queue.job_type IS NOT NULL"
    with database.begin() as connection:
        assert sorted(connection.execute(sa.text(types)).scalars()) == ["evgen", "managed", "simul"]


def done_by_newer(database: Database, *words: str) -> str:
    with broker(database.url, *words) as process:
        out, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, errors
    return out


def given_by_newer(database: Database) -> int:
    with psycopg.connect(database.url, autocommit=True) as connection:
        matcher = Matcher(connection, database.names, np.random.default_rng(1))
        found = matcher.match(Pilot("SITE", "ce", "QUEUE", "lhcb"), datetime.now(UTC))
    assert isinstance(found, Match), found
    return found.pandaid


def waiting(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text("SELECT count(*) FROM broker.waiting_jobs")).scalar_one())


def test_the_way_back_to_a_release_before_1_0_is_a_restored_backup(
    empty_database: Database, make_database: Callable[..., Database], release_before: Path, tmp_path: Path
) -> None:
    upgraded, restored = empty_database, make_database(migrated=False)
    grid, backup = tmp_path / "grid.json.gz", tmp_path / "backup"
    write_scenario(grid, scenario(PRESENT))
    done_by_older(release_before, upgraded.url, "db", "init")
    done_by_older(release_before, upgraded.url, "db", "load", str(grid))
    before = baseline(upgraded)
    done_by_older(release_before, upgraded.url, "run", AGENT)
    made = made_jobs(upgraded)
    subprocess.run([program("pg_dump"), "--format=custom", f"--file={backup}", upgraded.url], check=True)
    assert migrate.upgrade(upgraded).applied
    with older(release_before, upgraded.url, "run", AGENT) as process:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, "newer broker" in errors) == (3, True)
    subprocess.run([program("pg_restore"), "--no-owner", f"--dbname={restored.url}", str(backup)], check=True)
    assert made_jobs(restored) == made > 0
    done_by_older(release_before, restored.url, "run", AGENT)
    assert "production_job" in done_by_older(release_before, restored.url, "agents")
    assert made_jobs(restored) >= made
    assert migrate.upgrade(restored).applied
    assert audit(restored, before) == []


def test_the_release_before_refuses_a_schema_that_it_does_not_know(database: Database, release_before: Path) -> None:
    with older(release_before, database.url, "agents") as process:
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, "")
    assert "newer broker" in errors


def test_a_service_leaves_its_agents_to_a_newer_broker(database: Database) -> None:
    """From this release on a newer one need not wait until this one is stopped."""
    load_grid(database, PRESENT)
    with broker(database.url, "serve") as process:
        wait_until(lambda: bool(runs(database, "done")), "a cycle before the upgrade")
        with database.begin() as connection:
            connection.execute(sa.text("UPDATE broker.oldest_writer SET release = '99.0.0', version = 9999"))
        wait_until(lambda: not held(database), "the lease is free")
        assert process.poll() is None


def held(database: Database) -> bool:
    with database.begin() as connection:
        row = leases.find(connection, AGENT)
    return row is not None and row.expires_in_s > 0
