"""Task queues are refreshed in parts; the result equals one read of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.rows import tuple_row

from broker.pilots.model.waiting_groups import WaitingGroups
from broker.pilots.statements.waiting_group_reads import SharedGroups, read_groups
from broker.store.connection.database import Database
from tests.pilots.statements.test_job_match import add_jobs, follow
from tests.pools.pool_grid import at, emptied

QUEUES = "ABCDE"
PART = 2


@pytest.fixture
def database(shared_database: Database) -> Database:
    emptied(shared_database)
    for number, queue in enumerate(QUEUES):
        add(shared_database, 1 + 100 * number, queue)
    return shared_database


def add(database: Database, pandaid: int, queue: str, priority: int = 900) -> None:
    add_jobs(database, pandaid, computingsite=f"QUEUE_{queue}", currentpriority=priority)
    follow(database)


@contextmanager
def groups_at_start(database: Database, part: int = PART) -> Iterator[tuple[SharedGroups, psycopg.Cursor[Any]]]:
    """Groups read in full at 0 s."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        cursor, groups = connection.cursor(row_factory=tuple_row), SharedGroups(part)
        groups.read(cursor, at(0))
        groups.has_requests = True
        yield groups, cursor


def read_all_parts(groups: SharedGroups, cursor: psycopg.Cursor[Any], seconds: float) -> int:
    parts = 0
    while groups.is_part_due(at(seconds)):
        groups.read_part(cursor, at(seconds))
        parts += 1
    return parts


def nonempty(groups: WaitingGroups | None) -> dict[str, tuple[float, dict[int, int]]]:
    """By PanDA queue, the weight and levels of each task queue that holds jobs."""
    assert groups is not None
    queues = groups.queues.panda_queue.tolist()
    return {queue: (groups.at(n)[0], groups.levels[n]) for n, queue in enumerate(queues) if groups.levels[n]}


def remove_jobs(database: Database, queue: str) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute(
            "DELETE FROM broker.waiting_jobs WHERE task_queue IN"
            " (SELECT id FROM broker.task_queues WHERE panda_queue = %s)",
            (f"QUEUE_{queue}",),
        )


@pytest.mark.parametrize(("part", "parts"), [(1, 7), (2, 4), (4, 2), (5, 2), (6, 2), (200, 1)])
def test_the_state_after_the_last_part_equals_one_full_read(database: Database, part: int, parts: int) -> None:
    with groups_at_start(database, part) as (groups, cursor):
        add(database, 1000, "B", priority=950)
        add(database, 1001, "Z")
        for queue in "AD":
            remove_jobs(database, queue)
        before = nonempty(groups.current)
        assert before.keys() == {f"QUEUE_{queue}" for queue in QUEUES}
        assert read_all_parts(groups, cursor, 5) == parts
        assert nonempty(groups.current) == nonempty(read_groups(cursor, None))
        assert nonempty(groups.current).keys() == {"QUEUE_B", "QUEUE_C", "QUEUE_E", "QUEUE_Z"}
        assert nonempty(groups.current)["QUEUE_B"][1].keys() == {900, 950}


def test_reading_a_part_leaves_the_other_parts_unchanged(database: Database) -> None:
    with groups_at_start(database) as (groups, cursor):
        for queue in "AE":
            remove_jobs(database, queue)
        groups.read_part(cursor, at(5))
        assert nonempty(groups.current).keys() == {"QUEUE_B", "QUEUE_C", "QUEUE_D", "QUEUE_E"}


@pytest.mark.parametrize(("seconds", "is_due"), [(4.999, False), (5, True), (-1, False)])
def test_parts_become_due_once_the_state_grows_old(database: Database, seconds: float, is_due: bool) -> None:
    with groups_at_start(database) as (groups, _):
        assert groups.is_part_due(at(seconds)) is is_due


def test_without_requests_a_refresh_is_finished_but_none_is_started(database: Database) -> None:
    with groups_at_start(database) as (groups, cursor):
        groups.read_part(cursor, at(5))
        assert not groups.has_requests and groups.is_part_due(at(5))
        read_all_parts(groups, cursor, 5)
        assert not groups.is_part_due(at(60))
        groups.has_requests = True
        assert groups.is_part_due(at(60))


def test_the_state_is_as_old_as_its_oldest_part(database: Database) -> None:
    with groups_at_start(database) as (groups, cursor):
        groups.read_part(cursor, at(10))
        assert groups.known(at(19)) is not None and groups.known(at(20)) is None
        groups.read_part(cursor, at(18))
        assert groups.known(at(20)) is None
        groups.read_part(cursor, at(19))
        assert groups.known(at(29)) is not None and groups.known(at(30)) is None


def test_empty_task_queues_are_forgotten_once_there_are_many(database: Database) -> None:
    with groups_at_start(database) as (groups, cursor):
        for queue in "AB":
            remove_jobs(database, queue)
        read_all_parts(groups, cursor, 5)
        assert groups.current is not None and len(groups.current.queues) == 5
        remove_jobs(database, "C")
        groups.has_requests = True
        read_all_parts(groups, cursor, 10)
        assert sorted(groups.current.queues.panda_queue) == ["QUEUE_D", "QUEUE_E"]


def test_a_task_queue_with_another_identity_expires_the_whole_state(database: Database) -> None:
    with groups_at_start(database) as (groups, cursor):
        cursor.execute("UPDATE broker.task_queues SET identity = 'another' WHERE panda_queue = 'QUEUE_A'")
        groups.read_part(cursor, at(5))
        assert groups.known(at(5)) is None
        assert nonempty(groups.read(cursor, at(5))) == nonempty(read_groups(cursor, None))


def test_too_short_notes_survive_a_part_read_and_end_when_new_jobs_come(
    database: Database,
) -> None:
    with groups_at_start(database, 200) as (groups, cursor):
        assert groups.current is not None
        groups.current.note_too_short(0, 900, 3600, at(20))
        groups.read_part(cursor, at(5))
        assert groups.current.is_too_short(0, 900, 3600, at(6))
        number = int(groups.current.queues.id[0])
        groups.read_some(cursor, [number])
        assert not groups.current.is_too_short(0, 900, 3600, at(6))
