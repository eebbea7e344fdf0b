"""The rows of ``schedconfig_json``: read once in a transaction, parsed again only when a row has changed."""

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
from broker.store.query_context import QueryContext

_RECORDS = "rows of schedconfig_json"
_SHOWN = ("nickname", "atlas_site", "status", "type", "tier", "cloud", "latitude", "longitude")


@dataclass(frozen=True)
class QueueRecord:
    """The row of a queue.

    Attributes:
        panda_queue: its name in the column.
        document: the fields of its document that answers show, unchanged; None for missing fields.
    """

    panda_queue: str
    document: Mapping[str, object]


@dataclass(frozen=True)
class QueueRecords:
    """All rows by name.

    Attributes:
        rows: one a queue; a row that cannot be used has an empty document.
        about: the data for classes, from the usable rows.
    """

    rows: Sequence[QueueRecord]
    about: Mapping[str, QueueAbout]


def queue_records(query: QueryContext) -> QueueRecords:
    """The rows that are on record now."""
    return query.once(_RECORDS, lambda: _read(query))


def _read(query: QueryContext) -> QueueRecords:
    rows = read_queue_rows(query.connection, query.catalogue)
    return _parse(tuple((row["panda_queue"], row["data"]) for row in rows))


# keyed by all rows: a change in any of them parses all again
@lru_cache(maxsize=1)
def _parse(rows: tuple[tuple[str, str | None], ...]) -> QueueRecords:
    dropped: list[DroppedRow] = []
    about = queues_about(({"panda_queue": name, "data": data} for name, data in rows), dropped)
    return QueueRecords(
        tuple(QueueRecord(str(name), _fields(json_document(data))) for name, data in rows), MappingProxyType(about)
    )


def _fields(document: Mapping[str, object]) -> Mapping[str, object]:
    return MappingProxyType({name: document.get(name) for name in _SHOWN})


def json_document(text: str | None) -> dict[str, object]:
    """The JSON object in a column; empty if it holds none."""
    try:
        document = json.loads(text or "{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
