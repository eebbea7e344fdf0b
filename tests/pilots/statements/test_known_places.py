"""The matcher's cache of places: read for the first pilot, and refreshed for many places at once before it expires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import tuple_row

from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.task_queue_views import Views, place_of, read_place
from broker.store.connection.database import Database
from tests.pools.pool_grid import at, emptied, execute, publish_places, refresh

PILOTS = [
    Pilot("SITE_A", "ce1", "long", "lhcb"),
    Pilot("SITE_A", "ce1", "long"),
    Pilot("SITE_X", "none", "made up", "lhcb"),
]


@pytest.fixture
def cursor(database: Database) -> Iterator[psycopg.Cursor[Any]]:
    publish_places(emptied(database))
    refresh(database, 0)
    with psycopg.connect(database.url, autocommit=True) as connection:
        yield connection.cursor(row_factory=tuple_row)


def test_places_read_together_equal_places_read_one_by_one(database: Database, cursor: psycopg.Cursor[Any]) -> None:
    views = Views()
    for pilot in PILOTS:
        views.look(cursor, pilot, at(0))
    assert views[place_of(PILOTS[2])].number is None and views[place_of(PILOTS[2])].panda_queue == "made up"
    execute(database, "UPDATE broker.resource_queues SET tags = '[\"fast\"]' WHERE site = 'SITE_A'")
    for pilot in PILOTS:
        views.of(pilot, at(11))
    views.refresh(cursor, at(11))
    assert [views[place_of(pilot)] for pilot in PILOTS] == [read_place(cursor, pilot, at(11)) for pilot in PILOTS]
    assert views[place_of(PILOTS[0])].tags == {"fast"}


def test_only_places_that_were_requested_and_expire_soon_are_refreshed(cursor: psycopg.Cursor[Any]) -> None:
    views = Views()
    first, second = PILOTS[:2]
    for pilot in (first, second):
        views.look(cursor, pilot, at(0))
    views.refresh(cursor, at(5))
    assert views[place_of(first)].read_at == at(0)  # not old enough
    views.refresh(cursor, at(11))  # both were requested when they were read
    views.of(first, at(20))
    views.refresh(cursor, at(22))
    assert [views[place_of(pilot)].read_at for pilot in (first, second)] == [at(22), at(11)]
