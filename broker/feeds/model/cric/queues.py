"""Map CRIC's queues, software tags, sites and relations to storage to rows of PanDA's tables.

Source: PanDA configurator; PanDA data model, schedconfig_json, sw_tags, site, panda_site and panda_ddm_relation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.domain.work import DroppedRow
from broker.feeds.model.rows import Key, MappedTable, dropped_row, named, whole_number, within
from broker.fetching.documents import Document
from broker.snapshot.raw import BadValueError, text

LONGEST_QUEUE_NAME = 50
_DAY_S = 86_400

#: Inclusive ranges of a queue's figures; a queue with a value outside them keeps its row.
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
    """Return the usable queues, the dropped rows, and the keys of the stored rows that stay in their place.

    Raises:
        DocumentRefused: the document is not an object, or is empty.
    """
    usable: dict[str, dict[str, Any]] = {}
    dropped_rows: list[DroppedRow] = []
    retained: set[Key] = set()
    for queue, record in document.records().items():
        try:
            usable[named(queue, "panda_queue", LONGEST_QUEUE_NAME)] = _checked(document, queue, record)
        except BadValueError as bad:
            dropped_rows.append(dropped_row(document.name, queue, bad))
            retained.add((queue,))
    return usable, tuple(dropped_rows), frozenset(retained)


def queue_table(document: Document) -> MappedTable:
    """``schedconfig_json`` without ``last_update``: the whole object of each queue in any state.

    Raises:
        DocumentRefused: the document is not an object, or is empty.
    """
    usable, dropped_rows, retained = usable_queues(document)
    rows: dict[Key, tuple[Any, ...]] = {(queue,): (record,) for queue, record in usable.items()}
    return MappedTable("schedconfig_json", ("panda_queue",), ("data",), rows, retained, dropped_rows=dropped_rows)


def tag_table(document: Document) -> MappedTable:
    """``sw_tags`` without ``last_update``: the tags of each queue, and of ``ALL``.

    Raises:
        DocumentRefused: the document is not an object, or is empty.
    """
    rows: dict[Key, tuple[Any, ...]] = {}
    dropped_rows: list[DroppedRow] = []
    retained: set[Key] = set()
    for queue, record in document.records().items():
        try:
            name = named(queue, "panda_queue", LONGEST_QUEUE_NAME)
            rows[(name,)] = (_checked_tags(document, queue, record),)
        except BadValueError as bad:
            dropped_rows.append(dropped_row(document.name, queue, bad))
            retained.add((queue,))
    return MappedTable(
        "sw_tags", ("panda_queue",), ("data",), rows, frozenset(retained), dropped_rows=tuple(dropped_rows)
    )


def _checked(document: Document, queue: str, record: Any) -> dict[str, Any]:
    checked = checked_record(document, queue, record)
    for key in _TEXTS:
        text(checked.get(key), key)
    if checked.get("nickname") not in (None, ""):
        named(checked["nickname"], "nickname", 256)
    for key, (lowest, highest) in RANGES.items():
        within(checked.get(key), key, lowest, highest)
    return checked


def _checked_tags(document: Document, queue: str, record: Any) -> dict[str, Any]:
    checked = checked_record(document, queue, record)
    for key in _TAG_LISTS:
        if not isinstance(checked.get(key, []), list):
            raise BadValueError("wrong_type", key, type(checked[key]).__name__)
    return checked


def checked_record(document: Document, name: str, record: Any) -> dict[str, Any]:
    """Check that a record is an object, can be stored, and has a unique name.

    Raises:
        BadValueError: one of these does not hold.
    """
    if name in document.repeated:
        raise BadValueError("duplicate_name", "name", name)
    if not isinstance(record, dict):
        raise BadValueError("wrong_type", "record", type(record).__name__)
    fault = document.fault_of(record)
    if fault:
        raise BadValueError(fault, "record", name)
    return record


ACTIVE = "ACTIVE"
NUCLEUS_POLICY = "Nucleus"
LONGEST_NAME = 52
_MOST_TIERS = 32_767


def usable_sites(document: Document) -> tuple[dict[str, dict[str, Any]], tuple[DroppedRow, ...]]:
    """Return the usable site records, in any state, and the dropped rows.

    Raises:
        DocumentRefused: the document is not an object, or is empty.
    """
    usable: dict[str, dict[str, Any]] = {}
    dropped_rows: list[DroppedRow] = []
    for site, record in document.records().items():
        try:
            usable[named(site, "site", LONGEST_NAME)] = _checked_site(document, site, record)
        except BadValueError as bad:
            dropped_rows.append(dropped_row(document.name, site, bad))
    return usable, tuple(dropped_rows)


def site_table(document: Document) -> MappedTable:
    """Build ``site`` from the ACTIVE sites; their data policies tell which are nuclei.

    Raises:
        DocumentRefused: the document is not an object, or is empty.
    """
    usable, dropped_rows = usable_sites(document)
    rows: dict[Key, tuple[Any, ...]] = {
        (site,): (_role(record), whole_number(record.get("tier_level"), "tier_level", 0, _MOST_TIERS))
        for site, record in usable.items()
        if record.get("state") == ACTIVE
    }
    retained = frozenset((site_name,) for site_name in bad_sites(document, usable))
    return MappedTable("site", ("site_name",), ("role", "tier_level"), rows, retained, dropped_rows=dropped_rows)


def panda_site_table(document: Document) -> MappedTable:
    """Build ``panda_site`` from the ACTIVE PanDA sites, with their sites; one listed at two sites is dropped.

    Raises:
        DocumentRefused: the document is not an object, or is empty.
    """
    usable, unusable = usable_sites(document)
    rows: dict[Key, tuple[Any, ...]] = {}
    dropped_rows: list[DroppedRow] = list(unusable)
    retained: set[Key] = set()
    for site, record in usable.items():
        for name, entry in _panda_sites(record):
            if not isinstance(entry, dict) or entry.get("state") != ACTIVE:
                continue
            try:
                panda_site = (named(name, "panda_site", LONGEST_NAME),)
                if rows.get(panda_site, (site,)) != (site,):
                    raise BadValueError("duplicate_name", "panda_site", name)
                rows[panda_site] = (site,)
            except BadValueError as bad:
                dropped_rows.append(dropped_row(document.name, name, bad))
                retained.add((name,))
    key, columns, stay = ("panda_site_name",), ("site_name",), ("site_name", bad_sites(document, usable))
    return MappedTable("panda_site", key, columns, rows, frozenset(retained), stay, tuple(dropped_rows))


def bad_sites(document: Document, usable: Collection[str]) -> frozenset[str]:
    """Return the sites with unusable records: their stored rows stay."""
    return frozenset(site for site in document.records() if site not in usable)


def _panda_sites(record: dict[str, Any]) -> list[tuple[str, Any]]:
    resources = record.get("presources") or {}
    return [pair for group in resources.values() if isinstance(group, dict) for pair in group.items()]


def _role(record: dict[str, Any]) -> str:
    return "nucleus" if NUCLEUS_POLICY in (record.get("datapolicies") or ()) else "satellite"


def _checked_site(document: Document, site: str, record: Any) -> dict[str, Any]:
    checked = checked_record(document, site, record)
    kinds = {"datapolicies": list, "ddmendpoints": dict, "presources": dict}
    for key, kind in kinds.items():
        if not isinstance(checked.get(key) or kind(), kind):
            raise BadValueError("wrong_type", key, type(checked[key]).__name__)
    whole_number(checked.get("tier_level"), "tier_level", 0, _MOST_TIERS)
    return checked


READ, WRITE = "read_lan", "write_lan"
DEFAULT_SCOPE = "default"
COLUMNS = ("is_local", "roles", "order_read", "order_write", "default_read", "default_write")


@dataclass
class _Relation:
    """How a queue uses an endpoint in one scope: the endpoint's place in the order of each activity."""

    orders: dict[str, int] = field(default_factory=dict)


def relation_table(queues: Document, site_of: Mapping[str, str]) -> MappedTable:
    """Build all of ``panda_ddm_relation``: in each scope, how a queue reads from and writes to the endpoints it lists.

    Args:
        queues: CRIC's queues.
        site_of: the site of each known endpoint; other endpoints are dropped, but keep their place in the order.

    Raises:
        DocumentRefused: the queues are not an object, or are empty.
    """
    usable, unusable, _ = usable_queues(queues)
    rows: dict[Key, tuple[Any, ...]] = {}
    dropped_rows: list[DroppedRow] = []
    retained: set[Key] = {(_panda_resource(queues, dropped.identifier),) for dropped in unusable}
    for queue, record in usable.items():
        try:
            site = named(record.get("panda_resource") or queue, "panda_resource", LONGEST_NAME)
            relations = _relations(record.get("astorages"))
        except BadValueError as bad:
            dropped_rows.append(dropped_row(queues.name, queue, bad))
            retained.add((_panda_resource(queues, queue),))
            continue
        for (scope, endpoint), relation in relations.items():
            if endpoint in site_of:
                local = site_of[endpoint] == record.get("atlas_site")
                rows.setdefault((site, endpoint, scope), _values(relation, local))
    unknown = {endpoint for queue in usable.values() for endpoint in _listed(queue.get("astorages"))} - set(site_of)
    dropped_rows += [
        DroppedRow(queues.name, name[:80], "unknown_endpoint", "not active in CRIC") for name in sorted(unknown)
    ]
    key = ("panda_site_name", "ddm_endpoint_name", "scope")
    return MappedTable("panda_ddm_relation", key, COLUMNS, rows, frozenset(retained), dropped_rows=tuple(dropped_rows))


def _panda_resource(queues: Document, queue: str) -> str:
    """The name under which the relations of a queue with an unusable record are stored."""
    record = queues.records().get(queue)
    resource = record.get("panda_resource") if isinstance(record, dict) else None
    return resource if isinstance(resource, str) and resource else queue


def _values(relation: _Relation, local: bool) -> tuple[Any, ...]:
    read, write = relation.orders.get(READ), relation.orders.get(WRITE)
    roles = ",".join(role for role in (READ, WRITE) if role in relation.orders)
    return ("Y" if local else "N", roles, read, write, "Y" if read == 1 else "N", "Y" if write == 1 else "N")


def _relations(astorages: Any) -> dict[tuple[str, str], _Relation]:
    relations: dict[tuple[str, str], _Relation] = {}
    if astorages is None:
        return relations
    if not isinstance(astorages, dict):
        raise BadValueError("wrong_type", "astorages", type(astorages).__name__)
    for role, endpoints in astorages.items():
        activity, scope = split_role(role)
        if activity is None:
            continue
        if not isinstance(endpoints, list) or not all(isinstance(one, str) for one in endpoints):
            raise BadValueError("wrong_type", f"astorages.{role}", type(endpoints).__name__)
        for order, endpoint in enumerate(endpoints, 1):
            relations.setdefault((named(scope, "scope", LONGEST_NAME), endpoint), _Relation()).orders.setdefault(
                activity, order
            )
    return relations


def split_role(role: str) -> tuple[str | None, str]:
    """Return the activity that a role of ``astorages`` allows, and its scope; None for roles other than LAN."""
    for activity in (READ, WRITE):
        if role == activity:
            return activity, DEFAULT_SCOPE
        if role.startswith(f"{activity}_"):
            return activity, role.removeprefix(f"{activity}_")
    return None, ""


def _listed(astorages: Any) -> Iterator[str]:
    for role, endpoints in astorages.items() if isinstance(astorages, dict) else ():
        if split_role(role)[0] is not None and isinstance(endpoints, list):
            yield from (one for one in endpoints if isinstance(one, str))
