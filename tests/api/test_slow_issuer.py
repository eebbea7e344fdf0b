"""A token issuer whose answers never end."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest

from broker.api import issuer_keys
from broker.api.configuration import IssuerSection
from broker.api.issuer_keys import IssuerKeys
from broker.store.connection.database import Database
from tests.api.issuer import AUDIENCE
from tests.fetching.web_server import DRIPPING, serving


@pytest.mark.parametrize("part", ["headers", "body"])
def test_reading_dripping_keys_ends_at_the_time_limit(
    shared_database: Database, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(issuer_keys, "TIME_LIMIT_S", 1.0)
    with serving(DRIPPING[part]) as server:
        section = IssuerSection(issuer=server.address(""), audiences=(AUDIENCE,))
        keys = IssuerKeys(section, shared_database, lambda: datetime.now(UTC), time.monotonic)
        assert asyncio.run(asyncio.wait_for(keys.find("one"), 20)) is None
    assert len(server.asked) == 1
