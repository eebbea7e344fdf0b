"""CRIC's queues and software tags to rows of ``schedconfig_json`` and ``sw_tags``.

Source: PanDA configurator; PanDA data model, schedconfig_json and sw_tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.domain.work import DroppedRow
from broker.feeds.model.rows import Key, MappedTable, dropped_row, named, within
from broker.fetching.documents import Document
from broker.snapshot.readings import BadValueError, text

LONGEST_QUEUE_NAME = 50
_DAY_S = 86_400

#: Ranges (both included) of figures of a queue; a queue with another value keeps the row it has.
RANGES: Mapping[str, tuple[float, float]] = {
    "corecount": (0, 100_000),
    "corepower": (0, 10_000),
    "coreenergy": (0, 100_000),
    "maxtime": (0, 3650 * _DAY_S),
    "mintime": (0, 3650 * _DAY_S),
    "maxrss": (0, 1e9),
    "minrss": (0, 1e9),
    "meanrss": (0, 1e9),
    "maxinputsize": (-1, 1e12),
    "maxdiskio": (0, 1e9),
    "timefloor": (0, 3650 * _DAY_S),
    "transferringlimit": (0, 1e9),
    "nodes": (0, 1e9),
    "pledgedcpu": (-1, 1e9),
}
_TEXTS = (
    "nickname",
    "status",
    "state",
    "type",
    "capability",
    "cloud",
    "atlas_site",
    "panda_resource",
    "wnconnectivity",
)
_TAG_LISTS = ("cmtconfigs", "containers", "cvmfs", "architectures", "tags")


def usable_queues(document: Document) -> tuple[dict[str, dict[str, Any]], tuple[DroppedRow, ...], frozenset[Key]]:
    """The queues that can be used, what was left out, and the keys of the rows that stay for that.

    Raises:
        DocumentRefused: it is no object, or empty.
    """
    found: dict[str, dict[str, Any]] = {}
    bad_ones: list[DroppedRow] = []
    kept: set[Key] = set()
    for queue, record in document.records().items():
        try:
            found[named(queue, "panda_queue", LONGEST_QUEUE_NAME)] = _checked(document, queue, record)
        except BadValueError as bad:
            bad_ones.append(dropped_row(document.name, queue, bad))
            kept.add((queue,))
    return found, tuple(bad_ones), frozenset(kept)


def queue_table(document: Document) -> MappedTable:
    """``schedconfig_json`` without ``last_update``: the whole object of each queue, whatever its state.

    Raises:
        DocumentRefused: it is no object, or empty.
    """
    found, bad_ones, kept = usable_queues(document)
    rows: dict[Key, tuple[Any, ...]] = {(queue,): (record,) for queue, record in found.items()}
    return MappedTable("schedconfig_json", ("panda_queue",), ("data",), rows, kept, dropped_rows=bad_ones)


def tag_table(document: Document) -> MappedTable:
    """``sw_tags`` without ``last_update``: the tags of each queue, and of ``ALL``.

    Raises:
        DocumentRefused: it is no object, or empty.
    """
    rows: dict[Key, tuple[Any, ...]] = {}
    bad_ones: list[DroppedRow] = []
    kept: set[Key] = set()
    for queue, record in document.records().items():
        try:
            name = named(queue, "panda_queue", LONGEST_QUEUE_NAME)
            rows[(name,)] = (_checked_tags(document, queue, record),)
        except BadValueError as bad:
            bad_ones.append(dropped_row(document.name, queue, bad))
            kept.add((queue,))
    return MappedTable("sw_tags", ("panda_queue",), ("data",), rows, frozenset(kept), dropped_rows=tuple(bad_ones))


def _checked(document: Document, queue: str, record: Any) -> dict[str, Any]:
    found = checked_record(document, queue, record)
    for key in _TEXTS:
        text(found.get(key), key)
    if found.get("nickname") not in (None, ""):
        named(found["nickname"], "nickname", 256)
    for key, (lowest, highest) in RANGES.items():
        within(found.get(key), key, lowest, highest)
    return found


def _checked_tags(document: Document, queue: str, record: Any) -> dict[str, Any]:
    found = checked_record(document, queue, record)
    for key in _TAG_LISTS:
        if not isinstance(found.get(key, []), list):
            raise BadValueError("wrong_type", key, type(found[key]).__name__)
    return found


def checked_record(document: Document, name: str, record: Any) -> dict[str, Any]:
    """A record that is an object with nothing in it that cannot be stored, and whose name stands there once.

    Raises:
        BadValueError: it is none.
    """
    if name in document.repeated:
        raise BadValueError("duplicate_name", "name", name)
    if not isinstance(record, dict):
        raise BadValueError("wrong_type", "record", type(record).__name__)
    fault = document.fault_of(record)
    if fault:
        raise BadValueError(fault, "record", name)
    return record
