"""An API server with a token issuer, and users who call it as panda-client does."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.api.issuer import AUDIENCE, Issuer, issuing
from tests.api.serving import serving, shipped
from tests.brokerages import small_grid
from tests.tasks.client.calls import Caller

ROLES = [
    {"role": "submitter", "scopes": ["broker.submit"]},
    {"role": "operator", "scopes": ["broker.operate"]},
    {"role": "reader", "scopes": ["broker.read"]},
]
LIMITS = {"sandbox_bytes": 3000, "sandboxes_of_user_bytes": 5000}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as token_issuer:
        yield token_issuer


@pytest.fixture(scope="module")
def server(shared_database: Database, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    section = {"issuer": issuer.url, "audiences": [AUDIENCE], "roles": ROLES}
    configuration = shipped(
        issuers=[section],
        limits=shipped().limits.model_dump() | LIMITS,
        panda_client={"login": {"issuer": issuer.url, "client_id": "panda-client", "audience": AUDIENCE}},
    )
    load(shared_database, small_grid.scenario(), replace=True)
    with serving(shared_database, tmp_path_factory.mktemp("home"), configuration) as api_server:
        yield api_server


@pytest.fixture
def caller(server: ApiServer, issuer: Issuer) -> Iterator[Callable[..., Caller]]:
    """A factory of callers, by user name and scope."""
    clients: list[httpx.Client] = []

    def make(name: str = "ada", scope: str = "broker.submit", **claims: Any) -> Caller:
        values = {"preferred_username": name, "sub": f"sub-{name}", "scope": scope, "jti": str(uuid.uuid4()), **claims}
        token = issuer.sign(issuer.claims(time.time(), **values))
        headers = {"Authorization": f"Bearer {token}", "Origin": "myexp", "Accept": "application/json"}
        clients.append(httpx.Client(base_url=server.url, headers=headers, timeout=30))
        return Caller(clients[-1])

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def ada(caller: Callable[..., Caller]) -> Caller:
    return caller()


@pytest.fixture
def bob(caller: Callable[..., Caller]) -> Caller:
    return caller("bob")


def archive(content: bytes = b"echo hello\n", size: int | None = None) -> bytes:
    """A gzipped tar file with one script in it, padded to exactly ``size`` bytes if ``size`` is given."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("run.sh")
        entry.size, entry.mode = len(content), 0o755
        tar.addfile(entry, io.BytesIO(content))
    compressed = gzip.compress(packed.getvalue(), mtime=0)
    if size is None:
        return compressed
    # the last eight bytes are the checksum and the size: they stay as they are
    return compressed[:-8] + b"\0" * (size - len(compressed)) + compressed[-8:]
