"""PanDA's classes and ours on one scenario: a fresh database, PanDA's task buffer over it, and the plug-in beside."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from panda.installation import CLOCK, prepare

_HOME = Path(tempfile.mkdtemp(prefix="gridbroker-panda-"))
prepare(_HOME)  # before anything imports PanDA

from gridbroker_jedi import service as services  # noqa: E402
from gridbroker_jedi.service import BrokerService  # noqa: E402
from gridbroker_jedi.settings import PluginSettings  # noqa: E402
from panda import task_buffer  # noqa: E402
from panda.remote import Remote  # noqa: E402

from broker.store.connection.database import Database  # noqa: E402
from broker.store.scenarios.load_dump import load  # noqa: E402
from broker.store.scenarios.scenario_file import read_scenario  # noqa: E402


def _fixtures_of_the_broker() -> ModuleType:
    """The fixtures of gridbroker's own tests, which have a real PostgreSQL."""
    file = Path(__file__).parents[3] / "tests" / "conftest.py"
    found = spec_from_file_location("gridbroker_fixtures", file)
    assert found is not None and found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


_OWN = _fixtures_of_the_broker()
server_url, test_server, TestServer = _OWN.server_url, _OWN.test_server, _OWN.TestServer
_MISSING = (Path(__file__).parent / "panda" / "missing_tables.sql").read_text(encoding="utf-8")


@dataclass
class PandaSite:
    """One scenario with PanDA on it.

    Attributes:
        url: of the database.
        connection: PanDA's.
        buffer: PanDA's task buffer, as its brokers see it.
        ddm: PanDA's client of Rucio, likewise.
    """

    url: str
    connection: Any
    buffer: Any
    ddm: Any

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The answer to a query, in a transaction of its own."""
        with self.connection.cursor() as cursor:
            cursor.execute(query, values)
            found: list[tuple[Any, ...]] = cursor.fetchall()
        self.connection.commit()
        return found

    def run(self, statement: str, *values: Any) -> None:
        """A statement, committed."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
        self.connection.commit()


@pytest.fixture
def make_site(test_server: Any, tmp_path: Path) -> Iterator[Callable[[dict[str, Any]], PandaSite]]:
    """Loads a scenario and puts PanDA on it."""
    from pandajedi.jediddm.AtlasDDMClient import AtlasDDMClient

    made: list[PandaSite] = []

    def make(content: dict[str, Any]) -> PandaSite:
        url = test_server.create()
        file = tmp_path / f"scenario{len(made)}.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        scenario = read_scenario(file)
        with Database(url) as database:
            load(database, scenario)
        CLOCK.now = scenario.now.replace(tzinfo=None)
        connection = task_buffer.connect(url)
        with connection.cursor() as cursor:
            cursor.execute(_MISSING)
        connection.commit()
        task_buffer.fill_statistics(connection)
        task_buffer.load_rucio(connection, _HOME)
        site = PandaSite(url, connection, Remote(task_buffer.task_buffer(connection)), Remote(AtlasDDMClient(None)))
        made.append(site)
        return site

    yield make
    for site in made:
        site.connection.close()
        test_server.drop(site.url.rsplit("/", 1)[1].split("?")[0])


@pytest.fixture
def use_service() -> Iterator[Callable[..., BrokerService]]:
    """Makes the service that the plug-in's classes find in this process."""
    made: list[BrokerService] = []

    def use(url: str, **settings: Any) -> BrokerService:
        wanted = {"timeout_s": 60.0, **settings}
        service = BrokerService(PluginSettings(database_url=url, **wanted), lambda: CLOCK.now.replace(tzinfo=UTC))
        services._SERVICES[os.getpid()] = service
        made.append(service)
        return service

    yield use
    services._SERVICES.clear()
    for service in made:
        service.close()


def pytest_unconfigure() -> None:
    """Remove PanDA's home."""
    shutil.rmtree(_HOME, ignore_errors=True)
