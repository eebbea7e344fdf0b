from __future__ import annotations

import json

import pytest

from broker.domain.work import PlacementConstraints
from broker.pools.statements.pool_reads import (
    all_pools,
    for_arguments,
    get_submit_pools_for_queue,
    one_pool,
    queues_of_pool,
)
from broker.pools.statements.pool_registration import (
    PoolCollision,
    RegisteredPool,
    TaskRequirements,
    attach,
    read_placement_constraints,
    register,
    restore_missing,
)
from broker.pools.statements.resource_versions import MOST_VERSIONS, BadResources, ResourceText, current, publish
from broker.store.connection.database import Database
from tests.pools.pool_grid import (
    PLACES,
    add_task,
    at,
    emptied,
    execute,
    mapping_of,
    pool_for,
    publish_places,
    rows,
)


@pytest.fixture
def database(shared_database: Database) -> Database:
    return emptied(shared_database)


def register_pool(database: Database, seconds: float = 0, **requirements: object) -> RegisteredPool:
    with database.begin() as connection:
        return register(connection, pool_for(**requirements), at(seconds))


def test_a_new_pool_is_evaluated_at_once_and_a_known_pool_is_only_used(database: Database) -> None:
    publish_places(database)
    first = register_pool(database, Memory=4000)
    assert (first.queue_count, first.evaluated) == (2, True)
    before = mapping_of(database)
    assert [row[1:4] for row in before] == [("SITE_A", "ce1", "long"), ("SITE_B", "ce1", "QUEUE_B")]
    assert {row[4:] for row in before} == {(at(0), at(0))}
    second = register_pool(database, 50, Memory=4000)
    assert second == RegisteredPool(first.pool_id, first.number, 2, False)
    assert mapping_of(database) == before
    [pool] = rows(database, "SELECT vo, created_at, last_used_at, refreshed_at, queue_count FROM broker.submit_pools")
    assert pool == ("lhcb", at(0), at(50), at(0), 2)


def test_a_late_registration_does_not_move_the_last_use_back(database: Database) -> None:
    register_pool(database, 50, Memory=1)
    register_pool(database, 20, Memory=1)
    assert rows(database, "SELECT last_used_at FROM broker.submit_pools") == [(at(50),)]


def test_a_pool_without_resources_is_stored_and_evaluated_by_the_next_registration(database: Database) -> None:
    assert register_pool(database, Memory=1).evaluated is False
    assert rows(database, "SELECT refreshed_at, queue_count FROM broker.submit_pools") == [(None, 0)]
    publish_places(database)
    assert register_pool(database, Memory=1).queue_count == 3


def test_a_pool_that_no_queue_meets_is_kept(database: Database) -> None:
    publish_places(database)
    assert register_pool(database, Memory=100_000).queue_count == 0
    with database.read_snapshot() as connection:
        [row] = all_pools(connection)
    assert (row.queue_count, row.refreshed_at) == (0, at(0))


def test_other_requirements_under_the_same_identifier_are_refused(database: Database) -> None:
    register_pool(database, Memory=1)
    execute(database, "UPDATE broker.submit_pools SET canonical = 'other'")
    with pytest.raises(PoolCollision, match="other"):
        register_pool(database, 10, Memory=1)
    assert rows(database, "SELECT last_used_at FROM broker.submit_pools") == [(at(0),)]


def test_the_pools_of_a_queue(database: Database) -> None:
    publish_places(database)
    ids = sorted(register_pool(database, **{"Memory": memory}).pool_id for memory in (1, 5000))
    with database.begin() as connection:
        atlas = register(connection, pool_for("atlas", Memory=1), at(0)).pool_id
    with database.read_snapshot() as connection:
        assert get_submit_pools_for_queue(connection, "SITE_A", "ce1", "long") == tuple(sorted([*ids, atlas]))
        assert get_submit_pools_for_queue(connection, "SITE_A", "ce1", "long", "LHCb") == tuple(ids)
        assert get_submit_pools_for_queue(connection, "SITE_A", "ce1", "long", "atlas") == (atlas,)
        assert get_submit_pools_for_queue(connection, "SITE_A", "ce1", "long", "cms") == ()
        assert get_submit_pools_for_queue(connection, "SITE_A", "ce9", "long") == ()
        assert [row.panda_queue for row in queues_of_pool(connection, atlas)] == ["QUEUE_A", "QUEUE_A"]
        assert one_pool(connection, "sp1-none") is None
        assert one_pool(connection, atlas) == next(row for row in all_pools(connection) if row.pool_id == atlas)


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (100, 100), (101, 0)])
def test_a_list_that_is_too_long_is_not_put_into_arguments(count: int, expected: int) -> None:
    assert len(for_arguments([f"sp1-{number:032x}" for number in range(count)])) == expected


def test_placement_constraints_of_the_jobs_of_a_task(database: Database) -> None:
    pool = pool_for(Memory=1)
    with database.begin() as connection:
        attach(connection, 1, pool, TaskRequirements({"Memory": 1}, ["B", "A", "B"], ["C"], ["el9"], 5000))
        attach(connection, 2, None, TaskRequirements(platforms=["el9"]))
        attach(connection, 3, None, TaskRequirements(banned_sites=["C"]))
        constraints = read_placement_constraints(connection, [1, 2, 3, 4])
    assert constraints == {
        1: PlacementConstraints(pool.pool_id, ("A", "B"), ("C",)),
        3: PlacementConstraints(None, (), ("C",)),
    }
    with database.begin() as connection:  # attached again, as after a change of the requirements
        attach(connection, 1, None, TaskRequirements())
        assert read_placement_constraints(connection, [1]) == {}


def test_placement_constraints_are_read_back_from_either_stored_form() -> None:
    constraints = PlacementConstraints("sp1-x", ('a"b', "ü"), ("c,d",))
    assert PlacementConstraints.of_stored(constraints.stored()) == constraints
    assert PlacementConstraints.of_stored(json.dumps(constraints.stored())) == constraints
    assert [constraints.admits(site) for site in ("ü", "c,d", None)] == [True, False, False]
    assert PlacementConstraints().admits(None)


def test_a_deleted_pool_is_restored_for_running_tasks(database: Database) -> None:
    publish_places(database)
    pool, pool_of_done_task = pool_for(Memory=1), pool_for(Memory=2)
    with database.begin() as connection:
        attach(connection, 1, pool, TaskRequirements())
        attach(connection, 2, pool_of_done_task, TaskRequirements())
        attach(connection, 3, None, TaskRequirements())
    add_task(database, 1, "running")
    add_task(database, 2, "done")
    with database.begin() as connection:
        assert restore_missing(connection, database.names, at(9)) == 1
        assert restore_missing(connection, database.names, at(10)) == 0
    assert rows(database, "SELECT pool_id, queue_count FROM broker.submit_pools") == [(pool.pool_id, 3)]


def test_versions_of_the_resources(database: Database) -> None:
    with database.read_snapshot() as connection:
        assert current(connection) is None
    assert publish_places(database) is True
    assert publish_places(database, seconds=5) is False
    assert publish_places(database, {"SITE_A": PLACES["SITE_A"]}, 9) is True
    assert publish_places(database, seconds=12) is True  # returning to the first content is a new version
    with database.begin() as connection, pytest.raises(BadResources, match="cannot be read"):
        publish(connection, ResourceText("x", "json", "[1"), at(20))
    with database.read_snapshot() as connection:
        version = current(connection)
    assert version is not None
    assert (version.id, version.published_at, len(version.content.resources.queues)) == (3, at(12), 3)


def test_old_versions_of_the_resources_are_forgotten(database: Database) -> None:
    for number in range(MOST_VERSIONS + 2):
        publish_places(database, {f"SITE_{number}": {}})
    assert rows(database, "SELECT min(id), max(id) FROM broker.resource_versions") == [(3, MOST_VERSIONS + 2)]
