"""PanDA's tables in the forms that they have at sites: each brokerage makes the same decisions from all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import run_cycle
from broker import resources
from broker.simulation.model.demo.facts import facts_from_texts
from broker.simulation.model.demo.grid import build_scenario
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import REPLICA_TABLES, load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema import migrate
from tests.alongside.conftest import READ, least_role
from tests.alongside.panda_forms import fill_jobs, reshape
from tests.brokered_demo import NOON

pytestmark = pytest.mark.slow

BROKERAGES = ("production_task", "production_job", "analysis_job")


def demo() -> Scenario:
    texts = [path.read_text(encoding="utf-8") for path in sorted(resources.path("config/demo").glob("*.yaml"))]
    return Scenario.of(build_scenario(facts_from_texts(texts), NOON, 1, True))


def decide(database: Database, brokerage: str, **settings: Any) -> list[dict[str, Any]]:
    decisions: list[dict[str, Any]] = []
    agent = registry.make(brokerage, {}, ProcessSettings(**settings))
    record = run_cycle(
        agent, CycleContext(database, NOON, 0, 600.0, CycleRequest(None, True, True, decisions.append, by_hand=True))
    )
    assert record.outcome == "done", record
    return [
        {name: decision[name] for name in ("jeditaskid", "datasetid", "outcome", "reason", "candidates")}
        for decision in decisions
    ]


@pytest.fixture
def both(make_database: Callable[..., Database]) -> Iterator[tuple[Database, Database]]:
    """The example grid standalone, and alongside PanDA for a role with the least rights."""
    scenario = demo()
    our_database, panda = make_database(), make_database()
    load(our_database, scenario)
    load(panda, scenario)
    fill_jobs(our_database)
    reshape(panda)
    with least_role(panda) as connect:
        least = connect(*READ)
        assert migrate.upgrade(least).mode == migrate.BESIDE
        load(
            least,
            Scenario(scenario.now, {name: scenario.tables[name] for name in REPLICA_TABLES if name in scenario.tables}),
        )
        yield our_database, least


def test_every_brokerage_decides_the_same(both: tuple[Database, Database]) -> None:
    our_database, least = both
    for brokerage in BROKERAGES:
        expected = decide(our_database, brokerage)
        assert decide(least, brokerage) == expected and expected
        assert any(decision["outcome"] == "brokered" for decision in expected)
    by_statistics = decide(least, "production_job", job_statistics="panda")
    assert len(by_statistics) == len(decide(our_database, "production_job"))


def test_no_jobs_are_generated_alongside_panda(both: tuple[Database, Database]) -> None:
    _, least = both
    rows = sa.text("SELECT (SELECT count(*) FROM doma_panda.jobsdefined4), (SELECT count(*) FROM broker.decisions)")
    with least.read_snapshot() as connection:
        before = connection.execute(rows).one()
    agent = registry.make("production_job", {}, ProcessSettings(job_generation="broker"))
    record = run_cycle(agent, CycleContext(least, NOON, 0, 600.0, CycleRequest(by_hand=True)))
    assert record.outcome == "refused" and "has no output files" in str(record.error)
    assert "GRANT" not in str(record.error)
    with least.read_snapshot() as connection:
        assert connection.execute(rows).one() == before
