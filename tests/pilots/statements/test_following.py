"""How task queues follow the jobs: own activations, changes by others, and comparison in parts for many jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa

from broker.pilots.statements.activation import ActivationSplit, write_sorted
from broker.pilots.statements.matches import Match, NoMatch
from broker.pilots.statements.task_queue_rows import CHANNEL, add_activated, follow_jobs, weigh
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from tests.pilots.statements.test_job_match import LONG, add_jobs, match_once
from tests.pools.pool_grid import at, emptied, execute, publish_places, refresh, rows

QUEUES = ["QUEUE_A", *(f"Q{number}" for number in range(9))]
WAITING = "SELECT pandaid FROM broker.waiting_jobs ORDER BY 1"


@pytest.fixture
def database(shared_database: Database) -> Iterator[Database]:
    publish_places(emptied(shared_database))
    refresh(shared_database, 0)
    yield shared_database


def set_order(connection: sa.Connection) -> None:
    weigh(connection, lambda shares: np.full(len(shares), 1000.0), background=False)


def follow(database: Database, seconds: float = 0, most_at_once: int = 5) -> dict[str, int]:
    with database.begin() as connection:
        return follow_jobs(connection, database.names, at(seconds), set_order, most_at_once)


def activate(database: Database, *jobs: int) -> dict[str, int]:
    """Activate jobs at QUEUE_A whose input is available, as the agent does."""
    add_jobs(database, min(jobs), len(jobs), jobstatus="defined", table="jobsdefined4")
    with database.begin() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        write_sorted(connection, catalogue, ActivationSplit(tuple((job, "QUEUE_A") for job in jobs), ()), at(0))
        return add_activated(connection, database.names, jobs, at(0), set_order)


def test_jobs_wait_from_the_commit_that_activates_them(database: Database) -> None:
    assert activate(database, 1, 2) == {"queued": 2, "new_queues": 1}
    assert activate(database, 3) == {"queued": 1, "new_queues": 0}
    assert rows(database, "SELECT count(*) FROM broker.activated_jobs") == [(0,)]
    assert rows(database, "SELECT priority, jobs, weight FROM broker.task_queue_levels, broker.task_queues") == [
        (1, 3, 1000.0)
    ]
    assert isinstance(match_once(database, LONG), Match)
    assert follow(database) == {"queued": 0, "left": 0, "new_queues": 0, "dropped_queues": 0}


def test_a_transaction_that_fails_leaves_neither_the_job_nor_its_row(database: Database) -> None:
    add_jobs(database, 1, jobstatus="defined", table="jobsdefined4")
    with pytest.raises(ZeroDivisionError), database.begin() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        write_sorted(connection, catalogue, ActivationSplit(((1, "QUEUE_A"),), ()), at(0))
        add_activated(connection, database.names, [1], at(0), set_order)
        raise ZeroDivisionError
    assert rows(database, WAITING) == [] and rows(database, "SELECT count(*) FROM doma_panda.jobsactive4") == [(0,)]


def test_jobs_activated_by_others_wait_after_the_next_cycle_for_any_number_of_parts(database: Database) -> None:
    for number, queue in enumerate(QUEUES):
        add_jobs(database, 100 * number, 10, computingsite=queue)
    assert follow(database)["queued"] == 100  # no job waited yet: all are compared
    add_jobs(database, 5000, 2, computingsite="Q3")
    execute(database, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'sent' WHERE pandaid = 7")
    execute(database, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'activated' WHERE pandaid = 7")
    add_jobs(database, 6000, computingsite="UNKNOWN")
    add_jobs(database, 7000, jobstatus="running")
    assert follow(database, 1)["queued"] == 3  # job 7 never stopped waiting
    assert follow(database, 2)["queued"] == 0
    assert len(rows(database, WAITING)) == 103
    assert rows(database, "SELECT sum(jobs) FROM broker.task_queue_levels") == [(103,)]


def test_jobs_changed_by_others_are_found_within_one_cycle_per_part(database: Database) -> None:
    for number, queue in enumerate(QUEUES):
        add_jobs(database, 100 * number, 10, computingsite=queue)
    follow(database)
    execute(database, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'cancelled' WHERE pandaid % 100 = 1")
    execute(database, "UPDATE doma_panda.jobsactive4 SET computingsite = 'Q8' WHERE pandaid = 2")
    # a lost row, which no trigger reports
    execute(database, "DELETE FROM broker.waiting_jobs WHERE pandaid = 105")
    cycles = [follow(database, second, 10) for second in range(1, 11)]
    assert [sum(cycle[name] for cycle in cycles) for name in ("left", "queued")] == [11, 2]
    assert max(cycle["left"] for cycle in cycles) < 11
    query = (
        "SELECT count(*) FROM broker.waiting_jobs AS w JOIN broker.task_queues AS q ON q.id = w.task_queue"
        " FULL JOIN (SELECT * FROM doma_panda.jobsactive4 WHERE jobstatus = 'activated') AS j USING (pandaid)"
        " WHERE q.panda_queue IS DISTINCT FROM j.computingsite"
    )
    assert rows(database, query) == [(0,)]
    count_query = "SELECT task_queue, priority, count(*) FROM broker.waiting_jobs GROUP BY 1, 2 ORDER BY 1, 2"
    assert rows(database, count_query) == rows(
        database, "SELECT task_queue, priority, jobs FROM broker.task_queue_levels ORDER BY 1, 2"
    )


def test_task_queues_are_rebuilt_from_the_jobs_while_pilots_ask(database: Database) -> None:
    add_jobs(database, 1, 20)
    follow(database)
    assert isinstance(match_once(database, LONG), Match)
    execute(database, "TRUNCATE broker.waiting_jobs, broker.task_queue_levels, broker.task_queues")
    assert isinstance(match_once(database, LONG), NoMatch)
    assert follow(database, 1)["queued"] == 19 and isinstance(match_once(database, LONG), Match)


def test_matchers_are_notified_of_task_queues_with_new_jobs(database: Database) -> None:
    with psycopg.connect(database.url, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        add_jobs(database, 1, computingsite="Q1")
        add_jobs(database, 2, computingsite='Q "2" é')
        follow(database)
        follow(database)  # no new jobs: no message
        activate(database, 10)
        messages = [json.loads(notification.payload) for notification in listener.notifies(timeout=5, stop_after=2)]
    assert messages == [[1, 2], [3]]


def test_a_message_for_too_many_task_queues_is_empty(database: Database) -> None:
    with psycopg.connect(database.url, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        execute(database, "ALTER SEQUENCE broker.task_queues_id_seq RESTART WITH 1000000000000000000")
        for number in range(420):
            add_jobs(database, number, computingsite=f"Q{number}")
        follow(database)
        assert [notification.payload for notification in listener.notifies(timeout=5, stop_after=1)] == [""]


def test_jobs_without_a_panda_queue_are_compared_a_part_each_cycle(database: Database) -> None:
    add_jobs(database, 1, 100, computingsite=None)
    assert follow(database)["queued"] == 100
    execute(database, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'cancelled' WHERE pandaid % 10 = 1")
    execute(database, "DELETE FROM broker.waiting_jobs WHERE pandaid IN (7, 77)")
    cycles = [follow(database, second, 10) for second in range(1, 11)]
    assert [cycle["left"] for cycle in cycles] == [2, 1, 1, 1, 1, 1, 1, 1, 1, 0]
    assert [sum(cycle[name] for cycle in cycles) for name in ("left", "queued")] == [10, 2]
    assert [cycle["queued"] for cycle in cycles] == [1, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    # the next round begins
    execute(database, "UPDATE doma_panda.jobsactive4 SET jobstatus = 'cancelled' WHERE pandaid = 2")
    assert follow(database, 11, 10)["left"] == 1


def test_more_new_jobs_than_waiting_jobs_are_queued_at_once(database: Database) -> None:
    add_jobs(database, 1, 20)
    assert follow(database)["queued"] == 20
    add_jobs(database, 100, 15)
    assert [follow(database, second)["queued"] for second in range(1, 5)] == [6, 6, 3, 0]
    add_jobs(database, 1000, 100)
    assert follow(database, 9)["queued"] == 100
