"""The shipped demonstration facts and the scenarios built from them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from broker import resources
from broker.simulation.model.demo.facts import DemoFacts, facts_from_texts
from broker.simulation.model.demo.grid import build_scenario

NOW = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
Scenario = dict[str, Any]


@pytest.fixture(scope="session")
def demo_facts() -> DemoFacts:
    paths = sorted(resources.path("config/demo").glob("*.yaml"))
    return facts_from_texts(path.read_text(encoding="utf-8") for path in paths)


@pytest.fixture(scope="session")
def demo_scenario(demo_facts: DemoFacts) -> Scenario:
    return build_scenario(demo_facts, NOW, seed=7)


@pytest.fixture(scope="session")
def quick_scenario(demo_facts: DemoFacts) -> Scenario:
    return build_scenario(demo_facts, NOW, seed=7, quick=True)
