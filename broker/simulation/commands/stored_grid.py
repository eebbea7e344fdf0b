"""The grid of a snapshot in the database or in an exported file, for ``broker simulate --snapshot``."""

from __future__ import annotations

from pathlib import Path

import typer

from broker.cli.context import open_store
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.snapshot.raw import RawSource, SnapshotCorruptError
from broker.snapshot.snapshot import Snapshot
from broker.store.scenarios.scenario_file import read_document
from broker.store.snapshots.snapshot_file import from_document
from broker.store.snapshots.snapshot_overview import newest_id
from broker.store.snapshots.stored_snapshots import NoSuchSnapshot, SnapshotLostError, encoded_snapshot

NEWEST = "newest"


def snapshot_of(context: typer.Context, wanted: str) -> tuple[Snapshot, dict[str, RawSource]]:
    """The snapshot of a name, the newest, or the one in a file of ``broker snapshot export``, and its sources.

    Raises:
        SnapshotLostError: the snapshot does not exist, or is not as it was stored.
        BrokerError: the file is no snapshot, or the database cannot be reached.
    """
    try:
        if wanted.endswith((".json", ".json.gz")):
            stored = from_document(read_document(Path(wanted)), shipped_catalogue(), wanted).snapshot
            return stored.build(), stored.sources()
        with open_store(context) as database, database.read_snapshot() as connection:
            name = newest_id(connection) if wanted == NEWEST else wanted
            if name is None:
                raise NoSuchSnapshot("no snapshot is stored", "broker.snapshots", "run a brokerage first")
            stored = encoded_snapshot(connection, name)
            return stored.build(), stored.sources()
    except SnapshotCorruptError as error:
        raise SnapshotLostError(f"snapshot {wanted}: {error}", "broker.snapshots", "take another one") from error
