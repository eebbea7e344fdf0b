from __future__ import annotations

import copy
from typing import Any

import pytest

from broker.pools.statements.pool_refresh import RefreshState, new_mapping, refresh_state, write_mapping
from broker.pools.statements.pool_registration import register
from broker.pools.statements.resource_versions import current
from broker.store.connection.database import Database
from tests.pools.pool_grid import (
    PLACES,
    at,
    emptied,
    execute,
    mapping_of,
    pool_for,
    publish_places,
    refresh,
    rows,
)


@pytest.fixture
def database(shared_database: Database) -> Database:
    return emptied(shared_database)


@pytest.fixture
def grid(database: Database) -> Database:
    """Places and two pools."""
    publish_places(database)
    with database.begin() as connection:
        for memory in (1, 5000):
            register(connection, pool_for(Memory=memory), at(0))
    return database


def state_of(database: Database) -> RefreshState:
    with database.read_snapshot() as connection:
        return refresh_state(connection)


def places_with(**params_of_short: Any) -> dict[str, Any]:
    places = copy.deepcopy(PLACES)
    places["SITE_A"]["ces"]["ce1"]["queues"]["short"] = {"params": params_of_short}
    return places


def test_a_refresh_without_changes_updates_only_the_confirmation_time(grid: Database) -> None:
    before = mapping_of(grid)
    assert refresh(grid, 900) == {"pools": 2, "queues": 3, "added": 0, "removed": 0}
    assert mapping_of(grid) == [(*row[:5], at(900)) for row in before]
    assert rows(grid, "SELECT DISTINCT last_used_at, refreshed_at FROM broker.submit_pools") == [(at(0), at(900))]


def test_queues_come_and_go(grid: Database) -> None:
    publish_places(grid, places_with(Memory="6000"), 10)
    assert refresh(grid, 20) == {"pools": 2, "queues": 3, "added": 1, "removed": 0}
    [new] = [row for row in mapping_of(grid) if row[3] == "short" and row[4] == at(20)]
    assert new[0] == pool_for(Memory=5000).pool_id
    del (places_without_short := places_with())["SITE_A"]["ces"]["ce1"]["queues"]["short"]
    publish_places(grid, places_without_short, 30)
    counts = refresh(grid, 40)
    assert (counts["queues"], {row[3] for row in mapping_of(grid)}) == (2, {"long", "QUEUE_B"})
    assert rows(grid, "SELECT queue_count FROM broker.submit_pools ORDER BY 1") == [(1,), (2,)]
    publish_places(grid, places_with(Memory="0"), 50)
    assert refresh(grid, 60)["added"] == 0
    assert len(rows(grid, "SELECT 1 FROM broker.resource_queues")) == 3


def test_the_panda_queue_of_a_place_may_change(grid: Database) -> None:
    refresh(grid, 5)
    publish_places(grid, places_with(PandaQueue="OTHER"), 10)
    refresh(grid, 20)
    panda_queues = rows(grid, "SELECT queue, panda_queue FROM broker.resource_queues ORDER BY 1")
    assert panda_queues == [("QUEUE_B", None), ("long", "QUEUE_A"), ("short", "OTHER")]


def test_pools_may_come_and_go_while_the_mapping_is_computed(grid: Database) -> None:
    with grid.begin() as connection:
        version = current(connection)
        assert version is not None
        mapping = new_mapping(connection, version.content.resources)
    execute(grid, "DELETE FROM broker.submit_pools WHERE pool_id = :id", id=pool_for(Memory=1).pool_id)
    with grid.begin() as connection:
        register(connection, pool_for(Memory=3), at(5))
    with grid.begin() as connection:
        counts = write_mapping(connection, mapping, version.content.resources, version.id, at(9))
    assert counts["pools"] == 1
    by_pool = dict(rows(grid, "SELECT pool_id, count(*) FROM broker.submit_pool_queues GROUP BY 1"))
    assert by_pool == {pool_for(Memory=5000).pool_id: 1, pool_for(Memory=3).pool_id: 3}


def test_a_pool_with_an_unreadable_definition_keeps_its_queues(grid: Database) -> None:
    bad = pool_for(Memory=1).pool_id
    execute(grid, "UPDATE broker.submit_pools SET canonical = '[]' WHERE pool_id = :id", id=bad)
    with grid.read_snapshot() as connection:
        version = current(connection)
        assert version is not None
        assert new_mapping(connection, version.content.resources).unreadable == (bad,)
    refresh(grid, 9)
    assert len([row for row in mapping_of(grid) if row[0] == bad]) == 3


@pytest.mark.parametrize(
    ("state", "due"),
    [
        (RefreshState(None, None, None, False, None), True),
        (RefreshState(1, at(0), 1, False, at(0)), True),
        (RefreshState(1, at(0.001), 1, False, at(0)), False),
        (RefreshState(1, at(800), 2, False, at(0)), True),
        (RefreshState(1, at(800), 1, True, at(0)), True),
    ],
)
def test_when_a_refresh_is_due(state: RefreshState, due: bool) -> None:
    assert state.is_due(at(900), 900) is due


def test_the_time_since_the_last_refresh(grid: Database) -> None:
    assert state_of(grid).unrefreshed_s(at(70)) == 70  # since the first pool was evaluated
    refresh(grid, 100)
    assert state_of(grid) == RefreshState(1, at(100), 1, False, at(100))
    assert state_of(grid).unrefreshed_s(at(170)) == 70
    execute(grid, "DELETE FROM broker.submit_pools")
    assert state_of(grid).unrefreshed_s(at(170)) is None
