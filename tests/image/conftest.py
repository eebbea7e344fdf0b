"""The image, as ``make test-image`` has built it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.container import Image
from tests.marked_folders import keep_to_mark
from tests.operations.postgres_cluster import PostgresCluster, open_folder

FOLDER = "BROKER_TEST_IMAGE"
"""Variable of the environment: the folder of ``.ci/build-image``."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything here belongs to the mark, and is run where it was asked for."""
    keep_to_mark(config, items, __file__, "image")


@pytest.fixture(scope="session")
def image() -> Image:
    """The image that was built from this checkout."""
    return Image.read(Path(os.environ[FOLDER]))


@pytest.fixture
def cluster() -> Iterator[PostgresCluster]:
    """A PostgreSQL over TCP, as the service ``database`` of docker-compose.yml is one."""
    found = PostgresCluster(open_folder("cluster"), "p@ss/w:rd?%")
    found.make()
    found.start()
    yield found
    found.remove()
