from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa

from broker.domain.arrays import Floats
from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.demand import demand_of
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.matches import Match, NoMatch
from broker.pilots.statements.task_queue_rows import follow_jobs, weigh
from broker.pools.statements.pool_registration import TaskRequirements, attach, register
from broker.store.connection.database import Database
from tests.pools.pool_grid import at, emptied, execute, pool_for, publish_places, refresh, rows

LONG = Pilot("SITE_A", "ce1", "long", "lhcb")
SHORT = Pilot("SITE_A", "ce1", "short", "lhcb")


@pytest.fixture
def database(shared_database: Database) -> Database:
    publish_places(emptied(shared_database))
    refresh(shared_database, 0)
    return shared_database


def add_jobs(database: Database, first: int, count: int = 1, *, table: str = "jobsactive4", **columns: Any) -> None:
    """Activated jobs of task 1 at QUEUE_A."""
    values = {
        "jeditaskid": 1, "computingsite": "QUEUE_A", "vo": "lhcb", "produsername": "ann", "currentpriority": 1,
        "jobstatus": "activated", "jobdefinitionid": 0, **columns,
    }  # fmt: skip
    names, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
    execute(
        database,
        f"INSERT INTO doma_panda.{table} (pandaid, {names}) SELECT number, {marks}"
        " FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS number",
        first=first,
        last=first + count - 1,
        **values,
    )


def follow(database: Database, seconds: float = 0) -> dict[str, int]:
    def shares(names: Any) -> Floats:
        return np.full(len(names), 1000.0)

    with database.begin() as connection:
        counts = follow_jobs(connection, database.names, at(seconds))
        weigh(connection, shares, background=False)
    return counts


@contextlib.contextmanager
def matcher(database: Database, seed: int = 1) -> Iterator[Matcher]:
    with psycopg.connect(database.url, autocommit=True) as connection:
        yield Matcher(connection, database.names, np.random.default_rng(seed))


def match_once(database: Database, pilot: Pilot, seconds: float = 0) -> Match | NoMatch:
    with matcher(database) as job_matcher:
        return job_matcher.match(pilot, at(seconds))


def states(database: Database) -> dict[str, int]:
    return dict(rows(database, "SELECT jobstatus, count(*) FROM doma_panda.jobsactive4 GROUP BY 1"))  # type: ignore[arg-type]


def test_a_pilot_gets_one_job_which_is_then_sent(database: Database) -> None:
    add_jobs(database, 10, 2)
    assert follow(database) == {"queued": 2, "left": 0, "new_queues": 1, "dropped_queues": 0}
    assert match_once(database, LONG, 7) == Match(10, 1, 1, "QUEUE_A", None)
    [job] = rows(database, "SELECT jobstatus, statechangetime FROM doma_panda.jobsactive4 WHERE pandaid = 10")
    assert job == ("sent", at(7).replace(tzinfo=None))
    log = rows(database, "SELECT pandaid, jobstatus, computingsite, modiftime_extended FROM doma_panda.jobs_statuslog")
    assert log == [(10, "sent", "QUEUE_A", at(7).replace(tzinfo=None))]
    assert isinstance(match_once(database, SHORT), Match)
    assert match_once(database, LONG) == NoMatch("QUEUE_A", "nothing_waits", {})
    assert states(database) == {"sent": 2}


def test_a_pilot_of_another_queue_gets_a_reason_instead_of_a_job(database: Database) -> None:
    assert match_once(database, LONG) == NoMatch("QUEUE_A", "nothing_waits", {})
    add_jobs(database, 1)
    add_jobs(database, 2, vo="atlas")
    follow(database)
    elsewhere = Pilot("SITE_B", "ce1", "QUEUE_B", "atlas")
    assert match_once(database, elsewhere) == NoMatch("QUEUE_B", "nothing_waits", {})
    with matcher(database) as job_matcher:
        assert job_matcher.explain(elsewhere, at(0)) == NoMatch("QUEUE_B", "queue", {"vo": 1, "queue": 1})
    # an unknown place is addressed by the name of its queue
    assert isinstance(match_once(database, Pilot("NOWHERE", "x", "QUEUE_A", "atlas")), Match)


def test_only_pilots_of_a_mapped_queue_get_jobs_with_requirements(database: Database) -> None:
    with database.begin() as connection:
        register(connection, pool_for(Memory=5000), at(0))
        attach(connection, 1, pool_for(Memory=5000), TaskRequirements())
    add_jobs(database, 1, 2)
    add_jobs(database, 5, jeditaskid=2)
    follow(database)
    assert match_once(database, SHORT) == Match(5, 2, 2, "QUEUE_A", None)
    assert match_once(database, SHORT) == NoMatch("QUEUE_A", "submit_pool", {"submit_pool": 1})
    pool = pool_for(Memory=5000).pool_id
    assert match_once(database, LONG, 100) == Match(1, 1, 1, "QUEUE_A", pool)
    assert rows(database, "SELECT last_used_at FROM broker.submit_pools") == [(at(100),)]


def test_a_stale_view_gives_out_no_job(database: Database) -> None:
    with database.begin() as connection:
        register(connection, pool_for(Memory=5000), at(0))
        attach(connection, 1, pool_for(Memory=5000), TaskRequirements())
    add_jobs(database, 1, 2)
    follow(database)
    with matcher(database) as job_matcher:
        assert isinstance(job_matcher.match(LONG, at(0)), Match)
        execute(database, "DELETE FROM broker.submit_pool_links")
        assert job_matcher.match(LONG, at(1)) == NoMatch("QUEUE_A", "submit_pool", {"submit_pool": 1})
    assert states(database) == {"activated": 1, "sent": 1}


def test_each_job_is_checked_against_its_own_cpu_time(database: Database) -> None:
    for task, need in ((1, 90_000), (2, 100_000), (3, None)):
        with database.begin() as connection:
            attach(connection, task, None, TaskRequirements(cputime_s=need))
        add_jobs(database, task, jeditaskid=task)
    follow(database)
    pilot = Pilot("SITE_A", "ce1", "long", cputime_s=90_000)
    results = match_once(database, pilot), match_once(database, pilot)
    assert {result.pandaid for result in results if isinstance(result, Match)} == {1, 3}
    assert match_once(database, pilot) == NoMatch("QUEUE_A", "cpu_time", {"cpu_time": 1})
    assert match_once(database, LONG) == NoMatch("QUEUE_A", "cpu_time", {"cpu_time": 1})
    assert isinstance(match_once(database, Pilot("SITE_A", "ce1", "long", cputime_s=100_000)), Match)


def test_cpu_time_beyond_the_last_class_is_checked_for_each_job(database: Database) -> None:
    with database.begin() as connection:
        attach(connection, 1, None, TaskRequirements(cputime_s=2_000_000))
    add_jobs(database, 1)
    follow(database)
    short_pilot = Pilot("SITE_A", "ce1", "long", cputime_s=1_999_999)
    assert match_once(database, short_pilot) == NoMatch("QUEUE_A", "cpu_time", {"cpu_time": 1})
    with matcher(database) as job_matcher:
        assert job_matcher.explain(short_pilot, at(0)).reason == "cpu_time"
    assert isinstance(match_once(database, Pilot("SITE_A", "ce1", "long", cputime_s=2_000_000)), Match)


def test_rows_of_jobs_that_are_no_longer_activated_are_ignored(database: Database) -> None:
    add_jobs(database, 1, 5)
    follow(database)
    execute(database, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'cancelled' WHERE pandaid < 3")
    execute(database, "DELETE FROM doma_panda.jobsactive4 WHERE pandaid = 3")
    assert match_once(database, LONG) == Match(4, 1, 1, "QUEUE_A", None)
    assert rows(database, "SELECT pandaid FROM broker.waiting_jobs") == [(5,)]
    execute(database, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'cancelled' WHERE pandaid = 5")
    assert follow(database)["left"] == 1
    assert match_once(database, LONG) == NoMatch("QUEUE_A", "nothing_waits", {})


def test_an_empty_task_queue_is_dropped_after_a_while(database: Database) -> None:
    add_jobs(database, 1)
    follow(database)
    assert isinstance(match_once(database, LONG), Match)
    assert [follow(database, second)["dropped_queues"] for second in (299, 300, 301)] == [0, 1, 0]


def test_a_job_that_comes_back_waits_behind_the_others(database: Database) -> None:
    add_jobs(database, 1, 3)
    follow(database)
    assert isinstance(first := match_once(database, LONG), Match)
    assert first.pandaid == 1
    execute(database, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'activated' WHERE pandaid = 1")
    assert follow(database)["queued"] == 1
    order = [result.pandaid for result in (match_once(database, LONG) for _ in range(3)) if isinstance(result, Match)]
    assert order == [2, 3, 1]


def test_weights_and_levels_follow_the_jobs(database: Database) -> None:
    add_jobs(database, 1, 2)
    add_jobs(database, 3, produsername="bob", currentpriority=7)
    add_jobs(database, 4, produsername="bob", currentpriority=9)
    follow(database)
    weights = rows(database, "SELECT owner, weight FROM broker.task_queues ORDER BY 1")
    assert weights == [("ann", 500.0), ("bob", 500.0)]
    levels = rows(database, "SELECT priority, jobs FROM broker.task_queue_levels ORDER BY 1")
    assert levels == [(1, 2), (7, 1), (9, 1)]
    with matcher(database) as job_matcher:
        pandaids = [
            result.pandaid for result in (job_matcher.match(LONG, at(0)) for _ in range(4)) if isinstance(result, Match)
        ]
    assert sorted(pandaids) == [1, 2, 3, 4]


def test_the_demand_of_a_queue_names_the_pools_of_its_waiting_jobs(database: Database) -> None:
    with database.begin() as connection:
        register(connection, pool_for(Memory=5000), at(0))
        attach(connection, 1, pool_for(Memory=5000), TaskRequirements())
    add_jobs(database, 1, 2, gshare="Users")
    add_jobs(database, 5, 3, jeditaskid=2, gshare="Users")
    follow(database)
    add_jobs(database, 9, gshare="Users")
    with database.read_snapshot() as connection:
        demand = demand_of(connection, database.names, "QUEUE_A", None)
    # the last job is not in a task queue yet
    assert [(row.pool, row.waiting_for_pilots) for row in demand] == [(None, 4), (pool_for(Memory=5000).pool_id, 2)]


# Forks eight matchers, prints their process ids, starts them together, and prints the exit status of each.
MATCHERS = """
import os, sys
from datetime import UTC, datetime, timedelta
import numpy as np, psycopg
from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.matches import Match
from broker.store.connection.tables import Names

url, folder = sys.argv[1:]
waits, begins = os.pipe()
children = []
for number in range(8):
    children.append(os.fork())
    if children[-1]:
        continue
    with psycopg.connect(url, autocommit=True) as connection, open(f"{folder}/{number}", "w") as out:
        matcher = Matcher(connection, Names(), np.random.default_rng(number))
        now, misses, given = datetime(2026, 8, 1, tzinfo=UTC), 0, 0
        if number:
            os.close(begins)
            os.read(waits, 1)
        while misses < 3 or number == 0:  # the first goes on until it is killed
            now += timedelta(milliseconds=20)
            found = matcher.match(Pilot("SITE_A", "ce1", ("long", "short")[number % 2], "lhcb"), now)
            if isinstance(found, Match):
                print(found.pandaid, file=out, flush=True)
                given += 1
                if (number, given) == (0, 5):  # the others begin once the first has the jobs that the test waits for
                    os.close(begins)
            else:
                misses += 1
    os._exit(0)
print(*children, flush=True)
os.close(begins)
print(*[os.waitpid(child, 0)[1] for child in children], flush=True)
"""


@pytest.mark.slow
def test_no_job_is_given_twice_although_a_concurrent_matcher_is_killed(database: Database, tmp_path: Path) -> None:
    jobs = 400
    for owner in range(2):
        add_jobs(database, 1 + owner * 200, 200, produsername=f"u{owner}", currentpriority=owner * 5)
    follow(database)
    files = [tmp_path / f"{number}" for number in range(8)]
    command = [sys.executable, "-c", MATCHERS, database.url, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        children = [int(number) for number in parent.stdout.readline().split()]
        assert len(children) == 8
        while not files[0].exists() or files[0].read_text().count("\n") < 5:
            assert parent.poll() is None
        os.kill(children[0], signal.SIGKILL)
        statuses = [int(status) for status in parent.stdout.readline().split()]
    assert statuses == [signal.SIGKILL] + [0] * 7
    pandaids = [int(line) for file in files for line in file.read_text().split()]
    assert len(pandaids) == len(set(pandaids))
    assert states(database) == {"sent": jobs}
    assert jobs - 1 <= len(pandaids) <= jobs  # the killed matcher may have taken a job without printing it
    assert rows(database, "SELECT count(*) FROM broker.waiting_jobs") == [(0,)]


@pytest.mark.parametrize(
    "locking",
    [
        "SELECT 1 FROM broker.waiting_jobs WHERE pandaid = 10 FOR UPDATE",
        "DELETE FROM broker.waiting_jobs WHERE pandaid = 10",
    ],
)
def test_a_job_locked_by_another_matcher_blocks_no_pilot(database: Database, locking: str) -> None:
    add_jobs(database, 10, 3)
    follow(database)
    with database.begin() as blocker, psycopg.connect(database.url, autocommit=True) as connection:
        blocker.execute(sa.text(locking))
        connection.execute("SET lock_timeout = '2s'")
        job_matcher = Matcher(connection, database.names, np.random.default_rng(1))
        results = [job_matcher.match(LONG, at(number)) for number in range(3)]
    assert [result.pandaid for result in results[:2] if isinstance(result, Match)] == [11, 12]
    assert results[2] == NoMatch("QUEUE_A", "taken_by_others", {})


@pytest.mark.parametrize(
    "locking",
    [
        "SELECT 1 FROM broker.waiting_jobs WHERE pandaid = 10 FOR UPDATE",
        "DELETE FROM broker.waiting_jobs WHERE pandaid = 10",
    ],
)
def test_a_job_locked_by_another_matcher_blocks_no_group(database: Database, locking: str) -> None:
    add_jobs(database, 10, 4)
    follow(database)
    with database.begin() as blocker, psycopg.connect(database.url, autocommit=True) as connection:
        blocker.execute(sa.text(locking))
        connection.execute("SET lock_timeout = '2s'")
        job_matcher = Matcher(connection, database.names, np.random.default_rng(1))
        requests = [(LONG, None)] * 3
        job_matcher.look(requests, at(0))
        group = job_matcher.group(requests, at(0))
        take = group.next_take()
        assert take is not None
        group.settle(job_matcher._take(take))
    assert sorted(match.pandaid for match in group.matches if match is not None) == [11, 12, 13]
    assert states(database) == {"activated": 1, "sent": 3}


def test_several_pilots_are_matched_to_different_jobs_in_one_transaction(database: Database) -> None:
    add_jobs(database, 10, 3)
    follow(database)
    with matcher(database) as job_matcher:
        results = job_matcher.match_together(
            [(LONG, ("group", 1)), (LONG, None), (LONG, ("group", 2)), (LONG, None)], at(0)
        )
        jobs = [match.pandaid for match, _ in results[:3] if isinstance(match, Match)]
        assert sorted(jobs) == [10, 11, 12] and isinstance(results[3][0], NoMatch)
        repeats = job_matcher.match_together([(LONG, ("group", 2)), (LONG, ("group", 1)), (LONG, ("group", 3))], at(1))
    assert [(match.pandaid, repeated) for match, repeated in repeats[:2] if isinstance(match, Match)] == [
        (jobs[2], True),
        (jobs[0], True),
    ]
    assert isinstance(repeats[2][0], NoMatch) and states(database) == {"sent": 3}
    assert rows(database, "SELECT count(DISTINCT xmin::text) FROM doma_panda.jobsactive4") == [(1,)]


def test_a_concurrent_follower_finds_nothing_left_to_do(database: Database) -> None:
    add_jobs(database, 1, 5)
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        " AND application_name = 'second'"
    )
    with database.sibling("second", 1) as sibling, ThreadPoolExecutor(1) as threads:
        with database.begin() as first:
            assert follow_jobs(first, database.names, at(0))["queued"] == 5
            second = threads.submit(follow, sibling, 1)
            while not second.done() and rows(database, waiting) == [(0,)]:
                pass
        assert second.result() == {"queued": 0, "left": 0, "new_queues": 0, "dropped_queues": 0}
    assert rows(database, "SELECT jobs FROM broker.task_queue_levels") == [(5,)]


def test_pilots_of_a_group_on_one_task_queue_get_jobs_that_fit_their_own_cpu_time(database: Database) -> None:
    with database.begin() as connection:
        attach(connection, 1, None, TaskRequirements(cputime_s=350))
        attach(connection, 2, None, TaskRequirements(cputime_s=300))
    add_jobs(database, 5)
    add_jobs(database, 10, 2)
    add_jobs(database, 20, 2, jeditaskid=2)
    follow(database)
    execute(database, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'cancelled' WHERE pandaid = 5")
    worker = 'a "name", with \\ and {NULL} é'
    requests = [
        (Pilot("SITE_A", "ce1", "long", "lhcb", cputime_s=seconds), (worker, seconds)) for seconds in (310, 360, 200)
    ]
    with matcher(database) as job_matcher:
        results = job_matcher.match_together(requests, at(0))
        repeated_result = job_matcher.match_numbered(*requests[1][:1], at(1), requests[1][1])
    outcomes = [match.pandaid if isinstance(match, Match) else match.reason for match, _ in results]
    assert outcomes == [20, 10, "cpu_time"] and repeated_result == (results[1][0], True)
    assert rows(database, "SELECT pandaid FROM broker.waiting_jobs ORDER BY 1") == [(11,), (21,)]


def test_a_request_number_sent_twice_at_once_gets_one_job_and_blocks_no_other(database: Database) -> None:
    add_jobs(database, 10, 5)
    follow(database)
    with matcher(database) as job_matcher:
        matches = [
            match
            for match, _ in job_matcher.match_together(
                [(LONG, ("twice", 1)), (LONG, ("twice", 1)), (LONG, None)], at(0)
            )
        ]
    jobs = [match.pandaid for match in matches if isinstance(match, Match)]
    assert len(jobs) == 3 and jobs[0] == jobs[1] != jobs[2] and states(database) == {"activated": 3, "sent": 2}
