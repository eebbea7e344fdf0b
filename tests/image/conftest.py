"""The image built by ``make test-image``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.container import Image
from tests.marked_folders import keep_to_mark
from tests.operations.postgres_cluster import PostgresCluster, open_folder

FOLDER = "BROKER_TEST_IMAGE"
"""Environment variable with the folder of ``.ci/build-image``."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all tests of this folder; they run only where the mark is requested."""
    keep_to_mark(config, items, __file__, "image")


@pytest.fixture(scope="session")
def image() -> Image:
    """The image built from this checkout."""
    return Image.read(Path(os.environ[FOLDER]))


@pytest.fixture
def cluster() -> Iterator[PostgresCluster]:
    """A PostgreSQL over TCP, like the service ``database`` of docker-compose.yml."""
    postgres = PostgresCluster(open_folder("cluster"), "p@ss/w:rd?%")
    postgres.make()
    postgres.start()
    yield postgres
    postgres.remove()
