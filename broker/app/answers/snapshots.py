"""Stored snapshots for answers: they never change, so the last few stay at hand."""

from __future__ import annotations

import threading
from collections import OrderedDict

import sqlalchemy as sa

from broker.snapshot.snapshot import Snapshot
from broker.store.snapshots.snapshot_loading import stored_snapshot

KEPT = 4
_kept: OrderedDict[str, Snapshot] = OrderedDict()
_lock = threading.Lock()


def snapshot_of(connection: sa.Connection, identifier: str) -> Snapshot:
    """A stored snapshot.

    Raises:
        SnapshotLostError: it is not there any more.
    """
    with _lock:
        if identifier in _kept:
            _kept.move_to_end(identifier)
            return _kept[identifier]
    found = stored_snapshot(connection, identifier)
    with _lock:
        _kept[identifier] = found
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found
