"""A task queue is not tried again for pilots whose CPU time is too short for its jobs."""

from __future__ import annotations

import pytest

from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.matches import Match
from broker.pools.statements.pool_registration import TaskRequirements, attach
from broker.store.connection.database import Database
from tests.pilots.statements.test_job_match import add_jobs, follow, matcher
from tests.pools.pool_grid import at, emptied, publish_places, refresh, rows


@pytest.fixture
def database(shared_database: Database) -> Database:
    publish_places(emptied(shared_database))
    refresh(shared_database, 0)
    add_job(shared_database, 1, 100_000)
    return shared_database


def pilot(seconds: int) -> Pilot:
    return Pilot("SITE_A", "ce1", "long", "lhcb", cputime_s=seconds)


def add_job(database: Database, number: int, needs_s: int) -> None:
    with database.begin() as connection:
        attach(connection, number, None, TaskRequirements(cputime_s=needs_s))
    add_jobs(database, number, jeditaskid=number)
    follow(database)


def is_tried(job_matcher: Matcher, cputime_s: int, seconds: float) -> bool:
    requests = [(pilot(cputime_s), None)]
    job_matcher.look(requests, at(seconds))
    return job_matcher.group(requests, at(seconds)).next_take() is not None


def find_nothing(job_matcher: Matcher) -> None:
    ((result, _),) = job_matcher.match_together([(pilot(90_000), None)], at(0))
    assert not isinstance(result, Match)


def test_a_pilot_with_no_more_time_than_one_that_found_nothing_is_not_tried(database: Database) -> None:
    with matcher(database) as job_matcher:
        assert is_tried(job_matcher, 90_000, 0)
        find_nothing(job_matcher)
        assert not is_tried(job_matcher, 90_000, 1) and not is_tried(job_matcher, 87_000, 1)
        assert is_tried(job_matcher, 95_000, 1)
        assert is_tried(job_matcher, 90_000, 20)  # new jobs may have come without a message


def test_a_group_also_notes_that_it_found_nothing(database: Database) -> None:
    with matcher(database) as job_matcher:
        assert is_tried(job_matcher, 90_000, 0)
        group = job_matcher.group([(pilot(90_000), None)], at(0))
        assert group.next_take() is not None
        group.settle([])
        assert not is_tried(job_matcher, 90_000, 1)


def test_a_shorter_job_announced_by_a_message_is_tried_at_once(database: Database) -> None:
    with matcher(database) as job_matcher:
        find_nothing(job_matcher)
        add_job(database, 2, 88_000)
        assert not is_tried(job_matcher, 90_000, 1)
        ((queue,),) = rows(database, "SELECT id FROM broker.task_queues")
        job_matcher._views.groups.read_some(job_matcher._cursor, [queue])
        assert is_tried(job_matcher, 90_000, 1)


def test_a_shorter_job_without_a_message_is_found_where_task_queues_are_few(database: Database) -> None:
    with matcher(database) as job_matcher:
        find_nothing(job_matcher)
        add_job(database, 2, 88_000)
        ((result, _),) = job_matcher.match_together([(pilot(90_000), None)], at(1))
    assert isinstance(result, Match) and result.pandaid == 2
