"""Snapshot files: a stored snapshot as one JSON object, plain or gzipped, with or without what was decided on it.

``{"gridbroker_snapshot": 1, "id", "taken_at", "engine", "about", "sources": {name: {"sha256", "content"}}}``, and with
decisions also ``"decisions"`` and ``"tunings"``. The content of a source is that of the database, in JSON; its digest
is checked when the file is read, and so is the name of the snapshot.
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
from broker.store.snapshots.stored_snapshots import KeptSnapshot

MARK = "gridbroker_snapshot"
VERSION = 1


class BadSnapshotFile(Refused):
    """A file that is no snapshot, or not the one that it says."""


@dataclass(frozen=True)
class SnapshotFile:
    """What a snapshot file holds.

    Attributes:
        snapshot: the snapshot.
        decisions: what was decided on it, in the order in which it was decided.
        tunings: the versions of the tuning that were in force, by number.
    """

    snapshot: KeptSnapshot
    decisions: Sequence[StoredDecision] = ()
    tunings: Mapping[int, Published] | None = None


def to_document(file: SnapshotFile) -> dict[str, Any]:
    """The object to be written.

    Raises:
        SnapshotCorruptError: a source cannot be unpacked.
    """
    kept = file.snapshot
    kept.sources()
    reported: dict[str, Any] = {
        MARK: VERSION,
        "id": kept.id,
        "taken_at": kept.taken_at.isoformat(),
        "engine": kept.engine,
        "about": dict(kept.about),
        "sources": {
            name: {"sha256": digest, "content": json.loads(zlib.decompress(data))}
            for name, (digest, data) in sorted(kept.parts.items())
        },
    }
    if file.decisions:
        reported["decisions"] = [decision_to_json(one) for one in file.decisions]
        reported["tunings"] = [_tuning_to_json(one) for _, one in sorted((file.tunings or {}).items())]
    return reported


def from_document(document: Mapping[str, Any], catalogue: Catalogue, where: str) -> SnapshotFile:
    """What a snapshot file holds, its sources checked against their digests and its name.

    Args:
        document: the object in the file.
        catalogue: the keys of the tuning.
        where: the file, for errors.

    Raises:
        BadSnapshotFile: it is none, of a later format, or damaged; the message names the source.
    """
    if document.get(MARK) != VERSION:
        raise BadSnapshotFile(f"{MARK} is {document.get(MARK)!r}, not {VERSION}", where, "export it again")
    try:
        kept = KeptSnapshot(
            str(document["id"]),
            datetime.fromisoformat(document["taken_at"]),
            str(document["engine"]),
            dict(document["about"]),
            {str(name): _part(source) for name, source in document["sources"].items()},
        )
        kept.build()
        decisions = tuple(decision_from_json(one) for one in document.get("decisions", ()))
        tunings = {one["version"]: _tuning_from_json(one, catalogue) for one in document.get("tunings", ())}
    except SnapshotCorruptError as error:
        raise BadSnapshotFile(f"snapshot {document.get('id')}: {error}", where, "export it again") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadSnapshotFile(f"it cannot be read: {error!r}", where, "export it again") from error
    return SnapshotFile(kept, decisions, tunings)


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
