"""``broker serve`` on a host whose clock is set forward and back while the clock of the database is right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.fault.processes import broker, load_grid, on_clock, wait_until

pytestmark = pytest.mark.slow

UNAFFECTED_AGENTS = ("production_job", "activation")
REMOVING_AGENT = "timeouts"
CONFIG = """
agents:
  production_job: {period_s: 2, cycle_budget_s: 60}
  activation: {period_s: 2, cycle_budget_s: 60}
  timeouts: {period_s: 2, cycle_budget_s: 60}
service: {heartbeat_every_s: 1}
"""
GOES_ON_WITHIN_S = 60.0
"""Far more than two periods, for a busy machine; the shortest jump is an hour."""


@pytest.fixture
def set_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Set the clock of processes started after this fixture by an offset from the machine's clock."""
    file = tmp_path / "clock"
    file.write_text("+0\n")
    (tmp_path / "agents.yaml").write_text(CONFIG)
    for name, value in {"BROKER_CONFIG": str(tmp_path), **on_clock(file)}.items():
        monkeypatch.setenv(name, value)

    def set_by(offset: str) -> None:
        file.write_text(f"{offset}\n")

    return set_by


def last_run(database: Database, agent: str, outcome: str) -> int:
    statement = "SELECT coalesce(max(id), 0) FROM broker.agent_runs WHERE agent = :agent AND outcome = :outcome"
    with database.begin() as connection:
        return int(connection.execute(sa.text(statement), {"agent": agent, "outcome": outcome}).scalar_one())


def last_heartbeat(database: Database) -> datetime | None:
    with database.begin() as connection:
        seen_at: datetime | None = connection.execute(sa.text("SELECT max(seen_at) FROM broker.services")).scalar()
    return seen_at


def wait_for_three_cycles(database: Database, agent: str, outcome: str, after: str) -> None:
    """Wait for three consecutive cycles of an agent with this outcome."""
    for _ in range(3):
        before = last_run(database, agent, outcome)
        event = f"{agent} is {outcome} after the clock was set: {after}"
        wait_until(lambda: last_run(database, agent, outcome) > before, event, GOES_ON_WITHIN_S)  # noqa: B023


def test_a_changed_clock_stops_only_removals(
    database: Database, set_clock: Callable[[str], None], tmp_path: Path
) -> None:
    load_grid(database, datetime.now(UTC).replace(microsecond=0))
    with broker(database.url, "serve", log=tmp_path / "log") as process:
        for agent in (*UNAFFECTED_AGENTS, REMOVING_AGENT):
            wait_until(lambda: last_run(database, agent, "done") > 0, f"the first cycle of {agent}")  # noqa: B023
        for offset in ("-1h", "+0", "+1d", "+0", "-30d"):
            set_clock(offset)
            seen_at = last_heartbeat(database)
            for agent in UNAFFECTED_AGENTS:
                wait_for_three_cycles(database, agent, "done", offset)
            wait_for_three_cycles(database, REMOVING_AGENT, "done" if offset == "+0" else "refused", offset)
            wait_until(lambda: last_heartbeat(database) != seen_at, "heartbeats go on", GOES_ON_WITHIN_S)  # noqa: B023
        assert process.poll() is None
