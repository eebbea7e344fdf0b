"""The example grid, loaded and brokered once for all tests of answers; the fixtures are in ``conftest.py``."""

from __future__ import annotations

from datetime import UTC, datetime

from broker import resources
from broker.decisions.answers.agent_cycle import JOB_AGENT, TASK_AGENT, USER_AGENT, broker_once
from broker.simulation.model.demo.facts import facts_from_texts
from broker.simulation.model.demo.grid import build_scenario
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
TOO_MUCH_MEMORY, ALL_SCRATCH, LINKS_FULL, RETIRED_QUEUE, LOST_INPUT = 43000069, 43000072, 43000021, 43000070, 43000068
DRAWN, BROKERED, THROTTLED, BUSY_USER = 43000063, 43000001, 43000093, "etanaka"


def broker_the_demo(database: Database) -> None:
    """Load a tenth of the example grid and run each brokerage once, for :data:`NOON`."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(resources.path("config/demo").glob("*.yaml"))]
    load(database, Scenario.of(build_scenario(facts_from_texts(texts), NOON, 1, True)))
    for agent in (TASK_AGENT, JOB_AGENT, USER_AGENT):
        broker_once(agent, database, NOON, 1, lambda decision: None)
