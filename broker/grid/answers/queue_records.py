"""What ``schedconfig_json`` says of the queues: read once in a transaction, parsed anew where a row has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from broker.domain.classification import QueueAbout
from broker.domain.work import DroppedRow
from broker.snapshot.build_classes import queues_about
from broker.store.classes.class_inputs import read_queue_rows
from broker.store.query_context import Asking

_RECORDS = "rows of schedconfig_json"
_SHOWN = ("nickname", "atlas_site", "status", "type", "tier", "cloud", "latitude", "longitude")


@dataclass(frozen=True)
class QueueRecord:
    """The row of a queue.

    Attributes:
        panda_queue: its name in the column.
        document: those fields of its document that answers show, as they stand there; None for what it does not have.
    """

    panda_queue: str
    document: Mapping[str, object]


@dataclass(frozen=True)
class QueueRecords:
    """All rows by name.

    Attributes:
        rows: one a queue; a row that cannot be used has an empty document.
        about: what classes are made from, of the rows that can be used.
    """

    rows: Sequence[QueueRecord]
    about: Mapping[str, QueueAbout]


def queue_records(asking: Asking) -> QueueRecords:
    """What is on record now."""
    return asking.once(_RECORDS, lambda: _read(asking))


def _read(asking: Asking) -> QueueRecords:
    rows = read_queue_rows(asking.connection, asking.catalogue)
    return _parsed(tuple((row["panda_queue"], row["data"]) for row in rows))


# by all of the rows: whatever changes in one of them, all are parsed again
@lru_cache(maxsize=1)
def _parsed(rows: tuple[tuple[str, str | None], ...]) -> QueueRecords:
    dropped: list[DroppedRow] = []
    about = queues_about(({"panda_queue": name, "data": data} for name, data in rows), dropped)
    return QueueRecords(
        tuple(QueueRecord(str(name), _shown(json_document(data))) for name, data in rows), MappingProxyType(about)
    )


def _shown(document: Mapping[str, object]) -> Mapping[str, object]:
    return MappingProxyType({name: document.get(name) for name in _SHOWN})


def json_document(text: str | None) -> dict[str, object]:
    """The object of a column with a document; empty where it holds none."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
