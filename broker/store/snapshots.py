"""Snapshots, kept so that a decision can be asked again. Parts that two snapshots share are stored once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker.errors import BrokerError


class SnapshotLostError(BrokerError):
    """A snapshot is not there any more, or not as it was stored."""


_SAVE_PART = text("""
    INSERT INTO broker.snapshot_blobs (sha256, data) VALUES (:sha256, :data) ON CONFLICT (sha256) DO NOTHING""")

_SAVE = text("""
    INSERT INTO broker.snapshots (id, taken_at, engine, sources)
    VALUES (:id, :taken_at, :engine, CAST(:sources AS jsonb)) ON CONFLICT (id) DO NOTHING""")

_READ = text("SELECT sources FROM broker.snapshots WHERE id = :id")
_READ_PARTS = text("SELECT sha256, data FROM broker.snapshot_blobs WHERE sha256 = ANY(:wanted)")


def save(
    connection: Connection,
    snapshot_id: str,
    taken_at: datetime,
    engine: str,
    parts: Mapping[str, bytes],
    about: Mapping[str, Any] | None = None,
) -> None:
    """Store a snapshot as encoded parts, once; ``about`` is kept with it, such as the age of each source."""
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
    for name, data in parts.items():
        connection.execute(_SAVE_PART, {"sha256": hashes[name], "data": data})
    sources = json.dumps({"parts": hashes, "about": dict(about or {})})
    connection.execute(_SAVE, {"id": snapshot_id, "taken_at": taken_at, "engine": engine, "sources": sources})


def read(connection: Connection, snapshot_id: str) -> dict[str, bytes]:
    """The encoded parts of a snapshot.

    Raises:
        SnapshotLostError: it was never stored, was cleared away, or a part does not have its hash.
    """
    sources = connection.execute(_READ, {"id": snapshot_id}).scalar_one_or_none()
    remedy = "ask about a newer decision, or keep snapshots longer"
    if sources is None:
        raise SnapshotLostError(f"no snapshot {snapshot_id}", "broker.snapshots", remedy)
    hashes: dict[str, str] = sources["parts"]
    found = connection.execute(_READ_PARTS, {"wanted": list(hashes.values())})
    parts = {sha256: bytes(data) for sha256, data in found}
    for name, sha256 in hashes.items():
        if sha256 not in parts or hashlib.sha256(parts[sha256]).hexdigest() != sha256:
            raise SnapshotLostError(f"part {name} of snapshot {snapshot_id} is lost", "broker.snapshot_blobs", remedy)
    return {name: parts[sha256] for name, sha256 in hashes.items()}
