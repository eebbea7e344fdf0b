"""The grid stays visible while nothing is brokered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from broker import resources
from broker.decisions.answers.agent_cycle import JOB_AGENT, TASK_AGENT, USER_AGENT, broker_once
from broker.grid.answers.grid import last_snapshot
from broker.grid.answers.queues import queues
from broker.simulation.model.demo.facts import facts_from_texts
from broker.simulation.model.demo.grid import build_scenario
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from tests.brokered_demo import NOON, broker_the_demo

pytestmark = pytest.mark.slow

AGENTS = (TASK_AGENT, JOB_AGENT, USER_AGENT)
IDLE = sa.text("UPDATE doma_panda.jedi_tasks SET status = 'done'")


def _run_cycles(database: Database, now: datetime) -> None:
    for agent in AGENTS:
        broker_once(agent, database, now, 1, lambda decision: None)


def _snapshot_time(database: Database, now: datetime, brokerage: str | None = None) -> datetime | None:
    with database.read_snapshot() as connection:
        snapshot = last_snapshot(QueryContext(connection, database.names, now), brokerage)
    return None if snapshot is None else snapshot.taken_at


def _count_snapshots(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text("SELECT count(*) FROM broker.snapshots")).scalar_one())


def test_queues_stay_visible_after_a_cycle_without_work(make_database: Callable[..., Database]) -> None:
    database = make_database()
    broker_the_demo(database)
    with database.begin() as connection:
        assert connection.execute(IDLE).rowcount
    before = _count_snapshots(database)
    next_minute = NOON + timedelta(minutes=1)
    _run_cycles(database, next_minute)
    assert _count_snapshots(database) == before  # the snapshots of these runs were not stored
    for brokerage in (None, *AGENTS):
        assert _snapshot_time(database, next_minute, brokerage) == NOON
    with database.read_snapshot() as connection:
        assert len(queues(QueryContext(connection, database.names, next_minute)).queues) > 70


def test_while_nothing_is_brokered_a_snapshot_is_stored_every_ten_minutes(
    make_database: Callable[..., Database],
) -> None:
    database = make_database()
    texts = [path.read_text(encoding="utf-8") for path in sorted(resources.path("config/demo").glob("*.yaml"))]
    load(database, Scenario.of(build_scenario(facts_from_texts(texts), NOON, 1, True)))
    with database.begin() as connection:
        connection.execute(IDLE)
    ages = []
    for minutes in (0, 5, 9, 10, 15, 20):
        now = NOON + timedelta(minutes=minutes)
        _run_cycles(database, now)
        ages += [(_snapshot_time(database, now, brokerage) or now) - NOON for brokerage in AGENTS]
    expected = (0, 0, 0, 10, 10, 20)
    assert ages == [timedelta(minutes=minutes) for minutes in expected for _ in AGENTS]
