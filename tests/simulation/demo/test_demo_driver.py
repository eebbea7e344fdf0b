"""The demonstration driver on a real database: its timed steps, and the agents that process their results."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.decisions.answers.agent_cycle import broker_once
from broker.simulation.answers.demo_driver import DemoDriver
from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.live_script import OUTAGE_FROM, OUTAGE_TO, REFRESH_EVERY, STEP_S
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from tests.conftest import TestServer

pytestmark = pytest.mark.slow

NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
SOURCE_TIMES = """
SELECT min(age) AS youngest, max(age) AS oldest FROM (
    SELECT CAST(:now AS timestamp) - last_update AS age FROM {panda}.schedconfig_json
    UNION ALL SELECT CAST(:now AS timestamp) - ts FROM {panda}.network_matrix_kv
    UNION ALL SELECT CAST(:now AS timestamp) - space_timestamp FROM {panda}.ddm_endpoint
    UNION ALL SELECT CAST(:now AS timestamp) - lastmod FROM {meta}.sitedata) AS told"""


def rows(database: Database, query: str, **values: Any) -> list[Any]:
    with database.begin() as connection:
        return list(connection.execute(sa.text(database.names.sql(query)), values))


@pytest.fixture(scope="module")
def live_database(test_server: TestServer, demo_facts: DemoFacts, quick_scenario: dict[str, Any]) -> Iterator[Database]:
    with test_server.opened(test_server.create()) as database:
        load(database, Scenario.of(quick_scenario))
        yield database


def test_a_round_of_steps_keeps_the_grid_alive(live_database: Database, demo_facts: DemoFacts) -> None:
    driver = DemoDriver(live_database, demo_facts, 1, NOW)
    tasks = rows(live_database, "SELECT count(*) FROM {panda}.jedi_tasks")[0][0]
    archived = "SELECT jobstatus, count(*) FROM {panda}.jobsarchived4 GROUP BY 1"
    assert rows(live_database, archived) == []
    ended, off = 0, {}
    for step in range(REFRESH_EVERY + 1):
        now = NOW + timedelta(seconds=STEP_S * (step + 1))
        events = driver.step(now)
        ended += len(events.ends)
        if step == OUTAGE_FROM:
            off = dict(events.switched)
            assert _statuses(live_database, list(off)) == {"offline"}
        if step == OUTAGE_TO:
            assert _statuses(live_database, list(off)) == {"online"}
    assert off and ended
    ages = rows(live_database, SOURCE_TIMES, now=now.replace(tzinfo=None))[0]
    assert timedelta(0) < ages.youngest and ages.oldest < timedelta(minutes=15)
    assert rows(live_database, "SELECT count(*) FROM {panda}.jedi_tasks")[0][0] > tasks
    marks = rows(live_database, "SELECT DISTINCT fields ->> 'status' FROM broker.feed_changes")
    assert {row[0] for row in marks} == {'["online", "offline"]', '["offline", "online"]'}

    broker_once("completion", live_database, now, 1, lambda _: None)
    assert {status: count for status, count in rows(live_database, archived)}.keys() == {"finished", "failed"}
    assert sum(count for _, count in rows(live_database, archived)) == ended
    assert rows(live_database, "SELECT count(*) FROM {panda}.jobsactive4 WHERE jobstatus = 'holding'")[0][0] == 0


def test_jobs_whose_input_arrives_are_activated(live_database: Database, demo_facts: DemoFacts) -> None:
    now = NOW + timedelta(hours=1)
    assigned = "SELECT pandaid FROM {panda}.jobsdefined4 WHERE jobstatus = 'assigned'"
    before = {row[0] for row in rows(live_database, assigned)}
    events = DemoDriver(live_database, demo_facts, 2, now).step(now)
    assert events.inputs and set(events.inputs) <= before
    assert {row[0] for row in rows(live_database, assigned)} == before - set(events.inputs)
    statuses = rows(
        live_database,
        "SELECT DISTINCT jobstatus FROM {panda}.jobsactive4 WHERE pandaid = ANY(:jobs)",
        jobs=list(events.inputs),
    )
    assert [row[0] for row in statuses] == ["activated"]


def test_an_arrived_task_is_brokered_like_the_others(live_database: Database, demo_facts: DemoFacts) -> None:
    now = NOW + timedelta(hours=1)
    events = DemoDriver(live_database, demo_facts, 2, now).step(now)
    newest = rows(live_database, "SELECT max(jeditaskid) FROM {panda}.jedi_tasks")[0][0]
    assert demo_facts.tasks[events.arrivals[-1]].user is not None
    decisions: list[dict[str, Any]] = []
    broker_once("analysis_job", live_database, now, 1, decisions.append)
    assert newest in {decision["jeditaskid"] for decision in decisions}


def _statuses(database: Database, queues: list[str]) -> set[str]:
    query = "SELECT DISTINCT data ->> 'status' FROM {panda}.schedconfig_json WHERE panda_queue = ANY(:queues)"
    return {row[0] for row in rows(database, query, queues=queues)}
