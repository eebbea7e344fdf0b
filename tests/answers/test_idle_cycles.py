"""The grid stays in sight while nothing is brokered."""

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
from broker.store.query_context import Asking
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from tests.answers.demo_database import NOON, broker_the_demo

pytestmark = pytest.mark.slow

AGENTS = (TASK_AGENT, JOB_AGENT, USER_AGENT)
IDLE = sa.text("UPDATE doma_panda.jedi_tasks SET status = 'done'")


def _cycles(database: Database, now: datetime) -> None:
    for agent in AGENTS:
        broker_once(agent, database, now, 1, lambda decision: None)


def _taken(database: Database, now: datetime, brokerage: str | None = None) -> datetime | None:
    with database.read_snapshot() as connection:
        found = last_snapshot(Asking(connection, database.names, now), brokerage)
    return None if found is None else found.taken_at


def _stored(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.execute(sa.text("SELECT count(*) FROM broker.snapshots")).scalar_one())


def test_a_cycle_without_work_leaves_the_queues_in_sight(make_database: Callable[..., Database]) -> None:
    database = make_database()
    broker_the_demo(database)
    with database.begin() as connection:
        assert connection.execute(IDLE).rowcount
    before = _stored(database)
    soon = NOON + timedelta(minutes=1)
    _cycles(database, soon)
    assert _stored(database) == before  # so there are runs of which the snapshot was not stored
    for brokerage in (None, *AGENTS):
        assert _taken(database, soon, brokerage) == NOON
    with database.read_snapshot() as connection:
        assert len(queues(Asking(connection, database.names, soon)).queues) > 70


def test_while_nothing_is_brokered_a_snapshot_is_stored_every_ten_minutes(
    make_database: Callable[..., Database],
) -> None:
    database = make_database()
    texts = [path.read_text(encoding="utf-8") for path in sorted(resources.path("config/demo").glob("*.yaml"))]
    load(database, Scenario.of(build_scenario(facts_from_texts(texts), NOON, 1, True)))
    with database.begin() as connection:
        connection.execute(IDLE)
    seen = []
    for minutes in (0, 5, 9, 10, 15, 20):
        now = NOON + timedelta(minutes=minutes)
        _cycles(database, now)
        seen += [(_taken(database, now, brokerage) or now) - NOON for brokerage in AGENTS]
    expected = (0, 0, 0, 10, 10, 20)
    assert seen == [timedelta(minutes=minutes) for minutes in expected for _ in AGENTS]
