"""Two brokers on the same tasks, inside one process: many rounds, each with a real race in the database."""

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


def granted(database: Database, holder: str) -> Lease:
    with database.begin() as connection:
        lease = leases.acquire(connection, AGENT, holder, TERMS).lease
    assert lease is not None
    return lease


def expire(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(sa.text("UPDATE broker.leases SET expires_at = clock_timestamp()"))


def of_round(number: int, order: int) -> Placement:
    """The same files for both brokers, cut into jobs of their own."""
    task = number + 1
    seen = [TaskSeen(task, "ready", "CERN")]
    first = 100 * task
    size = 2 if order == 0 else 3
    cut = [(task, f"QUEUE{order}", range(first + start, first + start + size)) for start in range(0, 6, size)]
    return placement(cut, tasks=seen)


@pytest.mark.slow
def test_two_brokers_without_any_lease_never_assign_a_file_twice(
    database: Database, connections: Callable[[], Database]
) -> None:
    seed(database, tasks=range(1, ROUNDS + 1))
    before = baseline(database)
    lease = granted(database, "both")
    run_id = start_run(database, lease)
    barrier = threading.Barrier(2)
    won: list[list[int]] = [[], []]

    def broker(order: int, own: Database) -> None:
        for number in range(ROUNDS):
            barrier.wait(timeout=30)
            written = write_fenced(own, lease, run_id, of_round(number, order), fenced=False)
            won[order].append(int(written.kept.sum()))

    threads = [threading.Thread(target=broker, args=(order, connections())) for order in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert audit(database, before) == []
    assert len(won[0]) == len(won[1]) == ROUNDS
    assert all((first, second) in ((3, 0), (0, 2)) for first, second in zip(*won, strict=True))
    assert all_rows(database, "SELECT count(*) AS n FROM doma_panda.jedi_dataset_contents WHERE pandaid IS NULL") == [
        {"n": 0}
    ]


def test_of_two_that_believe_they_lead_the_fence_refuses_the_older(database: Database) -> None:
    seed(database)
    before = baseline(database)
    old = granted(database, "old")
    old_run = start_run(database, old)
    expire(database)
    new = granted(database, "new")
    with pytest.raises(StaleLeaseError):
        write_fenced(database, old, old_run, placement([(1, "CERN", [100])]))
    assert all_rows(database, "SELECT count(*) AS n FROM doma_panda.jobsdefined4") == [{"n": 0}]
    written = write_fenced(database, new, start_run(database, new), placement([(1, "CERN", [100])]))
    assert written.kept.all()
    assert audit(database, before) == []


def test_a_lease_lost_during_the_write_takes_the_whole_write_with_it(database: Database) -> None:
    seed(database)
    before = baseline(database)
    old = granted(database, "old")
    taken: list[Lease] = []

    def take_over() -> None:
        expire(database)
        taken.append(granted(database, "new"))

    with pytest.raises(StaleLeaseError):
        write_fenced(database, old, start_run(database, old), placement([(1, "CERN", [100])]), between=take_over)
    assert taken[0].epoch > old.epoch
    assert all_rows(database, "SELECT count(*) AS n FROM broker.decisions") == [{"n": 0}]
    assert audit(database, before) == []


def test_a_lost_connection_during_the_write_keeps_nothing_and_can_be_repeated(
    database: Database, connections: Callable[[], Database]
) -> None:
    seed(database)
    before = baseline(database)
    lease = granted(database, "one")
    run_id = start_run(database, lease)
    own = connections()

    def cut_off() -> None:
        with database.begin() as connection:
            ended = connection.execute(
                sa.text(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND state = 'idle in transaction'"
                )
            )
            assert ended.scalar_one() == 1

    with pytest.raises(DatabaseUnavailable):
        write_fenced(own, lease, run_id, placement([(1, "CERN", [100])]), between=cut_off)
    assert audit(database, before) == []
    assert write_fenced(own, lease, run_id, placement([(1, "CERN", [100])])).kept.all()
    assert audit(database, before) == []
