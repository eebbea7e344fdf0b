"""The real panda-client installed by ``make test-client``, its users, and the installation they work with."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.issuer import AUDIENCE, Issuer, issuing
from tests.conftest import TestServer
from tests.fetching.web_server import says, serving
from tests.marked_folders import keep_to_mark
from tests.panda_client.experiment import ENDPOINTS, Experiment
from tests.panda_client.user import User
from tests.real_pilot.installation import serve_installation
from tests.rucio.conftest import PLACEMENT, VARIABLE, RucioServer

FOLDER = "BROKER_TEST_PANDA_CLIENT"
ROLES = [
    {"role": "submitter", "scopes": ["broker.submit"]},
    {"role": "pilot", "scopes": ["broker.match"]},
]
WITHOUT_RUCIO = ("analysis_job", "activation", "completion", "pilot_activity")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all tests of this folder; they run where the client is installed or the mark is requested."""
    keep_to_mark(config, items, __file__, "client", variable=FOLDER, timeout_s=300)


@pytest.fixture(scope="session")
def rucio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RucioServer]:
    """A Rucio server with the endpoints of the grid and the scopes of the input and of the users."""
    assert VARIABLE in os.environ, f"{VARIABLE} names no Python with the package rucio: run make test-client"
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    with serving(says(200, json.dumps([PLACEMENT]).encode(), Content_Type="application/json")) as placements:
        server = RucioServer(tmp_path_factory.mktemp("rucio"), placements.address(""))
        client = server.client()
        for scope in ("mc", "user.ada"):
            client.add_scope("root", scope)
        for endpoint in ENDPOINTS:
            server.add_endpoint(endpoint)
            client.set_local_account_limit("root", endpoint, -1)
        yield server
        server.kill()


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    with issuing() as token_issuer:
        yield token_issuer


@pytest.fixture(scope="module")
def experiment(
    test_server: TestServer, rucio: RucioServer, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Experiment]:
    """A broker with two queues and its agents, and a plain pilot."""
    folder = tmp_path_factory.mktemp("experiment")
    rucio_options = {"rucio_config": str(rucio.configuration)}
    agents = {
        **{name: {} for name in WITHOUT_RUCIO},
        "task_input": rucio_options,
        "rucio_replicas": {**rucio_options, "requests_per_s": 1000},
        "rucio_output": rucio_options,
    }
    login = {"issuer": issuer.url, "client_id": "panda-client", "audience": AUDIENCE}
    api = {
        "issuers": [{"issuer": issuer.url, "audiences": [AUDIENCE], "roles": ROLES}],
        "panda_client": {"login": login},
    }
    token = issuer.sign(issuer.claims(time.time(), sub="pilot", scope="broker.match"))
    with (
        test_server.opened(test_server.create()) as database,
        serve_installation(database, folder, agents, api) as broker,
    ):
        yield Experiment(broker, rucio, token, folder / "storage")


@pytest.fixture
def user(experiment: Experiment, issuer: Issuer, tmp_path: Path) -> Callable[[str], User]:
    """Creates users, each with its own directory and token."""

    def make(name: str) -> User:
        claims = {"sub": f"sub-{name}", "preferred_username": name, "name": f"{name} lovelace"}
        token = issuer.sign(issuer.claims(time.time(), scope="broker.submit", jti=str(uuid.uuid4()), **claims))
        folder = tmp_path / name
        folder.mkdir()
        return User(Path(os.environ[FOLDER]), experiment.broker.url, token, folder)

    return make


@pytest.fixture
def ada(user: Callable[[str], User]) -> User:
    return user("ada")
