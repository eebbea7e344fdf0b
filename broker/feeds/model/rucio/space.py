"""Map the space of endpoints, from a dump or from the client, to columns of ``ddm_endpoint``.

Source: PanDA configurator, Rucio usage; Rucio client, get_rse_usage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from broker.domain.instants import aware
from broker.domain.work import DroppedRow
from broker.feeds.model.cric.queues import checked_record
from broker.feeds.model.rows import Key, MappedTable, dropped_row, moment, whole_number
from broker.fetching.documents import Document
from broker.snapshot.raw import BadValueError

GB = 2**30
COLUMNS = (
    "space_total",
    "space_free",
    "space_used",
    "space_expired",
    "space_min_free",
    "space_unavailable",
    "space_timestamp",
)
_FORM = "%Y-%m-%d %H:%M:%S"
_OTHERS = ("expired", "min_free_space", "unavailable")


def space_table(document: Document, endpoints: Collection[str], now: datetime) -> MappedTable:
    """Build the space columns of the known endpoints, in GB of 2**30 bytes.

    An endpoint without ``storage`` gets NULL for used, free and total space.

    Args:
        document: usage in bytes, by RSE.
        endpoints: names of the known endpoints.
        now: no time may be later (aware).

    Raises:
        DocumentRefused: the document is not an object, or is empty.
    """
    rows: dict[Key, tuple[Any, ...]] = {}
    dropped_rows: list[DroppedRow] = []
    for rse, record in document.records().items():
        try:
            if rse not in endpoints:
                raise BadValueError("unknown_endpoint", "rse", rse)
            rows[(rse,)] = _values(checked_record(document, rse, record), now)
        except BadValueError as bad:
            dropped_rows.append(dropped_row(document.name, rse, bad))
    return MappedTable("ddm_endpoint", ("ddm_endpoint_name",), COLUMNS, rows, dropped_rows=tuple(dropped_rows))


def usage_of_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Convert the client's rows for one RSE to its usage in the form of the dump."""
    usage: dict[str, Any] = {}
    for row in rows:
        stamp = row.get("updated_at")
        if isinstance(stamp, datetime):
            stamp = aware(stamp).strftime(_FORM)
        usage[str(row.get("source"))] = {"used": row.get("used"), "free": row.get("free"), "updated_at": stamp}
    return usage


def _values(record: dict[str, Any], now: datetime) -> tuple[Any, ...]:
    storage = record.get("storage")
    used = free = stamp = None
    if storage is not None:
        used, free = _gigabytes(storage, "storage", "used"), _gigabytes(storage, "storage", "free")
        stamp = moment(storage.get("updated_at"), "storage.updated_at", _FORM, now)
    total = None if used is None or free is None else used + free
    others = (_gigabytes(record.get(source) or {}, source, "used") or 0 for source in _OTHERS)
    return (total, free, used, *others, None if stamp is None else stamp.replace(tzinfo=None))


def _gigabytes(entry: Any, source: str, key: str) -> int | None:
    if not isinstance(entry, dict):
        raise BadValueError("wrong_type", source, type(entry).__name__)
    size = whole_number(entry.get(key), f"{source}.{key}")
    return None if size is None else size // GB
