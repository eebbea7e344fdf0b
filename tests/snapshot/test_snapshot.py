"""The id of a snapshot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from broker.snapshot.snapshot import snapshot_id

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


def test_the_id_depends_on_instant_and_content_only() -> None:
    digests = [("queues", "ab"), ("links", "cd")]
    identifier = snapshot_id(NOW, digests)
    assert identifier.startswith("20260801T120000-")
    assert snapshot_id(NOW, digests[::-1]) == identifier
    other_digests = [
        [("queues", "ab")],
        [("queues", "cd"), ("links", "ab")],
        [("queues", "ab"), ("links", "cd"), ("jobs", "")],
    ]
    assert len({identifier, *(snapshot_id(NOW, changed) for changed in other_digests)}) == 4
    assert snapshot_id(NOW + timedelta(seconds=1), digests) != identifier
