"""The parts of a job brokerage: several brokers together decide what one broker would decide alone."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import AgentSection, ConfigurationError, ProcessSettings
from agents.service.cycle import run_cycle
from agents.service.runtime import enabled_agents
from broker.domain.parts import WHOLE, Part, parts_of
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.service.leases import Lease
from tests.brokerages.analysis_grid import analysis_tasks
from tests.fault.processes import AGENT, NOW, SEED, load_grid

SHARES = ("Simulation", "Reprocessing", "Group Analysis", "Express", None)


@pytest.fixture(scope="module")
def grid(shared_database: Database) -> Database:
    """The example grid with five shares and a work queue that is counted by itself."""
    load_grid(shared_database)
    with shared_database.begin() as connection:
        tasks = list(connection.execute(sa.text("SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY 1")).scalars())
        for at, task in enumerate(tasks):
            query = "UPDATE doma_panda.jedi_tasks SET gshare = :share, workqueue_id = :queue WHERE jeditaskid = :task"
            values = {"share": SHARES[at % len(SHARES)], "queue": 7 if at % 4 == 0 else None, "task": task}
            connection.execute(sa.text(query), values)
        columns = "(queue_id, queue_name, queue_function) VALUES (7, 'own', 'Resource')"
        connection.execute(sa.text("DELETE FROM doma_panda.jedi_work_queue WHERE queue_id = 7"))
        connection.execute(sa.text(f"INSERT INTO doma_panda.jedi_work_queue {columns}"))
    return shared_database


def decisions_of(database: Database, part: Part, agent: str = AGENT) -> list[dict[str, Any]]:
    """The decisions of a dry cycle under the lease of a part."""
    decisions: list[dict[str, Any]] = []
    lease = Lease(part.lease_of(agent), "one", 1)
    request = CycleRequest(dry_run=True, emit=decisions.append)
    context = CycleContext(database, NOW, SEED, 600.0, request, lease=lease)
    record = run_cycle(registry.make(agent, {}, ProcessSettings()), context)
    assert record.outcome == "done", record.error
    assert record.counts["chunks"] == len(decisions)
    return decisions


def by_chunk(decisions: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {(decision["jeditaskid"], decision["datasetid"], decision["ramcount"]): decision for decision in decisions}


@pytest.mark.parametrize("parts", [2, 3])
def test_brokers_with_one_part_each_decide_what_a_single_broker_decides(grid: Database, parts: int) -> None:
    alone = decisions_of(grid, WHOLE)
    apart = [decisions_of(grid, part) for part in parts_of(parts)]
    assert sum(map(len, apart)) == len(alone) > max(map(len, apart))
    assert by_chunk([decision for decisions in apart for decision in decisions]) == by_chunk(alone)


def test_users_of_a_vo_belong_to_one_part(database: Database) -> None:
    load(database, analysis_tasks({"username": "alice"}, {"username": "bob", "gshare": "Group Analysis"}))
    apart = [decisions_of(database, part, "analysis_job") for part in (WHOLE, *parts_of(2))]
    assert sorted(map(len, apart)) == [0, 2, 2]


@pytest.mark.parametrize(
    ("agent", "process", "message"),
    [
        ("production_task", ProcessSettings(), "takes all its work in one cycle"),
        ("production_job", ProcessSettings(profile="flow"), "places the chunks of a cycle together"),
        ("timeouts", ProcessSettings(), "its work is not divided"),
    ],
)
def test_agents_that_cannot_be_divided_are_refused_before_anything_starts(
    agent: str, process: ProcessSettings, message: str
) -> None:
    section = AgentSection(period_s=30, cycle_budget_s=60, parts=2)
    with pytest.raises(ConfigurationError, match=message):
        enabled_agents({agent: section}, lambda name, options: registry.make(name, options, process))


def test_each_part_is_scheduled_under_its_own_lease() -> None:
    section = AgentSection(period_s=30, cycle_budget_s=60, parts=2)
    scheduled = enabled_agents({AGENT: section}, lambda name, options: registry.make(name, options, ProcessSettings()))
    assert [entry.name for entry in scheduled] == [f"{AGENT}#1/2", f"{AGENT}#2/2"]
    assert scheduled[0].agent is not scheduled[1].agent
