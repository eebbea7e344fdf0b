"""Limits on running jobs: tokens are leased, given back, reclaimed, and corrected by a count of the jobs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest

from broker.domain.arrays import Floats, Ints
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.limit_tokens import LimitTokens, Pair
from broker.pilots.statements.matches import Match
from broker.pilots.statements.running_limits import (
    LimitsOf,
    RecountedLimit,
    count_running,
    give_back,
    refill,
    set_limits,
)
from broker.pilots.statements.task_queue_rows import weigh
from broker.store.connection.database import Database
from tests.pilots.statements.test_job_match import LONG, add_jobs, follow, matcher
from tests.pools.pool_grid import at, emptied, execute, publish_places, refresh, rows

MC = ("SITE_A", "simul")


@pytest.fixture
def database(shared_database: Database) -> Iterator[Database]:
    publish_places(emptied(shared_database))
    refresh(shared_database, 0)
    yield shared_database


def limits(**most: float) -> LimitsOf:
    def of(types: Sequence[str], sites: Sequence[str]) -> Floats:
        return np.array([most.get(kind, np.inf) for kind in types], dtype=np.float64)

    return of


def limit(database: Database, **most: float) -> int:
    with database.begin() as connection:
        return set_limits(connection, limits(**most))


def count(database: Database, seconds: float = 0) -> list[RecountedLimit]:
    with database.begin() as connection:
        return count_running(Database.raw(connection), database.names, at(seconds))


def lease(database: Database, tokens: LimitTokens, seconds: float = 0, pair: Pair = MC) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        refill(connection, database.names, tokens, [pair], at(seconds))


def free(database: Database) -> int:
    return int(rows(database, "SELECT free FROM broker.running_limits")[0][0])


def run(database: Database, first: int, jobs: int, **columns: Any) -> None:
    add_jobs(database, first, jobs, **{"jobstatus": "running", "processingtype": "simul", **columns})


def test_a_limit_applies_to_all_queues_of_a_site_and_counts_jobs_with_a_pilot(database: Database) -> None:
    add_jobs(database, 1, processingtype="simul")
    add_jobs(database, 2, processingtype="evgen")
    follow(database)
    for first, status in ((10, "sent"), (20, "starting"), (30, "running"), (40, "holding"), (50, "transferring")):
        run(database, first, 2, jobstatus=status)
    run(database, 60, 1, processingtype="evgen")
    run(database, 70, 1, computingsite="QUEUE_B")
    assert limit(database, simul=10) == 1
    assert rows(database, "SELECT site, job_type, most, free, counted_at FROM broker.running_limits") == [
        ("SITE_A", "simul", 10, 0, None)
    ]
    assert count(database) == [RecountedLimit("SITE_A", "simul", 10, 6, 4)]
    assert limit(database, simul=5) == 1 and free(database) == -1
    assert limit(database) == 0 and rows(database, "SELECT count(*) FROM broker.running_limits") == [(0,)]


def test_a_queue_without_a_place_or_with_places_at_two_sites_counts_as_a_site(database: Database) -> None:
    execute(
        database, "INSERT INTO broker.resource_queues (site, ce, queue, panda_queue) VALUES ('X', 'c', 'q', 'QUEUE_B')"
    )
    for number, queue in enumerate(("QUEUE_A", "QUEUE_B", "QUEUE_C"), 1):
        add_jobs(database, number, processingtype="simul", computingsite=queue)
        run(database, 10 * number, number, computingsite=queue)
    follow(database)
    assert limit(database, simul=10) == 3
    assert [(row.site, row.running) for row in sorted(count(database), key=lambda row: row.site)] == [
        ("QUEUE_B", 2), ("QUEUE_C", 3), ("SITE_A", 1),
    ]  # fmt: skip


def add_limit(database: Database, most: int) -> None:
    """Put a limit into force at a site without running jobs."""
    add_jobs(database, 1, processingtype="simul")
    follow(database)
    limit(database, simul=most)
    count(database)


@pytest.mark.parametrize(
    ("most", "leased_tokens"), [(0, 0), (1, 1), (3, 1), (7, 1), (8, 2), (79, 19), (80, 20), (1000, 20)]
)
def test_a_process_leases_at_most_a_quarter_of_the_free_tokens(
    database: Database, most: int, leased_tokens: int
) -> None:
    add_limit(database, most)
    tokens = LimitTokens()
    lease(database, tokens)
    reserved_tokens = [tokens.reserve(MC, at(0)) for _ in range(leased_tokens + 1)]
    assert reserved_tokens[-1] is None and None not in reserved_tokens[:-1] and free(database) == most - leased_tokens
    assert rows(database, "SELECT tokens FROM broker.limit_leases") == ([(leased_tokens,)] if leased_tokens else [])


def test_unused_tokens_of_a_lease_are_freed_when_it_is_renewed_or_the_process_ends(database: Database) -> None:
    add_limit(database, 40)
    tokens = LimitTokens()
    lease(database, tokens)
    first = tokens.reserve(MC, at(0))
    assert first is not None and free(database) == 30
    tokens.put_back(MC, first)
    assert tokens.reserve(MC, at(0)) == first
    assert tokens.reserve(MC, at(10)) is None  # the lease has expired
    lease(database, tokens, 10)
    second = tokens.reserve(MC, at(10))
    # a quarter of 30 + 9 was leased
    assert second not in (None, first) and free(database) == 39 - 9
    tokens.put_back(MC, first)  # its lease has expired: the token no longer counts
    with psycopg.connect(database.url, autocommit=True) as connection:
        give_back(connection, tokens)
    assert free(database) == 38 and rows(database, "SELECT count(*) FROM broker.limit_leases") == [(0,)]
    run(database, 10, 2)
    assert count(database) == [RecountedLimit(*MC, 40, 2, 0)]


def test_a_job_is_counted_twice_rather_than_not_at_all_while_its_lease_lives(database: Database) -> None:
    add_limit(database, 8)
    tokens = LimitTokens()
    lease(database, tokens)
    assert tokens.reserve(MC, at(0)) is not None
    run(database, 10, 1)
    assert count(database, 1) == [RecountedLimit(*MC, 8, 1, -1, 2)] and free(database) == 5
    with psycopg.connect(database.url, autocommit=True) as connection:
        give_back(connection, tokens)
    assert free(database) == 6
    assert count(database, 2) == [RecountedLimit(*MC, 8, 1, 1)] and free(database) == 7


@pytest.mark.parametrize(("seconds", "free_tokens"), [(30, 4), (30.001, 6)])
def test_the_tokens_of_a_process_that_died_are_free_again(database: Database, seconds: float, free_tokens: int) -> None:
    add_limit(database, 8)
    lease(database, LimitTokens())
    run(database, 10, 2)
    count(database, seconds)
    assert free(database) == free_tokens


def test_a_wrong_counter_is_corrected_and_reported(database: Database) -> None:
    add_limit(database, 8)
    execute(database, "UPDATE broker.running_limits SET free = 100")
    (row,) = count(database)
    assert row == RecountedLimit(*MC, 8, 0, -92) and row.was_wrong
    assert not any(RecountedLimit(*MC, 8, 1, *counts).was_wrong for counts in ((-2, 2), (0, 0), (3, 0)))
    assert RecountedLimit(*MC, 8, 1, -3, 2).was_wrong
    assert free(database) == 8


def test_a_process_that_finds_no_free_token_recounts_after_a_while(database: Database) -> None:
    run(database, 10, 8)
    add_limit(database, 8)
    tokens = LimitTokens()
    execute(database, "DELETE FROM doma_panda.jobsactive4 WHERE pandaid = 10")
    lease(database, tokens, 4.9)
    assert tokens.reserve(MC, at(4.9)) is None
    assert tokens.wanting([MC], at(5.8)) == [] and tokens.wanting([MC], at(5.9)) == [MC]
    lease(database, tokens, 5.9)
    assert tokens.reserve(MC, at(5.9)) is not None and tokens.reserve(MC, at(5.9)) is None


def test_a_lifted_limit_gives_no_tokens(database: Database) -> None:
    add_limit(database, 8)
    limit(database)
    tokens = LimitTokens()
    lease(database, tokens)
    assert tokens.reserve(MC, at(0)) is None


SIMUL, EVGEN = {"processingtype": "simul"}, {"processingtype": "evgen"}


def outcomes_of(results: Sequence[Any]) -> list[int | str]:
    return [result.pandaid if isinstance(result, Match) else result.reason for result in results]


@pytest.mark.parametrize("together", [False, True])
def test_a_running_limit_caps_the_jobs_given(database: Database, together: bool) -> None:
    run(database, 100, 1)
    add_jobs(database, 1, 9, **SIMUL)
    add_jobs(database, 50, 2, **EVGEN)
    follow(database)
    limit(database, simul=4)
    count(database)
    with matcher(database) as job_matcher:
        if together:
            results = [match for match, _ in job_matcher.match_together([(LONG, ("p", n)) for n in range(8)], at(0))]
        else:
            results = [job_matcher.match(LONG, at(0)) for _ in range(8)]
        # of so few tokens, each lease takes one
        results += [job_matcher.match(LONG, at(seconds)) for seconds in (11, 22, 33)]
    outcomes = outcomes_of(results)
    assert {outcome for outcome in outcomes if isinstance(outcome, int)} == {
        1,
        2,
        3,
        50,
        51,
    } and "running_limit" in outcomes
    assert rows(database, "SELECT count(*) FROM doma_panda.jobsactive4 WHERE jobstatus = 'sent'") == [(5,)]
    assert [(row.running, row.most) for row in count(database, 60)] == [(4, 4)]


def test_a_job_that_ends_makes_room_for_another(database: Database) -> None:
    run(database, 100, 2)
    add_jobs(database, 1, 3, **SIMUL)
    follow(database)
    limit(database, simul=2)
    count(database)
    with matcher(database) as job_matcher:
        assert outcomes_of([job_matcher.match(LONG, at(1))]) == ["running_limit"]
        execute(database, "DELETE FROM doma_panda.jobsactive4 WHERE pandaid = 100")
        assert outcomes_of([job_matcher.match(LONG, at(seconds)) for seconds in (1.5, 6, 7, 20)]) == [
            "running_limit", 1, "running_limit", "running_limit",
        ]  # fmt: skip


def test_a_limit_that_a_matcher_has_not_read_yet_is_not_exceeded(database: Database) -> None:
    add_jobs(database, 1, 5, **SIMUL)
    follow(database)
    with matcher(database) as job_matcher:
        assert outcomes_of([job_matcher.match(LONG, at(0))]) == [1]
        limit(database, simul=1)
        # the matcher's view of the place has no limit; the statement applies it
        assert outcomes_of([job_matcher.match(LONG, at(1))]) == ["running_limit"]
        assert (
            outcomes_of([match for match, _ in job_matcher.match_together([(LONG, None)] * 2, at(2))])
            == ["running_limit"] * 2
        )
    assert rows(database, "SELECT count(*) FROM doma_panda.jobsactive4 WHERE jobstatus = 'sent'") == [(1,)]


def test_a_reclaimed_lease_takes_no_job(database: Database) -> None:
    add_limit(database, 8)
    with matcher(database) as job_matcher:
        job_matcher.look([(LONG, None)], at(0))
        execute(database, "DELETE FROM broker.limit_leases")
        assert not isinstance(job_matcher.match(LONG, at(1)), Match)
        group = job_matcher.match_together([(LONG, None)], at(2))
        assert not isinstance(group[0][0], Match)
        # the next lease is valid
        assert outcomes_of([job_matcher.match(LONG, at(30))]) == [1]


def test_a_lease_cannot_be_reclaimed_while_a_job_is_taken_with_it(database: Database) -> None:
    add_limit(database, 8)
    with psycopg.connect(database.url) as match_connection:
        job_matcher = Matcher(match_connection, database.names, np.random.default_rng(1))
        assert outcomes_of([job_matcher.match(LONG, at(0))]) == [1]
        with pytest.raises(psycopg.errors.LockNotAvailable), psycopg.connect(database.url) as count_connection:
            count_connection.execute("SET lock_timeout = '50ms'")
            count_running(count_connection, database.names, at(100))
        match_connection.commit()
    assert [row.running for row in count(database, 100)] == [1] and free(database) == 7


def test_job_types_of_an_earlier_tier_go_first_until_their_limit_is_reached(database: Database) -> None:
    add_jobs(database, 1, 3, **SIMUL)
    add_jobs(database, 11, 3, **EVGEN)
    add_jobs(database, 21, 3, processingtype="user")

    def order(types: Sequence[str]) -> tuple[Ints, Floats]:
        tiers = {"simul": 1, "evgen": 2}
        return np.array([tiers.get(kind, 1000) for kind in types]), np.ones(len(types))

    follow(database)
    with database.begin() as connection:
        weigh(connection, lambda shares: np.full(len(shares), 1000.0), order, background=False)
    limit(database, simul=2)
    count(database)
    with matcher(database) as job_matcher:
        results = [job_matcher.match(LONG, at(11 * number)) for number in range(9)]
    assert outcomes_of(results) == [1, 2, 11, 12, 13, 21, 22, 23, "running_limit"]


def test_the_same_request_always_draws_the_same_task_queue(database: Database) -> None:
    for number in range(8):
        add_jobs(database, 10 * number + 1, produsername=f"u{number}")
    draws = []
    for seed in range(3):
        execute(database, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'activated'")
        execute(database, "TRUNCATE broker.matched_requests")
        follow(database)
        with matcher(database, seed) as job_matcher:
            draws.append([job_matcher.match_numbered(LONG, at(0), ("pilot", number))[0] for number in range(4)])
        execute(database, "TRUNCATE broker.waiting_jobs")
    assert (
        outcomes_of(draws[0]) == outcomes_of(draws[1]) == outcomes_of(draws[2]) and len(set(outcomes_of(draws[0]))) == 4
    )


# A process that matches against a limit: three run at once, one is killed while it has leases, the limit changes.
MATCHERS = """
import os, sys
from datetime import UTC, datetime, timedelta
import numpy as np, psycopg
from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.matches import Match
from broker.store.connection.tables import Names

url, number = sys.argv[1], int(sys.argv[2])
with psycopg.connect(url, autocommit=True) as connection:
    matcher, now = Matcher(connection, Names(), np.random.default_rng(number)), datetime(2026, 8, 1, tzinfo=UTC)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(100_000):
        now += timedelta(milliseconds=500)
        found = matcher.match(Pilot("SITE_A", "ce1", "long", "lhcb"), now)
        print(found.pandaid if isinstance(found, Match) else found.reason, flush=True)
"""


@pytest.mark.slow
def test_concurrent_matchers_one_of_which_is_killed_do_not_exceed_a_limit(database: Database) -> None:
    add_jobs(database, 1, 300, **SIMUL)
    follow(database)
    limit(database, simul=60)
    count(database)
    command = [sys.executable, "-c", MATCHERS, database.url]
    lines_of_matcher: list[list[str]] = [[], [], []]
    with contextlib.ExitStack() as stack:
        parents = [
            stack.enter_context(
                subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for number in range(3)
        ]
        for parent in parents:
            stack.callback(parent.kill)
            assert parent.stdout is not None and parent.stdout.readline() == "ready\n"
        for parent in parents:
            assert parent.stdin is not None
            parent.stdin.write("go\n")
            parent.stdin.flush()
        for turn in range(40):
            for number, parent in enumerate(parents):
                if turn == 5 and number == 0:
                    parent.kill()
                    assert parent.stdout is not None
                    lines_of_matcher[number].extend(
                        line.strip() for line in parent.stdout
                    )  # it ran ahead of this reader
                elif parent.poll() is None:
                    assert parent.stdout is not None
                    lines_of_matcher[number].append(parent.stdout.readline().strip())
            if turn == 10:
                limit(database, simul=50)
            if turn == 20:
                limit(database, simul=40)
            sent = rows(database, "SELECT count(*) FROM doma_panda.jobsactive4 WHERE jobstatus = 'sent'")[0][0]
            assert sent <= 60
        for parent in parents[1:]:
            assert parent.stdout is not None
            lines_of_matcher[parents.index(parent)].extend(parent.stdout.readline().strip() for _ in range(60))
    jobs = [line for lines in lines_of_matcher for line in lines if line.isdigit()]
    assert len(jobs) == len(set(jobs)) > 30
    sent = rows(database, "SELECT count(*) FROM doma_panda.jobsactive4 WHERE jobstatus = 'sent'")[0][0]
    assert len(jobs) <= sent <= 60
    assert [row.running for row in count(database, 10_000)] == [sent]
