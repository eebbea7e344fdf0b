"""Map network metrics to rows of ``network_matrix_kv``.

Source: PanDA configurator; PanDA data model, network_matrix_kv.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

from broker.domain.instants import naive
from broker.domain.work import DroppedRow
from broker.feeds.model.cric.closeness import KEY, LONGEST_SITE, UNKNOWN_SITE
from broker.feeds.model.rows import Key, MappedTable, dropped_row, moment, named, whole_number
from broker.fetching.documents import Document
from broker.snapshot.raw import BadValueError

ACTIVITIES = ("Production Input", "Production Output", "Express")
#: Older values no longer describe the link.
NEWEST_WITHIN = timedelta(minutes=30)
COLUMNS = ("value", "ts")
_FORM = "%Y-%m-%dT%H:%M:%S"

Reading = tuple[str, Any, Any]
"""Key of the table, and value and time as given in the document."""


def metric_table(document: Document, sites: Collection[str], now: datetime) -> MappedTable:
    """Build the rows for links between known sites, each with the time of its value.

    Args:
        document: ``"SRC:DST"`` to files and throughput.
        sites: names of the known sites.
        now: values older than 30 min at this instant (aware) are dropped.

    Raises:
        DocumentRefused: the document is not an object, or is empty.
    """
    rows: dict[Key, tuple[Any, ...]] = {}
    dropped_rows: list[DroppedRow] = []
    known = {UNKNOWN_SITE, *sites}
    for link, record in document.records().items():
        try:
            source, target = _ends(document, link, record, known)
        except BadValueError as bad:
            dropped_rows.append(dropped_row(document.name, link, bad))
            continue
        for key, value, stamp in _readings(record):
            try:
                rows[(source, target, key)] = _row(key, value, stamp, now)
            except BadValueError as bad:
                dropped_rows.append(dropped_row(document.name, f"{link} {key}", bad))
    return MappedTable("network_matrix_kv", KEY, COLUMNS, rows, dropped_rows=tuple(dropped_rows))


def _ends(document: Document, link: str, record: Any, known: set[str]) -> tuple[str, str]:
    if link in document.repeated:
        raise BadValueError("duplicate_name", "link", link)
    fault = document.fault_of(record)
    if fault or not isinstance(record, dict):
        raise BadValueError(fault or "wrong_type", "link", link)
    source, separator, target = link.partition(":")
    if not separator:
        raise BadValueError("bad_link", "link", link)
    if not {named(source, "src", LONGEST_SITE), named(target, "dst", LONGEST_SITE)} <= known:
        raise BadValueError("unknown_site", "link", link)
    return source, target


def _readings(record: dict[str, Any]) -> Iterator[Reading]:
    files = _object(record, "files")
    done, queued = _object(files, "done"), _object(files, "queued")
    for activity in ACTIVITIES:
        if activity in done:
            for window in ("1h", "6h"):
                yield _reading(f"{activity}_done_{window}", done[activity], window)
        if activity in queued:
            yield _reading(f"{activity}_queued", queued[activity], "latest")
    for system, entry in _object(record, "mbps").items():
        windows = [window for window in ("1h", "1d", "1w") if not isinstance(entry, dict) or window in entry]
        for window in windows:
            yield _reading(f"{system}_mbps_{window}", entry, window)


def _reading(key: str, entry: Any, window: str) -> Reading:
    return (key, entry.get(window), entry.get("timestamp")) if isinstance(entry, dict) else (key, entry, entry)


def _object(record: dict[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _row(key: str, value: Any, stamp: Any, now: datetime) -> tuple[Any, ...]:
    named(key, "key", LONGEST_SITE)
    when = moment(stamp, "timestamp", _FORM, now)
    if now - when > NEWEST_WITHIN:
        raise BadValueError("too_old", "timestamp", stamp)
    number = whole_number(value, key)
    if number is None:
        raise BadValueError("missing", key, None)
    return number, naive(when)
