"""A real Rucio server for tests, started with the Python environment that ``make test-rucio`` creates."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from broker.store.connection.database import Database
from tests.agents.feeds.running import Feeding
from tests.fetching.web_server import says, serving
from tests.marked_folders import keep_to_mark

SERVER = Path(__file__).with_name("rucio_server.py")
VARIABLE = "BROKER_TEST_RUCIO_PYTHON"
PLACEMENT = "NEARBY"
"""The site that all virtual placements name."""
DOMAIN = {"read": 1, "write": 1, "delete": 1}
PROTOCOL = {
    "scheme": "mock",
    "hostname": "storage.example.org",
    "port": 1,
    "prefix": "/",
    "impl": "rucio.rse.protocols.mock.Default",
    "domains": {
        "lan": DOMAIN,
        "wan": {**DOMAIN, "third_party_copy_read": 1, "third_party_copy_write": 1},
    },
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run these tests only if a server is available or their mark is selected: all of them need it."""
    keep_to_mark(config, items, __file__, "rucio", variable=VARIABLE)


class RucioServer:
    """A Rucio server process with its own folder, and a client to fill it."""

    def __init__(self, folder: Path, placements: str) -> None:
        """Start the server; ``placements`` is the address of its service for virtual placements."""
        self.folder, self.placements = folder, placements
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def configuration(self) -> Path:
        """The path of its ``rucio.cfg``."""
        return self.folder / "rucio.cfg"

    def start(self) -> None:
        """Start the server, on its previous port if it had one, and wait until it serves."""
        python = os.environ.get(VARIABLE)
        assert python, f"{VARIABLE} names no Python with the package rucio: run make test-rucio"
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [python, str(SERVER), str(self.folder), str(self.port), self.placements],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.strip().isdigit(), (self.folder / "log").read_text()[-2000:]
        self.port = int(line)

    def kill(self) -> None:
        """Kill the server at once."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server."""
        assert self._process is not None
        self._process.send_signal(number)

    def client(self) -> Any:
        """Return a new client of the Rucio package, configured for this server."""
        os.environ["RUCIO_CONFIG"] = str(self.configuration)
        from rucio.client import Client
        from rucio.common.config import clean_cached_config

        clean_cached_config()
        return Client(timeout=30)

    def add_endpoint(self, name: str, *, tape: bool = False, used: int = 10**14, free: int = 10**15) -> None:
        """Add an RSE with space; other sites can read a disk by xrootd."""
        client = self.client()
        client.add_rse(name, rse_type="TAPE" if tape else "DISK")
        client.add_protocol(name, PROTOCOL if tape else {**PROTOCOL, "scheme": "root"})
        client.set_rse_usage(name, "storage", used, free)

    def add_dataset(self, name: str, files: int, places: dict[str, int], *, closed: bool = True) -> None:
        """Add a dataset of 100-byte files; each RSE of ``places`` holds the given number of its first files."""
        client = self.client()
        dids = [
            {"scope": "mc23", "name": f"{name}.{number}", "bytes": 100, "adler32": "0cc737eb"}
            for number in range(files)
        ]
        client.add_dataset("mc23", name)
        for rse, count in places.items():
            client.add_replicas(rse, dids[:count])
        client.attach_dids("mc23", name, [{"scope": did["scope"], "name": did["name"]} for did in dids])
        if closed:
            client.close("mc23", name)


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rucio")


@pytest.fixture(scope="session")
def rucio(server_folder: Path) -> Iterator[RucioServer]:
    """One server with a scope for all tests; each test adds what it needs under unique names.

    Its service for virtual placements names the same site for every dataset.
    """
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    with serving(says(200, json.dumps([PLACEMENT]).encode(), Content_Type="application/json")) as placements:
        server = RucioServer(server_folder, placements.address(""))
        server.client().add_scope("root", "mc23")
        yield server
        server.kill()


@pytest.fixture
def now() -> datetime:
    """The instant of the cycles: the wall clock, because the server stamps its answers by it."""
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def feeding(database: Database, tmp_path: Path) -> Feeding:
    return Feeding(database, tmp_path)
