"""``broker serve`` as a real process: it stops, dies, takes over and survives a restart of the database."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from agents.service.leadership import LeaseKeeper
from broker.store.connection.database import Database
from broker.store.connection.embedded import SUPERUSER, EmbeddedServer
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.schema.migrate import upgrade
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms
from tests.fault.auditor import audit, baseline
from tests.fault.processes import AGENT, PATIENCE_S, broker, load_grid, made_jobs, wait_until

pytestmark = pytest.mark.slow

FAST = f"""
agents:
  {AGENT}: {{period_s: 0.5, cycle_budget_s: 60}}
service: {{retry_first_s: 0.2, heartbeat_every_s: 1}}
"""


@pytest.fixture
def fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the agents of this test's services twice a second."""
    (tmp_path / "agents.yaml").write_text(FAST)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))


# A service decides at the current time, so its grid must be current.
PRESENT = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def grid(database: Database) -> Database:
    load_grid(database, PRESENT)
    return database


def holder(database: Database) -> str | None:
    with database.begin() as connection:
        row = leases.find(connection, AGENT)
    return row.holder if row is not None and row.expires_in_s > 0 else None


def runs(database: Database, outcome: str = "done") -> int:
    with database.begin() as connection:
        result = connection.execute(
            sa.text("SELECT count(*) FROM broker.agent_runs WHERE outcome = :outcome"), {"outcome": outcome}
        )
        return int(result.scalar_one())


def test_a_stopped_service_ends_in_time_and_hands_over_at_once(grid: Database) -> None:
    standby = LeaseKeeper(grid, "standby", LeaseTerms())
    with broker(grid.url, "serve") as process:
        wait_until(lambda: runs(grid) > 0, "the first cycle")
        standby.want(AGENT)
        standby.start()
        started_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert time.monotonic() - started_s < 10
        wait_until(lambda: standby.lease(AGENT) is not None, "the standby took over", 2.0)
    standby.stop()
    with grid.begin() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM broker.services")).scalar_one() == 0


@pytest.mark.slow
@pytest.mark.usefixtures("fast")
def test_a_stop_takes_less_than_ten_seconds_with_a_hanging_thread(grid: Database, tmp_path: Path) -> None:
    fault = f"after_snapshot:pause:{tmp_path / 'never'}"
    with broker(grid.url, "serve", fault=fault, markers=tmp_path) as process:
        wait_until((tmp_path / "after_snapshot").exists, "the cycle hangs")
        started_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - started_s < 10
        assert process.returncode == 1
    assert f'"left_behind": ["{AGENT}"]' in log
    assert holder(grid) is None
    assert made_jobs(grid) == 0


def test_a_second_signal_ends_a_service_at_once(grid: Database, tmp_path: Path) -> None:
    fault = f"after_snapshot:pause:{tmp_path / 'never'}"
    with broker(grid.url, "serve", fault=fault, markers=tmp_path) as process:
        wait_until((tmp_path / "after_snapshot").exists, "the cycle hangs")
        process.send_signal(signal.SIGTERM)
        with grid.begin() as connection:
            connection.execute(sa.text("SELECT pg_sleep(0.2)"))
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_standby_takes_over_within_twenty_seconds_of_a_kill(grid: Database) -> None:
    before = baseline(grid)
    standby = LeaseKeeper(grid, "standby", LeaseTerms())
    with broker(grid.url, "serve") as process:
        wait_until(lambda: runs(grid) > 0, "the first cycle")
        first = holder(grid)
        assert first is not None
        assert f":{process.pid}:" in first
        standby.want(AGENT)
        standby.start()
        killed_s = time.monotonic()
        process.kill()
        wait_until(lambda: standby.lease(AGENT) is not None, "the standby took over", 20.0)
        assert time.monotonic() - killed_s < 20
    standby.stop()
    assert audit(grid, before) == []


@pytest.mark.slow
@pytest.mark.usefixtures("fast")
def test_two_services_share_the_work_without_assigning_anything_twice(grid: Database) -> None:
    before = baseline(grid)
    with broker(grid.url, "serve") as first, broker(grid.url, "serve") as second:
        wait_until(lambda: runs(grid) > 2, "some cycles")
        leader_holder = holder(grid)
        assert leader_holder is not None
        leader, standby = (first, second) if f":{first.pid}:" in leader_holder else (second, first)
        leader.send_signal(signal.SIGTERM)
        wait_until(lambda: f":{standby.pid}:" in (holder(grid) or ""), "the other service leads")
        runs_before = runs(grid)
        wait_until(lambda: runs(grid) > runs_before, "a cycle of the other service")
        assert leader.wait(PATIENCE_S) == 0
        standby.send_signal(signal.SIGTERM)
        assert standby.wait(PATIENCE_S) == 0
    assert made_jobs(grid) > 0
    assert audit(grid, before) == []


@pytest.mark.slow
@pytest.mark.usefixtures("fast")
def test_a_service_survives_an_immediate_stop_of_the_database(own_server: EmbeddedServer, tmp_path: Path) -> None:
    go = tmp_path / "go"
    fault = f"after_write_before_commit:pause:{go}"
    with Database(own_server.url(SUPERUSER)) as database:
        upgrade(database)
        load_grid(database, PRESENT)
        before = baseline(database)
        with broker(database.url, "serve", fault=fault, markers=tmp_path) as process:
            wait_until((tmp_path / "after_write_before_commit").exists, "the service is writing")
            postmaster = int((own_server.pgdata / "postmaster.pid").read_text().split()[0])
            os.kill(postmaster, signal.SIGQUIT)
            go.touch()
            own_server.start()
            wait_until(lambda: _is_available(database) and runs(database) > 0, "a cycle after the restart")
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0
        assert made_jobs(database) > 0
        assert audit(database, before) == []
        assert len(log.splitlines()) < 60
        assert "failed_transient" in log


def _is_available(database: Database) -> bool:
    try:
        with database.begin() as connection:
            return bool(connection.execute(sa.text("SELECT true")).scalar())
    except TRANSIENT_ERRORS:
        return False
