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


def stored_content(database: Database) -> tuple[list[str], list[bytes]]:
    with database.read_snapshot() as connection:
        names = connection.execute(sa.text("SELECT id FROM broker.snapshots ORDER BY id")).scalars().all()
        data = connection.execute(sa.text("SELECT data FROM broker.snapshot_blobs ORDER BY data")).scalars().all()
    return list(names), [bytes(blob) for blob in data]


@pytest.fixture
def snapshot_database(database: Database) -> Database:
    """Snapshots a to d, of which a decision needs b; x is an unused part."""
    with database.begin() as connection:
        save(connection, "a", 0, queues=b"q", links=b"only a")
        save(connection, "b", 1, queues=b"q", links=b"b")
        save(connection, "c", 2, queues=b"c", jobs=b"b")
        save(connection, "d", 86400 * 19, queues=b"c")
        decide(connection, "b")
        connection.execute(sa.text("INSERT INTO broker.snapshot_blobs (sha256, data) VALUES ('x', 'xxx')"))
    return database


def test_snapshots_needed_by_decisions_and_their_parts_are_preserved(snapshot_database: Database) -> None:
    with snapshot_database.begin() as connection:
        assert cleanup_rows.count(connection, BEFORE, None) == RemovedSnapshots(2, 2, 9)
        assert cleanup_rows.remove(connection, BEFORE, 1) == RemovedSnapshots(1, 1, 6)
        assert cleanup_rows.remove(connection, BEFORE, 10) == RemovedSnapshots(1, 0, 0)
        assert cleanup_rows.remove(connection, BEFORE, 10) == RemovedSnapshots()
        assert cleanup_rows.stored_bytes(connection) == 6
        assert cleanup_rows.remove_unused_blobs(connection, 10) == RemovedSnapshots(0, 1, 3)
        assert cleanup_rows.remove_unused_blobs(connection, 10) == RemovedSnapshots()
        assert snapshots.read(connection, "b")["links"][1] == b"b"
    assert stored_content(snapshot_database) == (["b", "d"], [b"b", b"c", b"q"])


def test_age_is_compared_strictly_and_the_newest_snapshot_is_preserved(snapshot_database: Database) -> None:
    with snapshot_database.begin() as connection:
        assert cleanup_rows.remove(connection, OLD, 10).snapshots == 0
        assert cleanup_rows.remove(connection, OLD + timedelta(microseconds=1), 10).snapshots == 1
        assert cleanup_rows.remove(connection, NOW, 10).snapshots == 1
    assert stored_content(snapshot_database)[0] == ["b", "d"]


@pytest.mark.parametrize(("retention_days", "expected_count"), [(1.0, 2), (0.99, 3)])
def test_a_dry_run_accounts_for_decisions_that_would_be_removed(
    snapshot_database: Database, retention_days: float, expected_count: int
) -> None:
    with snapshot_database.begin() as connection:
        counts = cleanup_rows.count(connection, BEFORE, NOW - timedelta(days=retention_days))
        assert counts.snapshots == expected_count


def test_a_part_about_to_be_used_by_a_new_snapshot_is_preserved(snapshot_database: Database) -> None:
    with snapshot_database.begin() as broker:
        save(broker, "new", 86400 * 20, links=b"only a")
        with snapshot_database.begin() as connection:
            connection.execute(IMPATIENT)
            assert cleanup_rows.remove(connection, BEFORE, 1) == RemovedSnapshots(1, 0, 0)
    with snapshot_database.begin() as connection:
        assert cleanup_rows.remove_unused_blobs(connection, 10).size_bytes == 3
        assert snapshots.read(connection, "new")["links"][1] == b"only a"


def test_a_part_being_removed_concurrently_is_stored_again(snapshot_database: Database) -> None:
    def store() -> None:
        with snapshot_database.begin() as broker:
            save(broker, "new", 86400 * 20, links=b"only a")

    saver = threading.Thread(target=store)
    waiting = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with snapshot_database.begin() as connection:
        assert cleanup_rows.remove(connection, BEFORE, 1).blobs == 1
        saver.start()
        with snapshot_database.autocommit() as watcher:
            while saver.is_alive() and not watcher.execute(waiting).scalar_one():
                saver.join(0.01)
        assert saver.is_alive()
    saver.join()
    with snapshot_database.begin() as connection:
        assert snapshots.read(connection, "new")["links"][1] == b"only a"


def test_a_concurrent_decision_preserves_its_snapshot(snapshot_database: Database) -> None:
    with snapshot_database.begin() as broker, snapshot_database.begin() as connection:
        save(broker, "a", 0, queues=b"q", links=b"only a")  # the same instant again
        decide(broker, "a")
        connection.execute(IMPATIENT)
        assert cleanup_rows.remove(connection, BEFORE, 10).snapshots == 1
    assert stored_content(snapshot_database)[0] == ["a", "b", "d"]
