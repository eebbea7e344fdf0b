"""PanDA's classes and ours on one scenario: a fresh database, PanDA's task buffer over it, and the plug-in beside."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any

import pytest
from panda.installation import CLOCK, prepare

_HOME = Path(tempfile.mkdtemp(prefix="gridbroker-panda-"))
prepare(_HOME)  # before anything imports PanDA

from gridbroker_jedi import service as services  # noqa: E402
from gridbroker_jedi.grid import BROKERAGES  # noqa: E402
from gridbroker_jedi.service import BrokerService  # noqa: E402
from gridbroker_jedi.settings import PluginSettings  # noqa: E402
from panda import loading  # noqa: E402
from panda.site import PandaSite, open_site  # noqa: E402


def _fixtures_of_the_broker() -> ModuleType:
    """The fixtures of gridbroker's own tests, which have a real PostgreSQL."""
    file = Path(__file__).parents[3] / "tests" / "conftest.py"
    spec = spec_from_file_location("gridbroker_fixtures", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_OWN = _fixtures_of_the_broker()
server_url, test_server, TestServer = _OWN.server_url, _OWN.test_server, _OWN.TestServer


def pytest_report_header() -> str:
    """Say whose tables the run has."""
    return f"PanDA's tables: {loading.which_tables()}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say it at the end as well, where the header has long gone by."""
    terminalreporter.write_line(f"PanDA's tables: {loading.which_tables()}")


@pytest.fixture(scope="session")
def empty_site(test_server: Any) -> Iterator[str]:
    """The address of a database with PanDA's tables, from which those of the sites are copied."""
    url = test_server.create(migrated=False)
    loading.make_tables(url)
    yield url
    test_server.drop(loading.name_of(url))


@pytest.fixture
def make_site(test_server: Any, empty_site: str) -> Iterator[Callable[[dict[str, Any]], PandaSite]]:
    """Loads a scenario and puts PanDA on it."""
    made: list[PandaSite] = []

    def make(content: dict[str, Any]) -> PandaSite:
        made.append(open_site(test_server.copy(empty_site), content, _HOME))
        return made[-1]

    yield make
    for site in made:
        site.connection.close()
        test_server.drop(site.url.rsplit("/", 1)[1].split("?")[0])


@pytest.fixture(autouse=True)
def nothing_ahead() -> None:
    """Let no broker that is made read a grid behind a test: without a service that would be one of this account."""
    services._AHEAD.update((os.getpid(), name) for name in BROKERAGES)


@pytest.fixture
def use_service(tmp_path: Path) -> Iterator[Callable[..., BrokerService]]:
    """Makes the service that the plug-in's classes find in this process; its grid is read by the first call."""
    made: list[BrokerService] = []

    def use(url: str, ticks: Callable[[], float] = monotonic, **settings: Any) -> BrokerService:
        wanted = {"timeout_s": 60.0, "calls_folder": tmp_path / "calls", **settings}
        own = PluginSettings(database_url=url, **wanted)
        service = BrokerService(own, lambda: CLOCK.now.replace(tzinfo=UTC), ticks)
        services._SERVICES[os.getpid()] = service
        made.append(service)
        return service

    yield use
    services._SERVICES.clear()
    services._AHEAD.clear()
    for service in made:
        service.close()


def pytest_unconfigure() -> None:
    """Remove PanDA's home."""
    shutil.rmtree(_HOME, ignore_errors=True)
