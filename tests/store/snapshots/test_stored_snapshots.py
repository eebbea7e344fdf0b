from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.snapshots import stored_snapshots as snapshots
from broker.store.snapshots.stored_snapshots import SnapshotLostError
from tests.store.small_work import NOW

PARTS = {"queues": ("aa", b"q" * 1000), "links": ("bb", b"\0\xff")}


def test_a_snapshot_is_read_back_and_shared_parts_are_stored_once(database: Database) -> None:
    with database.begin() as connection:
        snapshots.save(connection, "a", NOW, "0.1.0", PARTS, {"ages_s": {"links": 12.5}})
        snapshots.save(connection, "a", NOW, "0.1.0", PARTS)
        snapshots.save(connection, "b", NOW, "0.1.0", {**PARTS, "links": ("cc", b"other")})
        assert snapshots.read(connection, "a") == PARTS
        assert snapshots.read(connection, "b") == {**PARTS, "links": ("cc", b"other")}
        assert connection.execute(sa.text("SELECT count(*) FROM broker.snapshot_blobs")).scalar_one() == 3
        assert connection.execute(sa.text("SELECT count(*) FROM broker.snapshots")).scalar_one() == 2


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM broker.snapshots",
        "DELETE FROM broker.snapshot_blobs WHERE length(data) = 2",
    ],
)
def test_an_incomplete_snapshot_is_rejected(database: Database, damage: str) -> None:
    with database.begin() as connection:
        snapshots.save(connection, "a", NOW, "0.1.0", PARTS)
        assert connection.execute(sa.text(damage)).rowcount == 1
        with pytest.raises(SnapshotLostError):
            snapshots.read(connection, "a")


def test_the_latest_snapshot_is_found_by_its_instant(database: Database) -> None:
    with database.begin() as connection:
        since = NOW - timedelta(minutes=1)
        assert snapshots.latest_id(connection, since, NOW) is None
        snapshots.save(connection, "a", NOW - timedelta(minutes=2), "0.1.0", PARTS)
        snapshots.save(connection, "b", NOW - timedelta(minutes=1), "0.1.0", PARTS)
        snapshots.save(connection, "c", NOW + timedelta(minutes=1), "0.1.0", PARTS)
        assert snapshots.latest_id(connection, since, NOW) == "b"
        assert snapshots.latest_id(connection, since + timedelta(seconds=1), NOW) is None
