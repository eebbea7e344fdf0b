"""Map CRIC's endpoints, the lists of closed ones and their detailed states to rows of ``ddm_endpoint``.

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
    """Build ``ddm_endpoint`` without the space columns, from endpoints ACTIVE in their own record and in a site's.

    Raises:
        DocumentRefused: one of the documents does not have the required shape.
    """
    bad_ones: list[DroppedRow] = []
    usable = _usable_endpoints(endpoints, bad_ones)
    site_of = _sites_of(sites, usable, bad_ones)
    no_write, no_read = closed(closed_write), closed(closed_read)
    detailed = detailed_states(states, bad_ones)
    rows: dict[Key, tuple[Any, ...]] = {}
    for name, site in site_of.items():
        record = usable[name]
        write_closed = _yes_no(name in no_write)
        tape = None if record.get("is_tape") is None else _yes_no(record["is_tape"])
        own = (site, record.get("token"), record.get("type"), tape)
        rows[(name,)] = (*own, write_closed, write_closed, _yes_no(name in no_read), detailed.get(name, {}))
    retained = {(name,) for name in endpoints.records() if name not in usable}
    for dropped in bad_ones:
        if dropped.source == states.name and rows.pop((dropped.identifier,), None) is not None:
            retained.add((dropped.identifier,))
    stay = ("site_name", bad_sites(sites, usable_sites(sites)[0]))
    return MappedTable(
        "ddm_endpoint", ("ddm_endpoint_name",), COLUMNS, rows, frozenset(retained), stay, tuple(bad_ones)
    )


def closed(document: Document) -> frozenset[str]:
    """Return the closed endpoints of a document, a list or the keys of an object; empty when nothing is closed.

    Raises:
        DocumentRefused: the document is neither.
    """
    content = document.content
    names: Iterable[Any] = content if isinstance(content, list | dict) else (None,)
    endpoints = list(names)
    if not all(isinstance(name, str) for name in endpoints):
        raise DocumentRefused("wrong_type", "neither a list of names nor an object", document.name)
    return frozenset(endpoints)


def detailed_states(document: Document, bad_ones: list[DroppedRow]) -> dict[str, dict[str, str]]:
    """Return the state of each endpoint by activity; invalid states are noted in ``bad_ones``.

    Raises:
        DocumentRefused: the document is not an object.
    """
    if isinstance(document.content, list) and not document.content:
        return {}
    if not isinstance(document.content, dict):
        raise DocumentRefused("wrong_type", "an object was expected", document.name)
    states: dict[str, dict[str, str]] = {}
    for endpoint, activities in document.content.items():
        try:
            record = checked_record(document, endpoint, activities)
            states[endpoint] = {activity: _state(activity, entry) for activity, entry in record.items()}
        except BadValueError as bad:
            bad_ones.append(dropped_row(document.name, endpoint, bad))
    return states


def _state(activity: str, entry: Any) -> str:
    status = entry.get("status") if isinstance(entry, dict) else None
    value = status.get("value") if isinstance(status, dict) else None
    if value not in STATES:
        raise BadValueError("out_of_range" if isinstance(value, str) else "wrong_type", activity, value)
    return str(value)


def _usable_endpoints(document: Document, bad_ones: list[DroppedRow]) -> dict[str, dict[str, Any]]:
    usable: dict[str, dict[str, Any]] = {}
    for endpoint, record in document.records().items():
        try:
            name = named(endpoint, "endpoint", LONGEST_NAME)
            usable[name] = _checked(document, endpoint, record)
        except BadValueError as bad:
            bad_ones.append(dropped_row(document.name, endpoint, bad))
    return usable


def _checked(document: Document, endpoint: str, record: Any) -> dict[str, Any]:
    checked = checked_record(document, endpoint, record)
    for key, longest in (("token", LONGEST_NAME), ("type", LONGEST_TYPE)):
        if len(text(checked.get(key), key) or "") > longest:
            raise BadValueError("too_long", key, checked[key])
    if not isinstance(checked.get("is_tape"), bool | None):
        raise BadValueError("wrong_type", "is_tape", checked["is_tape"])
    return checked


def _sites_of(document: Document, usable: Mapping[str, dict[str, Any]], bad_ones: list[DroppedRow]) -> dict[str, str]:
    """The site of each endpoint that is ACTIVE on both sides; of several sites, the one that its own record names."""
    sites, unusable = usable_sites(document)
    bad_ones += unusable
    site_of: dict[str, str] = {}
    for site, record in sites.items():
        for endpoint, entry in (record.get("ddmendpoints") or {}).items():
            own = usable.get(endpoint)
            if own is None or own.get("state") != ACTIVE:
                continue
            if not isinstance(entry, dict) or entry.get("state") != ACTIVE:
                continue
            if endpoint not in site_of or own.get("site") == site:
                site_of[endpoint] = site
    return site_of


def _yes_no(flag: bool) -> str:
    return "Y" if flag else "N"
