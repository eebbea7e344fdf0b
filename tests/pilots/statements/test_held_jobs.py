"""A job whose input failed at a node is given to pilots of other nodes alone, until its time is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.pilots.answers.why_job import why_job
from broker.pilots.answers.why_node import why_node
from broker.pilots.statements.held_jobs import hold_jobs, release_jobs
from broker.pilots.statements.matches import RETRY_ELSEWHERE, Match, MatchFound, NoMatch
from broker.store.connection.database import Database
from broker.store.query_context import Asking
from tests.pilots.statements.test_job_match import LONG, add_jobs, follow, given, matcher, states
from tests.store.pool_grid import at, emptied, execute, publish_places, refresh, rows

BAD, OTHER = replace(LONG, host="bad"), replace(LONG, host="good")
HOUR, UNTIL = timedelta(hours=1), at(100)


@pytest.fixture
def database(shared: Database) -> Iterator[Database]:
    publish_places(emptied(shared))
    execute(shared, "TRUNCATE broker.failed_inputs, broker.queue_health, doma_panda.jedi_dataset_contents CASCADE")
    refresh(shared, 0)
    yield shared
    execute(shared, "TRUNCATE broker.failed_inputs, broker.queue_health, broker.held_jobs")


def hold(database: Database, job: int, node: str = "bad", until: datetime = UNTIL, queue: str = "QUEUE_A") -> None:
    execute(
        database,
        "INSERT INTO broker.held_jobs VALUES (:job, :node, :queue, :until)",
        job=job, node=node, queue=queue, until=until,
    )  # fmt: skip


def jobs_of(found: list[tuple[MatchFound, bool]]) -> list[int | None]:
    return [one.pandaid if isinstance(one, Match) else None for one, _ in found]


@pytest.mark.parametrize(
    ("seconds", "host", "gets"),
    [
        (99.999, "bad", 11),
        (100, "bad", 10),  # the instant at which it is released
        (99.999, "good", 10),
        (99.999, None, 10),  # a pilot that does not name its node
    ],
)
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("queue", ["QUEUE_A", ""])
def test_who_gets_a_job_that_is_held(
    database: Database, seconds: float, host: str | None, gets: int, together: bool, queue: str
) -> None:
    add_jobs(database, 10, 2)
    follow(database)
    hold(database, 10, queue=queue)
    pilot, now = replace(LONG, host=host), at(seconds)
    with matcher(database) as one:
        if together:
            assert jobs_of(one.match_together([(pilot, None)], now)) == [gets]
        else:
            assert jobs_of([(one.match(pilot, now), False)]) == [gets]
    assert states(database) == {"activated": 1, "sent": 1}


def test_one_statement_for_several_pilots_gives_a_job_that_is_held_to_none_of_its_node(database: Database) -> None:
    add_jobs(database, 10, 4)
    follow(database)
    with matcher(database) as one:
        one.look([(BAD, None)], at(0))
        hold(database, 10)  # after the place was read
        asked = [(BAD, ("bad", 1)), (OTHER, ("good", 1)), (BAD, ("bad", 2))]
        assert jobs_of(one.match_together(asked, at(1))) == [11, 12, 13]
        assert jobs_of(one.match_together([(BAD, ("bad", 3))], at(21))) == [None]
        # who asks again gets what it got, also where it would not get it now
        hold(database, 11)
        assert one.match_together([(BAD, ("bad", 1))], at(22))[0][1]
        assert jobs_of(one.match_together([(BAD, ("bad", 1)), (OTHER, ("good", 2))], at(22))) == [11, 10]
    assert states(database) == {"sent": 4}


def test_what_the_pilot_of_the_node_leaves_the_others_find_at_once(database: Database) -> None:
    add_jobs(database, 10, 3)
    follow(database)
    hold(database, 10)
    with matcher(database) as one:
        taken = [one.match(BAD, at(0)), one.match(BAD, at(1)), one.match(BAD, at(2)), one.match(OTHER, at(3))]
    assert [found.pandaid for found in taken if isinstance(found, Match)] == [11, 12, 10]
    assert taken[2] == NoMatch("QUEUE_A", RETRY_ELSEWHERE, {}, "bad", at(100))


@pytest.mark.parametrize("queue", ["QUEUE_A", ""])
def test_a_search_of_others_begins_before_the_jobs_that_a_pilot_left(database: Database, queue: str) -> None:
    add_jobs(database, 10, 3)
    follow(database)
    hold(database, 10, queue=queue)
    with matcher(database) as one:
        assert one.match(BAD, at(0)) == Match(11, 1, 1, "QUEUE_A", None)
        group = one.group([(OTHER, None), (BAD, None)], at(1))
        take = group.next_take()
        assert take is not None
        group.settle(one._take(take))
        # the pilot of the node is matched alone
        assert [None if found is None else found.pandaid for found in group.found] == [10, None]


def test_each_job_is_given_once_while_some_are_held(database: Database) -> None:
    add_jobs(database, 1, 60)
    follow(database)
    for job in range(1, 61, 3):
        hold(database, job)
    taken: list[int] = []
    with matcher(database, 1) as one, matcher(database, 2) as two:
        for number in range(12):
            asked = [(BAD if (number + place) % 2 else OTHER, None) for place in range(6)]
            found = (one if number % 2 else two).match_together(asked, at(number))
            for (pilot, _), got in zip(asked, jobs_of(found), strict=True):
                if got is not None:
                    taken.append(got)
                    assert pilot is OTHER or got % 3 != 1
    assert sorted(taken) == list(range(1, 61)) and states(database) == {"sent": 60}


def test_a_job_that_is_gone_is_no_reason(database: Database) -> None:
    add_jobs(database, 10, jobstatus="running")
    add_jobs(database, 11)
    follow(database)
    hold(database, 10)
    with database.begin() as other:
        other.execute(sa.text("SELECT FROM broker.waiting_jobs FOR UPDATE"))
        assert given(database, BAD, 1) == NoMatch("QUEUE_A", "taken_by_others", {})
        hold(database, 11, until=at(50))
        assert given(database, BAD, 1) == NoMatch("QUEUE_A", RETRY_ELSEWHERE, {}, "bad", at(50))
        assert given(database, OTHER, 1) == NoMatch("QUEUE_A", "taken_by_others", {})


def test_why_a_job_waits_and_what_a_node_is_not_given(database: Database) -> None:
    add_jobs(database, 10, 3)
    follow(database)
    hold(database, 10, until=at(200))
    hold(database, 11)
    hold(database, 11, "worse", at(90))
    with database.begin() as connection:
        told = why_job(Asking(connection, database.names, at(90)), 11)
        assert [(one.node, one.held_until) for one in told.held_from] == [("bad", at(100))]
        sentence = "input of the job failed at node bad: its pilots are given the job again from"
        assert told.sentences[0] == f"{sentence} 2026-08-01T00:01:40+00:00"
        raw = Database.raw(connection)
        here = why_node(raw, database.names, BAD, at(90)).held
        assert here is not None and (here.node, here.jobs, here.held_until) == ("bad", 2, at(100))
        for pilot in (OTHER, LONG):
            assert why_node(raw, database.names, pilot, at(90)).held is None
        assert why_node(raw, database.names, BAD, at(200)).held is None


def failed_at(database: Database, seconds: float, node: str = "bad", queue: str = "QUEUE_A", file: int = 3) -> None:
    execute(
        database,
        "INSERT INTO broker.failed_inputs VALUES (1, 5, :file, :queue, :node, :at)",
        file=file, queue=queue, node=node, at=at(seconds),
    )  # fmt: skip


def input_of(database: Database, job: int, file: int = 3) -> None:
    execute(
        database,
        "INSERT INTO doma_panda.jedi_dataset_contents (jeditaskid, datasetid, fileid, status, pandaid)"
        " VALUES (1, 5, :file, 'running', :job)",
        file=file, job=job,
    )  # fmt: skip


def ended_at(database: Database, *nodes: str, queue: str = "QUEUE_A") -> None:
    for node in nodes:
        execute(
            database,
            "INSERT INTO broker.queue_health (queue, kind, node, state, statistic, ended, failed, tasks, evidence,"
            " times, memory_ended, memory_failed, last_task, run, probes_ended, probes_finished)"
            " VALUES (:queue, 'production', :node, 'healthy', 0, 1, 0, '{}', '{}', 0, 0, 0, 0, 0, 0, 0)",
            queue=queue, node=node,
        )  # fmt: skip


def held(database: Database) -> list[tuple[object, ...]]:
    return [tuple(row) for row in rows(database, "SELECT * FROM broker.held_jobs ORDER BY 1, 2")]


def holding(database: Database, seconds: float, jobs: list[int] | None = None, on: bool = True) -> int:
    with database.begin() as connection:
        if on:
            hold_jobs(connection, database.names, at(seconds), HOUR, jobs)
        return release_jobs(connection, database.names, at(seconds), holding=on)


@pytest.mark.parametrize(
    ("job", "nodes", "now", "only", "held_from"),
    [
        ({}, ("bad", "good"), 3599, None, True),
        ({}, ("bad", "good"), 3600, None, False),  # its time is over
        ({}, ("", "bad"), 10, None, False),  # nobody else would come for it
        ({}, (), 10, None, False),
        ({"jobstatus": "running"}, ("bad", "good"), 10, None, False),
        ({"computingsite": "QUEUE_B"}, ("bad", "good"), 10, None, False),  # of which no node is known
        ({"computingsite": None}, (), 10, None, True),
        ({}, ("bad", "good"), 10, [10], True),
        ({}, ("bad", "good"), 10, [11], False),
    ],
)
def test_which_jobs_are_held(
    database: Database, job: dict[str, Any], nodes: tuple[str, ...], now: float, only: list[int] | None,
    held_from: bool,
) -> None:  # fmt: skip
    add_jobs(database, 10, **job)
    input_of(database, 10)
    failed_at(database, 0)
    failed_at(database, -5000, "long ago")
    failed_at(database, 0, "")
    ended_at(database, *nodes)
    queue = job.get("computingsite", "QUEUE_A") or ""
    wanted = [(10, "bad", queue, at(3600))] if held_from else []
    with database.begin() as connection:
        assert hold_jobs(connection, database.names, at(now), HOUR, only) == len(wanted)
    assert held(database) == wanted
    assert (holding(database, now, only), held(database)) == (len(wanted), wanted)


def test_the_last_failure_at_a_node_counts_whichever_the_queue_and_the_file(database: Database) -> None:
    add_jobs(database, 10)
    input_of(database, 10)
    input_of(database, 10, 4)
    failed_at(database, 5)
    failed_at(database, 20, queue="QUEUE_B")
    failed_at(database, 10, file=4)
    failed_at(database, 7, "worse", file=4)
    ended_at(database, "bad", "good", "worse")
    assert holding(database, 30) == 1
    assert held(database) == [(10, "bad", "QUEUE_A", at(3620)), (10, "worse", "QUEUE_A", at(3607))]
    failed_at(database, 40, queue="QUEUE_C")
    holding(database, 50)
    assert held(database)[0] == (10, "bad", "QUEUE_A", at(3640))
    # the last instant of the other has come
    holding(database, 3607)
    assert held(database) == [(10, "bad", "QUEUE_A", at(3640))]


@pytest.mark.parametrize(
    ("change", "on"),
    [
        ("UPDATE doma_panda.jobsactive4 SET jobstatus = 'sent'", True),
        ("DELETE FROM doma_panda.jobsactive4", True),
        ("SELECT 1", False),
    ],
)
def test_a_job_that_ends_or_the_key_releases(database: Database, change: str, on: bool) -> None:
    add_jobs(database, 10)
    input_of(database, 10)
    failed_at(database, 0)
    ended_at(database, "bad", "good")
    assert holding(database, 1) == 1
    execute(database, f"{change} WHERE true")
    assert holding(database, 2, on=on) == 0 and held(database) == []
