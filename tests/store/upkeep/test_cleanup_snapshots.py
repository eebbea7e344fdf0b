from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.snapshots import stored_snapshots as snapshots
from broker.store.upkeep import cleanup_rows
from broker.store.upkeep.cleanup_rows import RemovedSnapshots
from tests.store.small_work import NOW

OLD = NOW - timedelta(days=20)
BEFORE = NOW - timedelta(days=14)
IMPATIENT = sa.text("SET LOCAL lock_timeout = '3s'")


def save(connection: sa.Connection, name: str, seconds: float, **parts: bytes) -> None:
    encoded = {part: (data.hex(), data) for part, data in parts.items()}
    snapshots.save(connection, name, OLD + timedelta(seconds=seconds), "0.1.0", encoded)


def decide(connection: sa.Connection, snapshot: str, age_days: float = 1.0) -> None:
    statement = """
        INSERT INTO broker.decisions (jeditaskid, brokerage, outcome, decided_at, snapshot)
        VALUES (1, 'b', 'o', :at, :snapshot)"""
    connection.execute(sa.text(statement), {"at": NOW - timedelta(days=age_days), "snapshot": snapshot})


def held(database: Database) -> tuple[list[str], list[bytes]]:
    with database.read_snapshot() as connection:
        names = connection.execute(sa.text("SELECT id FROM broker.snapshots ORDER BY id")).scalars().all()
        data = connection.execute(sa.text("SELECT data FROM broker.snapshot_blobs ORDER BY data")).scalars().all()
    return list(names), [bytes(one) for one in data]


@pytest.fixture
def filled(database: Database) -> Database:
    """Snapshots a to d, of which b is needed; x is a part that nobody has."""
    with database.begin() as connection:
        save(connection, "a", 0, queues=b"q", links=b"only a")
        save(connection, "b", 1, queues=b"q", links=b"b")
        save(connection, "c", 2, queues=b"c", jobs=b"b")
        save(connection, "d", 86400 * 19, queues=b"c")
        decide(connection, "b")
        connection.execute(sa.text("INSERT INTO broker.snapshot_blobs (sha256, data) VALUES ('x', 'xxx')"))
    return database


def test_what_a_decision_needs_stays_and_shared_parts_with_it(filled: Database) -> None:
    with filled.begin() as connection:
        assert cleanup_rows.count(connection, BEFORE, None) == RemovedSnapshots(2, 2, 9)
        assert cleanup_rows.remove(connection, BEFORE, 1) == RemovedSnapshots(1, 1, 6)
        assert cleanup_rows.remove(connection, BEFORE, 10) == RemovedSnapshots(1, 0, 0)
        assert cleanup_rows.remove(connection, BEFORE, 10) == RemovedSnapshots()
        assert cleanup_rows.stored_bytes(connection) == 6
        assert cleanup_rows.remove_unused_blobs(connection, 10) == RemovedSnapshots(0, 1, 3)
        assert cleanup_rows.remove_unused_blobs(connection, 10) == RemovedSnapshots()
        assert snapshots.read(connection, "b")["links"][1] == b"b"
    assert held(filled) == (["b", "d"], [b"b", b"c", b"q"])


def test_age_is_compared_strictly_and_the_newest_stays(filled: Database) -> None:
    with filled.begin() as connection:
        assert cleanup_rows.remove(connection, OLD, 10).snapshots == 0
        assert cleanup_rows.remove(connection, OLD + timedelta(microseconds=1), 10).snapshots == 1
        assert cleanup_rows.remove(connection, NOW, 10).snapshots == 1
    assert held(filled)[0] == ["b", "d"]


@pytest.mark.parametrize(("kept_days", "counted"), [(1.0, 2), (0.99, 3)])
def test_a_dry_run_reckons_with_the_decisions_that_would_go(filled: Database, kept_days: float, counted: int) -> None:
    with filled.begin() as connection:
        found = cleanup_rows.count(connection, BEFORE, NOW - timedelta(days=kept_days))
        assert found.snapshots == counted


def test_a_part_that_a_new_snapshot_is_about_to_use_stays(filled: Database) -> None:
    with filled.begin() as broker:
        save(broker, "new", 86400 * 20, links=b"only a")
        with filled.begin() as connection:
            connection.execute(IMPATIENT)
            assert cleanup_rows.remove(connection, BEFORE, 1) == RemovedSnapshots(1, 0, 0)
    with filled.begin() as connection:
        assert cleanup_rows.remove_unused_blobs(connection, 10).size_bytes == 3
        assert snapshots.read(connection, "new")["links"][1] == b"only a"


def test_a_part_that_is_just_being_removed_is_stored_again(filled: Database) -> None:
    def store() -> None:
        with filled.begin() as broker:
            save(broker, "new", 86400 * 20, links=b"only a")

    saver = threading.Thread(target=store)
    waiting = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with filled.begin() as connection:
        assert cleanup_rows.remove(connection, BEFORE, 1).blobs == 1
        saver.start()
        with filled.autocommit() as watcher:
            while saver.is_alive() and not watcher.execute(waiting).scalar_one():
                saver.join(0.01)
        assert saver.is_alive()
    saver.join()
    with filled.begin() as connection:
        assert snapshots.read(connection, "new")["links"][1] == b"only a"


def test_a_decision_that_comes_in_between_keeps_its_snapshot(filled: Database) -> None:
    with filled.begin() as broker, filled.begin() as connection:
        save(broker, "a", 0, queues=b"q", links=b"only a")  # the same instant once more
        decide(broker, "a")
        connection.execute(IMPATIENT)
        assert cleanup_rows.remove(connection, BEFORE, 10).snapshots == 1
    assert held(filled)[0] == ["a", "b", "d"]
