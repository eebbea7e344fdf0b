"""Two brokers on the same tasks in one process: many rounds, each with a real race in the database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import sqlalchemy as sa

from broker.domain.placements import Placement, TaskSeen
from broker.store.connection.database import Database
from broker.store.connection.errors import DatabaseUnavailable
from broker.store.service import leases
from broker.store.service.leases import Lease, LeaseTerms, StaleLeaseError
from tests.fault.auditor import audit, baseline
from tests.fault.writers import AGENT, start_run, write_fenced
from tests.store.small_work import all_rows, placement, seed

ROUNDS = 200
TERMS = LeaseTerms()


@pytest.fixture
def connections(database: Database) -> Iterator[Callable[[], Database]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Database(database.url, pool_size=2))


def acquire_lease(database: Database, holder: str) -> Lease:
    with database.begin() as connection:
        lease = leases.acquire(connection, AGENT, holder, TERMS).lease
    assert lease is not None
    return lease


def expire(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.leases SET expires_at = clock_timestamp()"))


def placement_of_round(number: int, order: int) -> Placement:
    """Return the same files for both brokers, cut into different jobs."""
    task = number + 1
    tasks = [TaskSeen(task, "ready", "CERN")]
    first = 100 * task
    size = 2 if order == 0 else 3
    jobs = [(task, f"QUEUE{order}", range(first + start, first + start + size)) for start in range(0, 6, size)]
    return placement(jobs, tasks=tasks)


@pytest.mark.slow
def test_two_brokers_without_any_lease_never_assign_a_file_twice(
    database: Database, connections: Callable[[], Database]
) -> None:
    seed(database, tasks=range(1, ROUNDS + 1))
    before = baseline(database)
    lease = acquire_lease(database, "both")
    run_id = start_run(database, lease)
    barrier = threading.Barrier(2)
    jobs_won: list[list[int]] = [[], []]

    def broker(order: int, own_database: Database) -> None:
        for number in range(ROUNDS):
            barrier.wait(timeout=30)
            result = write_fenced(own_database, lease, run_id, placement_of_round(number, order), fenced=False)
            jobs_won[order].append(int(result.kept.sum()))

    threads = [threading.Thread(target=broker, args=(order, connections())) for order in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert audit(database, before) == []
    assert len(jobs_won[0]) == len(jobs_won[1]) == ROUNDS
    assert all((first, second) in ((3, 0), (0, 2)) for first, second in zip(*jobs_won, strict=True))
    assert all_rows(database, "SELECT count(*) AS n FROM doma_panda.jedi_dataset_contents WHERE pandaid IS NULL") == [
        {"n": 0}
    ]


def test_the_fence_rejects_the_older_of_two_brokers_that_believe_they_lead(database: Database) -> None:
    seed(database)
    before = baseline(database)
    old = acquire_lease(database, "old")
    old_run = start_run(database, old)
    expire(database)
    new = acquire_lease(database, "new")
    with pytest.raises(StaleLeaseError):
        write_fenced(database, old, old_run, placement([(1, "CERN", [100])]))
    assert all_rows(database, "SELECT count(*) AS n FROM doma_panda.jobsdefined4") == [{"n": 0}]
    result = write_fenced(database, new, start_run(database, new), placement([(1, "CERN", [100])]))
    assert result.kept.all()
    assert audit(database, before) == []


def test_a_lease_lost_during_the_write_rolls_back_the_whole_write(database: Database) -> None:
    seed(database)
    before = baseline(database)
    old = acquire_lease(database, "old")
    new_leases: list[Lease] = []

    def take_over() -> None:
        expire(database)
        new_leases.append(acquire_lease(database, "new"))

    with pytest.raises(StaleLeaseError):
        write_fenced(database, old, start_run(database, old), placement([(1, "CERN", [100])]), between=take_over)
    assert new_leases[0].epoch > old.epoch
    assert all_rows(database, "SELECT count(*) AS n FROM broker.decisions") == [{"n": 0}]
    assert audit(database, before) == []


def test_a_write_interrupted_by_a_lost_connection_stores_nothing_and_can_be_repeated(
    database: Database, connections: Callable[[], Database]
) -> None:
    seed(database)
    before = baseline(database)
    lease = acquire_lease(database, "one")
    run_id = start_run(database, lease)
    own_database = connections()

    def cut_off() -> None:
        with database.begin() as connection:
            result = connection.execute(
                sa.text(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND state = 'idle in transaction'"
                )
            )
            assert result.scalar_one() == 1

    with pytest.raises(DatabaseUnavailable):
        write_fenced(own_database, lease, run_id, placement([(1, "CERN", [100])]), between=cut_off)
    assert audit(database, before) == []
    assert write_fenced(own_database, lease, run_id, placement([(1, "CERN", [100])])).kept.all()
    assert audit(database, before) == []
