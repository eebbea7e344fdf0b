"""Snapshot files: a stored snapshot as one JSON object, plain or gzipped, with or without the decisions based on it.

``{"gridbroker_snapshot": 1, "id", "taken_at", "engine", "about", "sources": {name: {"sha256", "content"}}}``, and with
decisions also ``"decisions"`` and ``"tunings"``. The content of a source is the content in the database, as JSON; its
digest and the name of the snapshot are checked when the file is read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from broker.domain.decisions import StoredDecision
from broker.errors import Refused
from broker.gdpconfig.catalogue import Catalogue
from broker.gdpconfig.publish import (
    Published,
    last_good_from_json,
    last_good_to_json,
    rows_from_json,
    rows_to_json,
)
from broker.snapshot.raw import SnapshotCorruptError
from broker.store.decisions.decision_json import decision_from_json, decision_to_json
from broker.store.snapshots.stored_snapshots import EncodedSnapshot

MARK = "gridbroker_snapshot"
VERSION = 1


class BadSnapshotFile(Refused):
    """The file is not a snapshot, or not the one that it claims to be."""


@dataclass(frozen=True)
class SnapshotFile:
    """The contents of a snapshot file.

    Attributes:
        snapshot: the snapshot.
        decisions: the decisions based on it, in the order in which they were made.
        tunings: the versions of the tuning that were in force, by number.
    """

    snapshot: EncodedSnapshot
    decisions: Sequence[StoredDecision] = ()
    tunings: Mapping[int, Published] | None = None


def to_document(file: SnapshotFile) -> dict[str, Any]:
    """The JSON object to write to the file.

    Raises:
        SnapshotCorruptError: a source cannot be unpacked.
    """
    snapshot = file.snapshot
    snapshot.sources()
    document: dict[str, Any] = {
        MARK: VERSION,
        "id": snapshot.id,
        "taken_at": snapshot.taken_at.isoformat(),
        "engine": snapshot.engine,
        "about": dict(snapshot.about),
        "sources": {
            name: {"sha256": digest, "content": json.loads(zlib.decompress(data))}
            for name, (digest, data) in sorted(snapshot.parts.items())
        },
    }
    if file.decisions:
        document["decisions"] = [decision_to_json(stored) for stored in file.decisions]
        document["tunings"] = [_tuning_to_json(published) for _, published in sorted((file.tunings or {}).items())]
    return document


def from_document(document: Mapping[str, Any], catalogue: Catalogue, where: str) -> SnapshotFile:
    """Parse the contents of a snapshot file, checking its sources against their digests and its name.

    Args:
        document: the object in the file.
        catalogue: the keys of the tuning.
        where: the file, for errors.

    Raises:
        BadSnapshotFile: it is not a snapshot file, has a later format, or is damaged; the message names the source.
    """
    if document.get(MARK) != VERSION:
        raise BadSnapshotFile(f"{MARK} is {document.get(MARK)!r}, not {VERSION}", where, "export it again")
    try:
        snapshot = EncodedSnapshot(
            str(document["id"]),
            datetime.fromisoformat(document["taken_at"]),
            str(document["engine"]),
            dict(document["about"]),
            {str(name): _part(source) for name, source in document["sources"].items()},
        )
        snapshot.build()
        decisions = tuple(decision_from_json(entry) for entry in document.get("decisions", ()))
        tunings = {entry["version"]: _tuning_from_json(entry, catalogue) for entry in document.get("tunings", ())}
    except SnapshotCorruptError as error:
        raise BadSnapshotFile(f"snapshot {document.get('id')}: {error}", where, "export it again") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadSnapshotFile(f"it cannot be read: {error!r}", where, "export it again") from error
    return SnapshotFile(snapshot, decisions, tunings)


def _part(source: Mapping[str, Any]) -> tuple[str, bytes]:
    text = json.dumps(source["content"], sort_keys=True, separators=(",", ":")).encode()
    return str(source["sha256"]), zlib.compress(text, 3)


def _tuning_to_json(published: Published) -> dict[str, Any]:
    return {
        "version": published.version,
        "vo": published.catalogue.vo,
        "rows": rows_to_json(published.rows),
        "last_good": last_good_to_json(published.last_good),
    }


def _tuning_from_json(reported: Mapping[str, Any], catalogue: Catalogue) -> Published:
    catalogue = catalogue.of_installation(str(reported.get("vo", catalogue.vo)))
    rows, good = rows_from_json(reported["rows"]), last_good_from_json(reported["last_good"])
    return Published(int(reported["version"]), rows, good, catalogue)
