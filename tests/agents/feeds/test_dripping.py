"""A feed whose server drips: its cycle ends within its budget, uses what came and raises an alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.feeds.cric import CricAgent, CricOptions
from agents.service import registry
from agents.service.cycle import run_cycle
from agents.service.names import NAMES
from broker.simulation.model.demo.grid_documents import GridSize, cric_documents
from broker.store.connection.database import Database
from tests.agents.feeds.running import PROCESS, Feeding
from tests.feeds.documents import NOW
from tests.fetching.web_server import DRIPPING, serving

FEEDS = {
    "cric", "network", "notifications", "rucio_output", "rucio_quota", "rucio_replicas", "rucio_space", "sites",
    "submitter",
}  # fmt: skip


@pytest.mark.slow
def test_a_cycle_ends_within_its_budget_and_uses_what_came(database: Database, tmp_path: Path) -> None:
    feeding = Feeding(database, tmp_path)
    documents = cric_documents(GridSize(20), NOW)
    paths = {name: feeding.write(name, content) for name, content in documents.items()}
    with serving(DRIPPING["body"]) as server:
        paths["queues"] = server.address()
        agent = CricAgent(CricOptions(documents=paths, time_limit_s=600), PROCESS)
        context = feeding.context("cric", budget_s=20.0)
        record = run_cycle(agent, context)
        assert len(server.asked) == 1
    assert record.outcome == "refused" and "time_out" in str(record.error)
    assert context.left_s > 0
    assert feeding.count("site") == 10 and feeding.count("schedconfig_json") == 0


def test_feeds_are_known() -> None:
    agents_by_name = {name: registry.make(name, {}, PROCESS) for name in NAMES if name not in registry.BROKERAGES}
    assert {name for name, agent in agents_by_name.items() if agent.is_feed} == FEEDS
