"""The lifecycle of a SubmitPool: jobs come and go, queues change, pilots ask, unused pools are removed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from broker.pilots.model.matcher import Pilot, pool_fits
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.matches import Match
from broker.pools.statements.pool_cleanup import remove_unused
from broker.pools.statements.pool_registration import TaskRequirements, attach, register
from broker.pools.statements.resource_versions import BadResources, ResourceText, publish
from broker.store.connection.database import Database
from tests.pilots.statements.test_job_match import add_jobs, follow
from tests.pools.pool_grid import PLACES, at, emptied, pool_for, publish_places, refresh, rows

CASES = json.loads((Path(__file__).parent / "submit_pool_life.json").read_text(encoding="utf-8"))


@pytest.fixture
def life(shared_database: Database) -> Iterator[Life]:
    with psycopg.connect(shared_database.url, autocommit=True) as connection:
        yield Life(emptied(shared_database), connection)


class Life:
    """Events of a pool for which the queue SITE_A/ce1/long is eligible and SITE_A/ce1/short is not."""

    def __init__(self, database: Database, connection: psycopg.Connection[Any]) -> None:
        self._database, self._places, self._jobs = database, copy.deepcopy(PLACES), 0
        self._matcher = Matcher(connection, database.names, np.random.default_rng(1))
        publish_places(database, self._places)

    def submit(self, second: float) -> None:
        pool = pool_for(Memory=5000)
        with self._database.begin() as connection:
            register(connection, pool, at(second))
            attach(connection, 1, pool, TaskRequirements())
        self._jobs += 1
        add_jobs(self._database, self._jobs)
        follow(self._database, second)

    def pilot(self, second: float, queue: str, gets_a_job: bool) -> None:
        answer = self._matcher.match(Pilot("SITE_A", "ce1", queue, "lhcb"), at(second))
        assert isinstance(answer, Match) is gets_a_job

    def clean_up(self, second: float, pools: int) -> None:
        with self._database.begin() as connection:
            remove_unused(connection, self._database.names, at(second), timedelta(hours=1))
        self.pools(second, pools)

    def pools(self, second: float, pools: int) -> None:
        pool_rows = rows(self._database, "SELECT pool_id FROM broker.submit_pools")
        assert pool_rows == [(pool_for(Memory=5000).pool_id,)] * pools

    def queues(self, second: float, queues: int) -> None:
        assert rows(self._database, "SELECT queue_count FROM broker.submit_pools") == [(queues,)]

    def memory(self, second: float, queue: str, value: str) -> None:
        self._places["SITE_A"]["ces"]["ce1"]["queues"][queue] = {"params": {"Memory": value}}
        publish_places(self._database, self._places, second)

    def refresh(self, second: float) -> None:
        refresh(self._database, second)

    def refresh_fails(self, second: float) -> None:
        with self._database.begin() as connection, pytest.raises(BadResources):
            publish(connection, ResourceText("test", "json", "{"), at(second))


@pytest.mark.parametrize("case", CASES["lives"], ids=lambda case: str(case["id"]))
def test_a_sequence_of_events(life: Life, case: dict[str, Any]) -> None:
    for second, event, *expected in case["events"]:
        act: Callable[..., None] = getattr(life, event.replace(" ", "_"))
        act(second, *expected)


@pytest.mark.parametrize("case", CASES["matching"], ids=lambda case: str(case["id"]))
def test_pools_and_pilots(case: dict[str, Any]) -> None:
    assert pool_fits(case["pool"], case["presented"], case.get("mapped")) is case["fits"]


def test_a_presented_pool_list_stays_valid_without_a_mapping() -> None:  # lc07
    assert pool_fits("P1", ["P1"]) is True
