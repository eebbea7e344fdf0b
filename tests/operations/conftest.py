"""A primary server with the broker's schema, the example grid and one cycle of production jobs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from broker.store.connection.database import Database
from broker.store.schema.migrate import upgrade
from tests.fault.processes import broker, load_grid, run_arguments
from tests.operations.postgres_cluster import PostgresCluster, open_folder

BROKER = "broker"
"""The name of the database."""
MakeCluster = Callable[[str], PostgresCluster]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run tests that create hosts only on request: they need root."""
    if "hosts" not in config.getoption("markexpr"):
        items[:] = [item for item in items if item.get_closest_marker("hosts") is None]


@pytest.fixture
def make_cluster() -> Iterator[MakeCluster]:
    """Create servers by name and remove them after the test; they are neither started nor initialised."""
    with ExitStack() as stack:

        def make(name: str) -> PostgresCluster:
            cluster = PostgresCluster(open_folder(name), "secret")
            stack.callback(cluster.remove)
            return cluster

        yield make


@pytest.fixture
def archive() -> Iterator[Path]:
    """The folder where the primary archives its log."""
    folder = open_folder("archive")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def primary(make_cluster: MakeCluster, archive: Path) -> PostgresCluster:
    """A server that archives its log as the page on recovery describes."""
    cluster = make_cluster("primary")
    cluster.make()
    cluster.give(archive)
    cluster.start({"archive_mode": "on", "archive_command": f"cp %p {archive}/%f"})
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {BROKER}")
    with Database(cluster.url(BROKER)) as database:
        upgrade(database)
        load_grid(database, datetime.now(UTC).replace(microsecond=0))
    run_command(0, cluster, *run_arguments())
    return cluster


def run_command(status: int, cluster: PostgresCluster, *arguments: str) -> tuple[str, str]:
    """Return stdout and stderr of a command on a server's database; it must exit with ``status``."""
    with broker(cluster.url(BROKER), *arguments) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == status, err
    return out, err


def count(cluster: PostgresCluster, table: str) -> int:
    """Return the number of rows of one of the broker's tables."""
    with psycopg.connect(cluster.url(BROKER)) as connection:
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])
