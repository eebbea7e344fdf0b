"""A real Rucio server for tests, started with the Python that ``make test-rucio`` has made for it."""

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
from tests.feeds.web_server import says, serving
from tests.marked_folders import keep_to_mark

SERVER = Path(__file__).with_name("rucio_server.py")
VARIABLE = "BROKER_TEST_RUCIO_PYTHON"
PLACEMENT = "NEARBY"
"""The site of all virtual placements."""
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
    """Everything here needs the server: it is run where there is one, or where it was asked for by its mark."""
    keep_to_mark(config, items, __file__, "rucio", variable=VARIABLE)


class RucioServer:
    """A server process with its own folder, and a client to fill it."""

    def __init__(self, folder: Path, placements: str) -> None:
        """``placements``: address of the service that it asks for virtual placements."""
        self.folder, self.placements = folder, placements
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def configuration(self) -> Path:
        """Its ``rucio.cfg``."""
        return self.folder / "rucio.cfg"

    def start(self) -> None:
        """Start it on the port it had, and wait until it serves."""
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
        """End it at once."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def client(self) -> Any:
        """Rucio's own client."""
        os.environ["RUCIO_CONFIG"] = str(self.configuration)
        from rucio.client import Client
        from rucio.common.config import clean_cached_config

        clean_cached_config()
        return Client(timeout=30)

    def add_endpoint(self, name: str, *, tape: bool = False, used: int = 10**14, free: int = 10**15) -> None:
        """An RSE with space; a disk can be read from elsewhere by xrootd."""
        client = self.client()
        client.add_rse(name, rse_type="TAPE" if tape else "DISK")
        client.add_protocol(name, PROTOCOL if tape else {**PROTOCOL, "scheme": "root"})
        client.set_rse_usage(name, "storage", used, free)

    def add_dataset(self, name: str, files: int, places: dict[str, int], *, closed: bool = True) -> None:
        """A dataset of 100-byte files; each place holds so many of them, from the first."""
        client = self.client()
        listed = [
            {"scope": "mc23", "name": f"{name}.{number}", "bytes": 100, "adler32": "0cc737eb"}
            for number in range(files)
        ]
        client.add_dataset("mc23", name)
        for rse, count in places.items():
            client.add_replicas(rse, listed[:count])
        client.attach_dids("mc23", name, [{"scope": one["scope"], "name": one["name"]} for one in listed])
        if closed:
            client.close("mc23", name)


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rucio")


@pytest.fixture(scope="session")
def rucio(server_folder: Path) -> Iterator[RucioServer]:
    """One server for all tests, with a scope; each test adds what it needs under names of its own.

    The service for virtual placements that it asks names the same site for each dataset.
    """
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    with serving(says(200, json.dumps([PLACEMENT]).encode(), Content_Type="application/json")) as placements:
        server = RucioServer(server_folder, placements.address(""))
        server.client().add_scope("root", "mc23")
        yield server
        server.kill()


@pytest.fixture
def now() -> datetime:
    """The server stamps what it tells by the clock on the wall, so here this is the instant of the cycles."""
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def feeding(database: Database, tmp_path: Path) -> Feeding:
    return Feeding(database, tmp_path)
