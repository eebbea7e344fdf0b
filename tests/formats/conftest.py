from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.formats.feature_server import FeatureServer, serving


@pytest.fixture
def server() -> Iterator[FeatureServer]:
    with serving() as feature_server:
        yield feature_server
