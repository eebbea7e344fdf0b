"""A stored snapshot, built again from the sources that were kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import SnapshotCorruptError, decode
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources import SourceState
from broker.store import snapshots
from broker.store.snapshots import SnapshotLostError


def stored_snapshot(connection: sa.Connection, identifier: str) -> Snapshot:
    """The snapshot as the cycle that stored it saw the grid.

    Raises:
        SnapshotLostError: it is not there any more, or not as it was stored.
    """
    taken_at, about = snapshots.about(connection, identifier)
    parts = snapshots.read(connection, identifier)
    try:
        sources = {name: decode(digest, data) for name, (digest, data) in parts.items()}
        states = tuple(SourceState(**_known(state)) for state in about.get("states", []))
    except (SnapshotCorruptError, TypeError) as error:
        raise SnapshotLostError(
            f"snapshot {identifier} cannot be read: {error}", "broker.snapshots", "ask about a newer decision"
        ) from error
    return build_snapshot(identifier, taken_at, sources, states)


def _known(state: Mapping[str, Any]) -> dict[str, Any]:
    fields = {field.name for field in dataclasses.fields(SourceState)}
    return {name: value for name, value in state.items() if name in fields}
