"""A job whose input failed at a node goes only to pilots of other nodes until the hold expires."""

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
from broker.pilots.statements.matches import RETRY_ELSEWHERE, Match, MatchOutcome, NoMatch
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from tests.pilots.statements.test_job_match import LONG, add_jobs, follow, match_once, matcher, states
from tests.pools.pool_grid import at, emptied, execute, publish_places, refresh, rows

BAD, OTHER = replace(LONG, host="bad"), replace(LONG, host="good")
HOUR, UNTIL = timedelta(hours=1), at(100)


@pytest.fixture
def database(shared_database: Database) -> Iterator[Database]:
    publish_places(emptied(shared_database))
    execute(
        shared_database, "TRUNCATE broker.failed_inputs, broker.queue_health, doma_panda.jedi_dataset_contents CASCADE"
    )
    refresh(shared_database, 0)
    yield shared_database
    execute(shared_database, "TRUNCATE broker.failed_inputs, broker.queue_health, broker.held_jobs")


def hold(database: Database, job: int, node: str = "bad", until: datetime = UNTIL, queue: str = "QUEUE_A") -> None:
    execute(
        database,
        "INSERT INTO broker.held_jobs VALUES (:job, :node, :queue, :until)",
        job=job, node=node, queue=queue, until=until,
    )  # fmt: skip


def jobs_of(results: list[tuple[MatchOutcome, bool]]) -> list[int | None]:
    return [result.pandaid if isinstance(result, Match) else None for result, _ in results]


@pytest.mark.parametrize(
    ("seconds", "host", "gets"),
    [
        (99.999, "bad", 11),
        (100, "bad", 10),  # the instant of release
        (99.999, "good", 10),
        (99.999, None, 10),  # a pilot that does not name its node
    ],
)
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("queue", ["QUEUE_A", ""])
def test_which_pilots_get_a_held_job(
    database: Database, seconds: float, host: str | None, gets: int, together: bool, queue: str
) -> None:
    add_jobs(database, 10, 2)
    follow(database)
    hold(database, 10, queue=queue)
    pilot, now = replace(LONG, host=host), at(seconds)
    with matcher(database) as job_matcher:
        if together:
            assert jobs_of(job_matcher.match_together([(pilot, None)], now)) == [gets]
        else:
            assert jobs_of([(job_matcher.match(pilot, now), False)]) == [gets]
    assert states(database) == {"activated": 1, "sent": 1}


def test_matching_several_pilots_at_once_gives_a_held_job_to_no_pilot_of_its_node(database: Database) -> None:
    add_jobs(database, 10, 4)
    follow(database)
    with matcher(database) as job_matcher:
        job_matcher.look([(BAD, None)], at(0))
        hold(database, 10)  # after the place was read
        requests = [(BAD, ("bad", 1)), (OTHER, ("good", 1)), (BAD, ("bad", 2))]
        assert jobs_of(job_matcher.match_together(requests, at(1))) == [11, 12, 13]
        assert jobs_of(job_matcher.match_together([(BAD, ("bad", 3))], at(21))) == [None]
        # a repeated request gets the same job, even one that is held by now
        hold(database, 11)
        assert job_matcher.match_together([(BAD, ("bad", 1))], at(22))[0][1]
        assert jobs_of(job_matcher.match_together([(BAD, ("bad", 1)), (OTHER, ("good", 2))], at(22))) == [11, 10]
    assert states(database) == {"sent": 4}


def test_a_job_skipped_by_the_pilot_of_its_node_is_found_by_others_at_once(database: Database) -> None:
    add_jobs(database, 10, 3)
    follow(database)
    hold(database, 10)
    with matcher(database) as job_matcher:
        results = [
            job_matcher.match(BAD, at(0)),
            job_matcher.match(BAD, at(1)),
            job_matcher.match(BAD, at(2)),
            job_matcher.match(OTHER, at(3)),
        ]
    assert [result.pandaid for result in results if isinstance(result, Match)] == [11, 12, 10]
    assert results[2] == NoMatch("QUEUE_A", RETRY_ELSEWHERE, {}, "bad", at(100))


@pytest.mark.parametrize("queue", ["QUEUE_A", ""])
def test_a_search_for_other_pilots_begins_before_the_jobs_that_a_pilot_skipped(database: Database, queue: str) -> None:
    add_jobs(database, 10, 3)
    follow(database)
    hold(database, 10, queue=queue)
    with matcher(database) as job_matcher:
        assert job_matcher.match(BAD, at(0)) == Match(11, 1, 1, "QUEUE_A", None)
        group = job_matcher.group([(OTHER, None), (BAD, None)], at(1))
        take = group.next_take()
        assert take is not None
        group.settle(job_matcher._take(take))
        # the pilot of the node is matched separately
        assert [None if match is None else match.pandaid for match in group.matches] == [10, None]


def test_each_job_is_given_once_while_some_are_held(database: Database) -> None:
    add_jobs(database, 1, 60)
    follow(database)
    for job in range(1, 61, 3):
        hold(database, job)
    pandaids: list[int] = []
    with matcher(database, 1) as odd_matcher, matcher(database, 2) as even_matcher:
        for number in range(12):
            requests = [(BAD if (number + place) % 2 else OTHER, None) for place in range(6)]
            results = (odd_matcher if number % 2 else even_matcher).match_together(requests, at(number))
            for (pilot, _), pandaid in zip(requests, jobs_of(results), strict=True):
                if pandaid is not None:
                    pandaids.append(pandaid)
                    assert pilot is OTHER or pandaid % 3 != 1
    assert sorted(pandaids) == list(range(1, 61)) and states(database) == {"sent": 60}


def test_a_hold_on_a_job_that_no_longer_waits_is_not_reported(database: Database) -> None:
    add_jobs(database, 10, jobstatus="running")
    add_jobs(database, 11)
    follow(database)
    hold(database, 10)
    with database.begin() as blocker:
        blocker.execute(sa.text("SELECT FROM broker.waiting_jobs FOR UPDATE"))
        assert match_once(database, BAD, 1) == NoMatch("QUEUE_A", "taken_by_others", {})
        hold(database, 11, until=at(50))
        assert match_once(database, BAD, 1) == NoMatch("QUEUE_A", RETRY_ELSEWHERE, {}, "bad", at(50))
        assert match_once(database, OTHER, 1) == NoMatch("QUEUE_A", "taken_by_others", {})


def test_why_a_job_waits_and_which_jobs_are_held_from_a_node(database: Database) -> None:
    add_jobs(database, 10, 3)
    follow(database)
    hold(database, 10, until=at(200))
    hold(database, 11)
    hold(database, 11, "worse", at(90))
    with database.begin() as connection:
        answer = why_job(QueryContext(connection, database.names, at(90)), 11)
        assert [(row.node, row.held_until) for row in answer.held_from] == [("bad", at(100))]
        sentence = "input of the job failed at node bad: its pilots are given the job again from"
        assert answer.sentences[0] == f"{sentence} 2026-08-01T00:01:40+00:00"
        raw = Database.raw(connection)
        held_here = why_node(raw, database.names, BAD, at(90)).held
        assert held_here is not None and (held_here.node, held_here.jobs, held_here.held_until) == ("bad", 2, at(100))
        for pilot in (OTHER, LONG):
            assert why_node(raw, database.names, pilot, at(90)).held is None
        assert why_node(raw, database.names, BAD, at(200)).held is None


def add_failed_input(
    database: Database, seconds: float, node: str = "bad", queue: str = "QUEUE_A", file: int = 3
) -> None:
    execute(
        database,
        "INSERT INTO broker.failed_inputs VALUES (1, 5, :file, :queue, :node, :at)",
        file=file, queue=queue, node=node, at=at(seconds),
    )  # fmt: skip


def add_input(database: Database, job: int, file: int = 3) -> None:
    execute(
        database,
        "INSERT INTO doma_panda.jedi_dataset_contents (jeditaskid, datasetid, fileid, status, pandaid)"
        " VALUES (1, 5, :file, 'running', :job)",
        file=file, job=job,
    )  # fmt: skip


def add_ended_jobs(database: Database, *nodes: str, queue: str = "QUEUE_A") -> None:
    for node in nodes:
        execute(
            database,
            "INSERT INTO broker.queue_health (queue, kind, node, state, statistic, ended, failed, tasks, evidence,"
            " times, memory_ended, memory_failed, last_task, run, probes_ended, probes_finished)"
            " VALUES (:queue, 'production', :node, 'healthy', 0, 1, 0, '{}', '{}', 0, 0, 0, 0, 0, 0, 0)",
            queue=queue, node=node,
        )  # fmt: skip


def held_rows(database: Database) -> list[tuple[object, ...]]:
    return [tuple(row) for row in rows(database, "SELECT * FROM broker.held_jobs ORDER BY 1, 2")]


def update_holds(database: Database, seconds: float, jobs: list[int] | None = None, on: bool = True) -> int:
    with database.begin() as connection:
        if on:
            hold_jobs(connection, database.names, at(seconds), HOUR, jobs)
        return release_jobs(connection, database.names, at(seconds), holding=on)


@pytest.mark.parametrize(
    ("job", "nodes", "now", "only", "held_from"),
    [
        ({}, ("bad", "good"), 3599, None, True),
        ({}, ("bad", "good"), 3600, None, False),  # the hold has expired
        ({}, ("", "bad"), 10, None, False),  # no other node could take it
        ({}, (), 10, None, False),
        ({"jobstatus": "running"}, ("bad", "good"), 10, None, False),
        ({"computingsite": "QUEUE_B"}, ("bad", "good"), 10, None, False),  # no node of that queue is known
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
    add_input(database, 10)
    add_failed_input(database, 0)
    add_failed_input(database, -5000, "long ago")
    add_failed_input(database, 0, "")
    add_ended_jobs(database, *nodes)
    queue = job.get("computingsite", "QUEUE_A") or ""
    expected = [(10, "bad", queue, at(3600))] if held_from else []
    with database.begin() as connection:
        assert hold_jobs(connection, database.names, at(now), HOUR, only) == len(expected)
    assert held_rows(database) == expected
    assert (update_holds(database, now, only), held_rows(database)) == (len(expected), expected)


def test_the_last_failure_at_a_node_counts_for_any_queue_and_file(database: Database) -> None:
    add_jobs(database, 10)
    add_input(database, 10)
    add_input(database, 10, 4)
    add_failed_input(database, 5)
    add_failed_input(database, 20, queue="QUEUE_B")
    add_failed_input(database, 10, file=4)
    add_failed_input(database, 7, "worse", file=4)
    add_ended_jobs(database, "bad", "good", "worse")
    assert update_holds(database, 30) == 1
    assert held_rows(database) == [(10, "bad", "QUEUE_A", at(3620)), (10, "worse", "QUEUE_A", at(3607))]
    add_failed_input(database, 40, queue="QUEUE_C")
    update_holds(database, 50)
    assert held_rows(database)[0] == (10, "bad", "QUEUE_A", at(3640))
    # the hold at the other node has expired
    update_holds(database, 3607)
    assert held_rows(database) == [(10, "bad", "QUEUE_A", at(3640))]


@pytest.mark.parametrize(
    ("change", "on"),
    [
        ("UPDATE doma_panda.jobsactive4 SET jobstatus = 'sent'", True),
        ("DELETE FROM doma_panda.jobsactive4", True),
        ("SELECT 1", False),
    ],
)
def test_holds_end_when_the_job_leaves_or_holding_is_switched_off(database: Database, change: str, on: bool) -> None:
    add_jobs(database, 10)
    add_input(database, 10)
    add_failed_input(database, 0)
    add_ended_jobs(database, "bad", "good")
    assert update_holds(database, 1) == 1
    execute(database, f"{change} WHERE true")
    assert update_holds(database, 2, on=on) == 0 and held_rows(database) == []
