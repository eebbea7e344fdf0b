"""CRIC's endpoints, the lists of closed ones and their detailed states to rows of ``ddm_endpoint``.

Source: PanDA configurator; PanDA data model, ddm_endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker.domain.work import DroppedRow
from broker.feeds.model.cric.queues import ACTIVE, LONGEST_NAME, bad_sites, checked_record, usable_sites
from broker.feeds.model.rows import Key, MappedTable, dropped_row, named
from broker.fetching.documents import Document, DocumentRefused
from broker.snapshot.raw import BadValueError, text

LONGEST_TYPE = 20
STATES = frozenset({"ON", "OFF", "TEST", "AUTO"})
COLUMNS = (
    "site_name",
    "ddm_spacetoken_name",
    "type",
    "is_tape",
    "blacklisted",
    "blacklisted_write",
    "blacklisted_read",
    "detailed_status",
)


def endpoint_table(
    endpoints: Document, sites: Document, closed_write: Document, closed_read: Document, states: Document
) -> MappedTable:
    """``ddm_endpoint`` without the columns of space: those ACTIVE by their own record and by that of a site.

    Raises:
        DocumentRefused: one of the documents has not the shape it must have.
    """
    bad_ones: list[DroppedRow] = []
    usable = _usable_endpoints(endpoints, bad_ones)
    site_of = _sites_of(sites, usable, bad_ones)
    no_write, no_read = closed(closed_write), closed(closed_read)
    detailed = detailed_states(states, bad_ones)
    rows: dict[Key, tuple[Any, ...]] = {}
    for name, site in site_of.items():
        record = usable[name]
        writable = _yes_no(name in no_write)
        tape = None if record.get("is_tape") is None else _yes_no(record["is_tape"])
        own = (site, record.get("token"), record.get("type"), tape)
        rows[(name,)] = (*own, writable, writable, _yes_no(name in no_read), detailed.get(name, {}))
    kept = {(name,) for name in endpoints.records() if name not in usable}
    for one in bad_ones:
        if one.source == states.name and rows.pop((one.identifier,), None) is not None:
            kept.add((one.identifier,))
    stay = ("site_name", bad_sites(sites, usable_sites(sites)[0]))
    return MappedTable("ddm_endpoint", ("ddm_endpoint_name",), COLUMNS, rows, frozenset(kept), stay, tuple(bad_ones))


def closed(document: Document) -> frozenset[str]:
    """The endpoints of a list of closed ones, given as a list or as the names of an object; empty: nothing is closed.

    Raises:
        DocumentRefused: it is neither.
    """
    content = document.content
    names: Iterable[Any] = content if isinstance(content, list | dict) else (None,)
    found = list(names)
    if not all(isinstance(name, str) for name in found):
        raise DocumentRefused("wrong_type", "neither a list of names nor an object", document.name)
    return frozenset(found)


def detailed_states(document: Document, bad_ones: list[DroppedRow]) -> dict[str, dict[str, str]]:
    """The state of each endpoint by activity; values that are no states are noted in ``bad_ones``.

    Raises:
        DocumentRefused: it is no object.
    """
    if isinstance(document.content, list) and not document.content:
        return {}
    if not isinstance(document.content, dict):
        raise DocumentRefused("wrong_type", "an object was expected", document.name)
    found: dict[str, dict[str, str]] = {}
    for endpoint, activities in document.content.items():
        try:
            record = checked_record(document, endpoint, activities)
            found[endpoint] = {activity: _state(activity, entry) for activity, entry in record.items()}
        except BadValueError as bad:
            bad_ones.append(dropped_row(document.name, endpoint, bad))
    return found


def _state(activity: str, entry: Any) -> str:
    status = entry.get("status") if isinstance(entry, dict) else None
    value = status.get("value") if isinstance(status, dict) else None
    if value not in STATES:
        raise BadValueError("out_of_range" if isinstance(value, str) else "wrong_type", activity, value)
    return str(value)


def _usable_endpoints(document: Document, bad_ones: list[DroppedRow]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for endpoint, record in document.records().items():
        try:
            name = named(endpoint, "endpoint", LONGEST_NAME)
            found[name] = _checked(document, endpoint, record)
        except BadValueError as bad:
            bad_ones.append(dropped_row(document.name, endpoint, bad))
    return found


def _checked(document: Document, endpoint: str, record: Any) -> dict[str, Any]:
    found = checked_record(document, endpoint, record)
    for key, longest in (("token", LONGEST_NAME), ("type", LONGEST_TYPE)):
        if len(text(found.get(key), key) or "") > longest:
            raise BadValueError("too_long", key, found[key])
    if not isinstance(found.get("is_tape"), bool | None):
        raise BadValueError("wrong_type", "is_tape", found["is_tape"])
    return found


def _sites_of(document: Document, usable: Mapping[str, dict[str, Any]], bad_ones: list[DroppedRow]) -> dict[str, str]:
    """The site of each endpoint that is ACTIVE on both sides; of several the one that its own record names."""
    sites, unusable = usable_sites(document)
    bad_ones += unusable
    found: dict[str, str] = {}
    for site, record in sites.items():
        for endpoint, entry in (record.get("ddmendpoints") or {}).items():
            own = usable.get(endpoint)
            if own is None or own.get("state") != ACTIVE:
                continue
            if not isinstance(entry, dict) or entry.get("state") != ACTIVE:
                continue
            if endpoint not in found or own.get("site") == site:
                found[endpoint] = site
    return found


def _yes_no(flag: bool) -> str:
    return "Y" if flag else "N"
