"""Chromium as found by ``make test-web``, and the web server on a small demonstration grid, without a network."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker import resources
from broker.api.presenting import to_path
from broker.api.server import ApiServer
from broker.decisions.answers.agent_cycle import JOB_AGENT, TASK_AGENT, USER_AGENT, broker_once
from broker.simulation.model.demo.facts import facts_from_texts
from broker.simulation.model.demo.grid import build_scenario
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import forget_clock, load
from broker.store.scenarios.scenario_file import Scenario
from broker.web.mounting import page_parts
from tests.api.serving import TOKEN, client_of, serving, shipped
from tests.browser.chromium import FOLDER, PATIENCE_MS, chromium
from tests.browser.pages import KEY
from tests.browser.visitor import HOSTILE, Visitor
from tests.conftest import TestServer
from tests.marked_folders import keep_to_mark
from tests.simulation.kept_simulation import keep_simulation

ARTEFACTS = Path(__file__).parents[2] / "build" / "web"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, and run them where Playwright is installed or the mark is selected."""
    keep_to_mark(config, items, __file__, "web", variable=FOLDER)


@pytest.fixture(scope="session")
def grid(test_server: TestServer) -> Iterator[Database]:
    """A tenth of the demonstration grid, brokered once, with hostile names of a task and a user."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(resources.path("config/demo").glob("*.yaml"))]
    scenario = Scenario.of(build_scenario(facts_from_texts(texts), datetime.now(UTC).replace(microsecond=0), 1, True))
    with test_server.opened(test_server.create()) as database:
        load(database, _with_hostile_names(scenario))
        for agent in (TASK_AGENT, JOB_AGENT, USER_AGENT):
            broker_once(agent, database, scenario.now, 1, lambda _: None)
        with database.begin() as connection:
            forget_clock(connection)
        yield database


def _with_hostile_names(scenario: Scenario) -> Scenario:
    tasks: list[dict[str, Any]] = [dict(row) for row in scenario.tables["jedi_tasks"]]
    of_production = next(row for row in tasks if row["tasktype"] == "prod")
    of_user = next(row for row in tasks if row["tasktype"] == "anal")
    of_production["taskname"] = of_user["taskname"] = HOSTILE
    of_user["username"] = HOSTILE
    return Scenario(scenario.now, {**scenario.tables, "jedi_tasks": tasks})


@pytest.fixture(scope="session")
def site(grid: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The web server on that grid."""
    plenty = {"per_s": 1000, "burst": 1000}
    configuration = shipped(rate={"anonymous": plenty, "tuner": plenty})
    parts = page_parts(configuration, TOKEN, time.monotonic)
    with serving(grid, tmp_path_factory.mktemp("home"), configuration, parts=parts) as server:
        yield server


@pytest.fixture(scope="session", name="chromium")
def the_browser() -> Iterator[Any]:
    """The browser of this run."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def visitor(chromium: Any, site: ApiServer, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """A visitor of the page; ``indirect`` parameters change the screen."""
    options = {"viewport": {"width": 1280, "height": 900}, **getattr(request, "param", {})}
    context = chromium.new_context(base_url=site.url, **options)
    context.set_default_timeout(PATIENCE_MS)
    page_visitor = Visitor(context, TOKEN)
    yield page_visitor
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    page_visitor.page.screenshot(path=ARTEFACTS / f"{name}.png")
    context.close()
    page_visitor.check()


_A_POOL = sa.text("""
    INSERT INTO broker.submit_pools (pool_id, vo, canonical, created_at, last_used_at)
    VALUES (:pool, 'atlas', 'CPUTime = 1;', now(), now()) ON CONFLICT DO NOTHING""")

POOL = "0" * 36


@pytest.fixture(scope="session")
def found(site: ApiServer, grid: Database) -> dict[str, Any]:
    """Addresses of detail pages, and the tasks with hostile names."""
    with client_of(site) as client:
        tasks = client.get("/api/v1/tasks", params={"limit": 200}).json()["tasks"]
        versions = [
            client.put(f"/api/v1/config/{KEY}", json={"value": value, "reason": HOSTILE}).json()["version"]
            for value in (201, 202)
        ]
        run = client.post("/api/v1/config:preview", json={"set": {KEY: 100}}).json()["id"]
    with grid.begin() as connection:
        job = connection.scalar(sa.text("SELECT min(pandaid) FROM doma_panda.jobsactive4"))
        connection.execute(_A_POOL, {"pool": POOL})
        simulation = keep_simulation(connection, HOSTILE)
    hostile = [task["task"] for task in tasks if task["task"]["taskname"] == HOSTILE]
    task_pages = [f"/tasks/{task['jeditaskid']}" for task in hostile]
    pages = [
        *task_pages,
        f"{task_pages[0]}/why-not/BNL",
        "/queues/BNL",
        "/nuclei/BNL-ATLAS",
        f"/tuning/{KEY}",
        f"/tuning/diff?first={versions[0]}&second={versions[1]}",
        "/rules/memory_max",
        "/reasons/lowmemory",
        f"/users/{to_path(HOSTILE)}",
        f"/pools/{POOL}",
        f"/jobs/{job}",
        "/match?specs=matching_specs:%20[{tags:%20a}]",
        "/match?site=S&ce=C&queue=BNL&node=tags:%20[a]",
        f"/runs/{run}",
        f"/simulations/{simulation}",
        "/users",
        "/shadow",
        "/mine",
        "/login",
    ]
    return {"tasks": hostile, "pages": pages}
