"""The CRIC documents that are imported: their names, addresses and shapes, and how to distinguish them.

Source: PanDA configurator; importers' facts, CRIC documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

QUEUES, TAGS, SITES, ENDPOINTS = "queues", "tags", "sites", "endpoints"
CLOSED_WRITE, CLOSED_READ, STATES, CLOSENESS = "closed_write", "closed_read", "endpoint_states", "closeness"
CENTRES = "resource_centres"


@dataclass(frozen=True)
class CricDocument:
    """One of CRIC's documents.

    Attributes:
        name: used in requests and reports.
        path: of its address on CRIC's host.
        may_be_empty: an empty one is meaningful: nothing is closed.
        optional: imported only if the options or a command name it.
    """

    name: str
    path: str
    may_be_empty: bool = False
    optional: bool = False


DOCUMENTS: Mapping[str, CricDocument] = {
    one.name: one
    for one in (
        CricDocument(QUEUES, "/api/atlas/pandaqueue/query/?json"),
        CricDocument(TAGS, "/api/atlas/pandaqueue/query/?json&preset=tags"),
        CricDocument(SITES, "/api/atlas/site/query/?json"),
        CricDocument(ENDPOINTS, "/api/atlas/ddmendpoint/query/?json"),
        CricDocument(
            CLOSED_WRITE, "/api/atlas/ddmendpointstatus/query/?json&activity=write_wan&fstate=OFF", may_be_empty=True
        ),
        CricDocument(
            CLOSED_READ, "/api/atlas/ddmendpointstatus/query/?json&activity=read_wan&fstate=OFF", may_be_empty=True
        ),
        CricDocument(STATES, "/api/atlas/ddmendpointstatus/query/?json", may_be_empty=True),
        CricDocument(CLOSENESS, "/api/core/sitematrix/query/?json&json_pretty=0"),
        CricDocument(CENTRES, "/api/core/rcsite/query/?json", optional=True),
    )
}
"""All of them, by name."""


def name_by_address(address: str) -> str | None:
    """Return which document a CRIC address refers to; None when the address does not tell."""
    parts = urlsplit(address)
    query = parse_qs(parts.query, keep_blank_values=True)
    for document in DOCUMENTS.values():
        own = urlsplit(document.path)
        own_query = parse_qs(own.query, keep_blank_values=True)
        keys = ("preset", "activity", "fstate")
        if parts.path.endswith(own.path) and all(query.get(key) == own_query.get(key) for key in keys):
            return document.name
    return None


def name_by_shape(content: Any) -> str | None:
    """Return which document has this content; None when its shape does not tell, as for lists of closed endpoints."""
    if isinstance(content, list):
        first = next((one for one in content if isinstance(one, dict)), None)
        return CLOSENESS if first is not None and "closeness" in first else None
    if not isinstance(content, dict):
        return None
    records = [record for record in content.values() if isinstance(record, dict)]
    return next((name for name, matches in _SHAPES for record in records if matches(record)), None)


def _are_states(record: Mapping[str, Any]) -> bool:
    states = [value for value in record.values() if isinstance(value, dict) and isinstance(value.get("status"), dict)]
    return bool(states) and len(states) == len(record)


_SHAPES: tuple[tuple[str, Callable[[Mapping[str, Any]], bool]], ...] = (
    (QUEUES, lambda record: "panda_resource" in record or "astorages" in record),
    (TAGS, lambda record: "cmtconfigs" in record),
    (SITES, lambda record: "presources" in record or "ddmendpoints" in record),
    (ENDPOINTS, lambda record: "is_tape" in record and "token" in record),
    (CENTRES, lambda record: "latitude" in record and "longitude" in record),
    (STATES, _are_states),
)
