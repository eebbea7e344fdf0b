"""``broker serve`` on a host whose clock is set forward and back; the clock of the database is right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.fault.processes import broker, load_grid, on_clock, wait_until

pytestmark = pytest.mark.slow

GOING_ON = ("production_job", "activation")
REMOVING = "timeouts"
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
    """Sets the clock of processes that are started from here on, off the machine's by what the text says."""
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


def beaten_at(database: Database) -> datetime | None:
    with database.begin() as connection:
        found: datetime | None = connection.execute(sa.text("SELECT max(seen_at) FROM broker.services")).scalar()
    return found


def goes_on(database: Database, agent: str, outcome: str, after: str) -> None:
    """Three cycles of an agent end so, one after another."""
    for _ in range(3):
        before = last_run(database, agent, outcome)
        what = f"{agent} is {outcome} after the clock was set: {after}"
        wait_until(lambda: last_run(database, agent, outcome) > before, what, GOES_ON_WITHIN_S)  # noqa: B023


def test_a_clock_that_is_set_stops_what_removes_and_nothing_else(
    database: Database, set_clock: Callable[[str], None], tmp_path: Path
) -> None:
    load_grid(database, datetime.now(UTC).replace(microsecond=0))
    with broker(database.url, "serve", log=tmp_path / "log") as process:
        for agent in (*GOING_ON, REMOVING):
            wait_until(lambda: last_run(database, agent, "done") > 0, f"the first cycle of {agent}")  # noqa: B023
        for offset in ("-1h", "+0", "+1d", "+0", "-30d"):
            set_clock(offset)
            beat = beaten_at(database)
            for agent in GOING_ON:
                goes_on(database, agent, "done", offset)
            goes_on(database, REMOVING, "done" if offset == "+0" else "refused", offset)
            wait_until(lambda: beaten_at(database) != beat, "heartbeats go on", GOES_ON_WITHIN_S)  # noqa: B023
        assert process.poll() is None
