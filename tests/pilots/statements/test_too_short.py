"""Pilots without the CPU time for what is left are not tried again and again with the same task queue."""

from __future__ import annotations

import pytest

from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.matches import Match
from broker.pools.statements.pool_registration import Asked, attach
from broker.store.connection.database import Database
from tests.pilots.statements.test_job_match import add_jobs, follow, matcher
from tests.store.pool_grid import at, emptied, publish_places, refresh, rows


@pytest.fixture
def database(shared: Database) -> Database:
    publish_places(emptied(shared))
    refresh(shared, 0)
    add_job(shared, 1, 100_000)
    return shared


def pilot(seconds: int) -> Pilot:
    return Pilot("SITE_A", "ce1", "long", "lhcb", cputime_s=seconds)


def add_job(database: Database, number: int, needs_s: int) -> None:
    with database.begin() as connection:
        attach(connection, number, None, Asked(cputime_s=needs_s))
    add_jobs(database, number, jeditaskid=number)
    follow(database)


def is_tried(one: Matcher, cputime_s: int, seconds: float) -> bool:
    asked = [(pilot(cputime_s), None)]
    one.look(asked, at(seconds))
    return one.group(asked, at(seconds)).next_take() is not None


def find_nothing(one: Matcher) -> None:
    ((found, _),) = one.match_together([(pilot(90_000), None)], at(0))
    assert not isinstance(found, Match)


def test_who_has_no_more_time_than_a_pilot_that_found_nothing_is_not_tried_there(database: Database) -> None:
    with matcher(database) as one:
        assert is_tried(one, 90_000, 0)
        find_nothing(one)
        assert not is_tried(one, 90_000, 1) and not is_tried(one, 87_000, 1)
        assert is_tried(one, 95_000, 1)
        assert is_tried(one, 90_000, 20)  # nobody may have told of others


def test_a_group_says_too_that_it_found_nothing(database: Database) -> None:
    with matcher(database) as one:
        assert is_tried(one, 90_000, 0)
        group = one.group([(pilot(90_000), None)], at(0))
        assert group.next_take() is not None
        group.settle([])
        assert not is_tried(one, 90_000, 1)


def test_a_shorter_job_of_which_a_message_tells_is_tried_at_once(database: Database) -> None:
    with matcher(database) as one:
        find_nothing(one)
        add_job(database, 2, 88_000)
        assert not is_tried(one, 90_000, 1)
        ((queue,),) = rows(database, "SELECT id FROM broker.task_queues")
        one._views.groups.read_some(one._cursor, [queue])
        assert is_tried(one, 90_000, 1)


def test_a_shorter_job_of_which_nobody_tells_is_found_where_task_queues_are_few(database: Database) -> None:
    with matcher(database) as one:
        find_nothing(one)
        add_job(database, 2, 88_000)
        ((found, _),) = one.match_together([(pilot(90_000), None)], at(1))
    assert isinstance(found, Match) and found.pandaid == 2
