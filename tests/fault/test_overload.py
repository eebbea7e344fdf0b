"""A machine gives the broker a third of the time it needs: cycles slow down, and no lease is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from agents.service import registry
from agents.service.configuration import load
from broker import resources
from broker.store.connection.database import Database
from tests.fault.auditor import audit, baseline
from tests.fault.processes import PATIENCE_S, broker, load_grid, wait_until
from tests.fault.test_services import runs

SHIPPED = load(resources.path("config/agents.yaml"), registry.NAMES).agents
AGENTS = [name for name, section in SHIPPED.items() if section.enabled]
STOPPED_S, RUNNING_S = 0.2, 0.1
FOR_S = 30.0
"""Twice a lease: whoever misses its renewals loses it in this time."""
PRESENT = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def grid(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """The example grid, and a service whose agents all run continuously."""
    agents = "".join(f"  {name}: {{period_s: 1, cycle_budget_s: 120}}\n" for name in AGENTS)
    (tmp_path / "agents.yaml").write_text(f"agents:\n{agents}")
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    load_grid(database, PRESENT)
    return database


@contextlib.contextmanager
def overloaded(pid: int) -> Iterator[list[int]]:
    """Keep the process stopped two thirds of the time until the block ends; yield the list of stops."""
    stops: list[int] = []
    ending = threading.Event()

    def take_turns() -> None:
        while not ending.is_set():
            os.kill(pid, signal.SIGSTOP)
            stops.append(pid)
            ending.wait(STOPPED_S)
            os.kill(pid, signal.SIGCONT)
            ending.wait(RUNNING_S)

    thread = threading.Thread(target=take_turns)
    thread.start()
    try:
        yield stops
    finally:
        ending.set()
        thread.join()
        os.kill(pid, signal.SIGCONT)


def epochs(database: Database) -> dict[str, int]:
    with database.begin() as connection:
        return {name: epoch for name, epoch in connection.execute(sa.text("SELECT name, epoch FROM broker.leases"))}


def last_statements_of(database: Database, application_name: str) -> str:
    """Return the last lease statements of connections with this application name, except the cycles' fences."""
    statement = (
        "SELECT coalesce(string_agg(query, ' '), '') FROM pg_stat_activity "
        "WHERE application_name = :name AND datname = current_database() AND query LIKE '%renewed_at%'"
    )
    with database.begin() as connection:
        return str(connection.execute(sa.text(statement), {"name": application_name}).scalar_one())


@pytest.mark.slow
def test_no_lease_is_lost_while_the_process_is_stopped_two_thirds_of_the_time(grid: Database) -> None:
    before = baseline(grid)
    with broker(grid.url, "serve") as process:
        wait_until(lambda: len(epochs(grid)) == len(AGENTS), "all agents are led")
        wait_until(lambda: runs(grid) >= len(AGENTS), "the first cycles")
        initial_epochs, initial_runs = epochs(grid), runs(grid)
        with overloaded(process.pid) as stops:
            deadline = time.monotonic() + FOR_S
            wait_until(lambda: time.monotonic() > deadline, "the time has passed", FOR_S + 10)
            assert epochs(grid) == initial_epochs
            wait_until(
                lambda: "broker.leases" in last_statements_of(grid, "gridbroker leases"), "a renewal, not by the cycles"
            )
            assert "broker.leases" not in last_statements_of(grid, "gridbroker")
        assert len(stops) > 0.5 * FOR_S / (STOPPED_S + RUNNING_S)
        assert runs(grid) > initial_runs
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE_S)
    assert "lease lost" not in log
    assert "no longer trusted" not in log
    assert audit(grid, before) == []
