"""Two brokers each lead a part of one brokerage: one is killed, and the number of parts changes."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.domain.parts import division_of, led_by, number_of
from broker.store.connection.database import Database
from broker.store.service import leases
from tests.fault.auditor import audit, baseline
from tests.fault.processes import (
    AGENT,
    PATIENCE_S,
    broker,
    free_leases,
    load_grid,
    made_jobs,
    take_lease,
    wait_until,
)

pytestmark = pytest.mark.slow

DIVIDED = f"""
agents:
  {AGENT}: {{period_s: 0.5, cycle_budget_s: 60, parts: 2}}
service: {{retry_first_s: 0.2, heartbeat_every_s: 1}}
"""
# A service decides at the current time, so its grid must be current.
PRESENT = datetime.now(UTC).replace(microsecond=0)
NAMES = division_of(f"{AGENT}#1/2")
SHARES = ("Simulation", "Evgen", "Reprocessing", "Derivations")
"""Of each part two, so that whichever part a broker leads, it has something to do."""
assert [number_of(share, 2) for share in SHARES] == [1, 2, 1, 2]


@pytest.fixture
def grid(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The example grid with shares in both parts, half of each share's tasks held back; brokers run with two parts."""
    (tmp_path / "agents.yaml").write_text(DIVIDED)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    load_grid(database, PRESENT)
    with database.begin() as connection:
        tasks = list(connection.execute(sa.text("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1")).scalars())
        for number, task in enumerate(tasks):
            query = "UPDATE doma_panda.jedi_tasks SET gshare = :share, workqueue_id = NULL, status = :status"
            status = "held back" if number % 8 >= 4 else "running"
            values = {"share": SHARES[number % 4], "status": status, "task": task}
            connection.execute(sa.text(f"{query} WHERE jeditaskid = :task"), values)
    return database


def holders(database: Database) -> dict[str, int]:
    """Return the process that holds each lease in force."""
    with database.begin() as connection:
        return {row.name: int(row.holder.split(":")[1]) for row in leases.holders_of(connection, AGENT)}


def query_rows(database: Database, query: str) -> list[tuple[object, ...]]:
    with database.begin() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def undecided_tasks(database: Database) -> list[tuple[object, ...]]:
    return query_rows(
        database,
        "SELECT jeditaskid FROM doma_panda.jedi_tasks WHERE jeditaskid NOT IN"
        " (SELECT jeditaskid FROM broker.stored_decisions) ORDER BY 1",
    )


def expire_traces_of(database: Database, process: int) -> None:
    """Expire the leases and the heartbeat of a killed broker."""
    host = f"'%:{process}:%'"
    with database.begin() as connection:
        connection.execute(sa.text(f"UPDATE broker.leases SET expires_at = clock_timestamp() WHERE holder LIKE {host}"))
        connection.execute(
            sa.text(f"UPDATE broker.services SET seen_at = seen_at - interval '1 minute' WHERE holder LIKE {host}")
        )


def decisions_outside_their_part(database: Database) -> list[tuple[object, ...]]:
    """Return decisions about tasks outside the part whose lease the cycle held."""
    rows = query_rows(
        database,
        "SELECT d.jeditaskid, t.gshare, r.part FROM broker.stored_decisions AS d JOIN broker.agent_runs AS r"
        " ON r.id = d.agent_run JOIN doma_panda.jedi_tasks AS t USING (jeditaskid)",
    )
    assert rows
    return [row for row in rows if not led_by(f"{AGENT}#{row[2]}")[1].takes(str(row[1]))]


def test_the_part_of_a_broker_killed_during_its_cycle_is_taken_over(grid: Database, tmp_path: Path) -> None:
    before = baseline(grid)
    with broker(grid.url, "serve") as survivor:
        wait_until(lambda: holders(grid) == dict.fromkeys(NAMES, survivor.pid), "one broker leads both parts")
        fault = f"before_write:pause:{tmp_path / 'never'}"
        with broker(grid.url, "serve", fault=fault, markers=tmp_path) as victim:
            both_brokers = {survivor.pid, victim.pid}
            wait_until(lambda: set(holders(grid).values()) == both_brokers, "a part is handed over")
            grid_tasks = "UPDATE doma_panda.jedi_tasks SET status = 'running' WHERE status = 'held back'"
            with grid.begin() as connection:
                connection.execute(sa.text(grid_tasks))
            wait_until((tmp_path / "before_write").exists, "the other broker is about to write")
            victim.kill()
            victim.wait(PATIENCE_S)
        assert undecided_tasks(grid)
        expire_traces_of(grid, victim.pid)
        wait_until(lambda: holders(grid) == dict.fromkeys(NAMES, survivor.pid), "the part is taken over")
        wait_until(lambda: not undecided_tasks(grid), "every task is decided")
        survivor.send_signal(signal.SIGTERM)
        survivor.wait(PATIENCE_S)
    assert made_jobs(grid) > 0
    assert audit(grid, before) == []
    assert decisions_outside_their_part(grid) == []


def test_a_part_paused_past_its_lease_writes_nothing_alongside_another_division(grid: Database, tmp_path: Path) -> None:
    before = baseline(grid)
    fault = "after_write_before_commit:stop"
    with broker(grid.url, "serve", "--once", fault=fault, markers=tmp_path) as process:
        wait_until((tmp_path / "after_write_before_commit").exists, "the fault point was reached")
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        free_leases(grid)
        take_lease(grid)
        with grid.begin() as connection:  # long enough for a busy machine
            longer = "UPDATE broker.leases SET expires_at = expires_at + interval '40 s' WHERE name = :name"
            connection.execute(sa.text(longer), {"name": AGENT})
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 3, errors
    # the server may have ended the transaction before the broker saw that its lease was lost
    ((part, outcome),) = query_rows(grid, "SELECT part, outcome FROM broker.agent_runs")
    assert (part, outcome in ("lost_lease", "failed_transient")) == ("1/2", True)
    assert "2/2: not the leader" in errors
    assert made_jobs(grid) == 0
    assert audit(grid, before) == []
