"""CRIC's queues, software tags, sites and relations to storage as rows of PanDA's tables.

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
    """``schedconfig_json`` without ``last_update``: the whole object of each queue in any state.

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


ACTIVE = "ACTIVE"
NUCLEUS_POLICY = "Nucleus"
LONGEST_NAME = 52
_MOST_TIERS = 32_767


def usable_sites(document: Document) -> tuple[dict[str, dict[str, Any]], tuple[DroppedRow, ...]]:
    """The site records that can be used, in any state, and what was left out.

    Raises:
        DocumentRefused: it is no object, or empty.
    """
    found: dict[str, dict[str, Any]] = {}
    bad_ones: list[DroppedRow] = []
    for site, record in document.records().items():
        try:
            found[named(site, "site", LONGEST_NAME)] = _checked_site(document, site, record)
        except BadValueError as bad:
            bad_ones.append(dropped_row(document.name, site, bad))
    return found, tuple(bad_ones)


def site_table(document: Document) -> MappedTable:
    """``site``: those in state ACTIVE, nucleus if their data policies say so.

    Raises:
        DocumentRefused: it is no object, or empty.
    """
    found, bad_ones = usable_sites(document)
    rows: dict[Key, tuple[Any, ...]] = {
        (site,): (_role(record), whole_number(record.get("tier_level"), "tier_level", 0, _MOST_TIERS))
        for site, record in found.items()
        if record.get("state") == ACTIVE
    }
    kept = frozenset((one,) for one in bad_sites(document, found))
    return MappedTable("site", ("site_name",), ("role", "tier_level"), rows, kept, dropped_rows=bad_ones)


def panda_site_table(document: Document) -> MappedTable:
    """``panda_site``: the PanDA sites in state ACTIVE with their sites; one at two sites is dropped.

    Raises:
        DocumentRefused: it is no object, or empty.
    """
    found, unusable = usable_sites(document)
    rows: dict[Key, tuple[Any, ...]] = {}
    extra: list[DroppedRow] = list(unusable)
    kept: set[Key] = set()
    for site, record in found.items():
        for name, entry in _panda_sites(record):
            if not isinstance(entry, dict) or entry.get("state") != ACTIVE:
                continue
            try:
                panda_site = (named(name, "panda_site", LONGEST_NAME),)
                if rows.get(panda_site, (site,)) != (site,):
                    raise BadValueError("duplicate_name", "panda_site", name)
                rows[panda_site] = (site,)
            except BadValueError as bad:
                extra.append(dropped_row(document.name, name, bad))
                kept.add((name,))
    key, columns, stay = ("panda_site_name",), ("site_name",), ("site_name", bad_sites(document, found))
    return MappedTable("panda_site", key, columns, rows, frozenset(kept), stay, tuple(extra))


def bad_sites(document: Document, found: Collection[str]) -> frozenset[str]:
    """The sites whose records cannot be used: what is on record of them stays."""
    return frozenset(site for site in document.records() if site not in found)


def _panda_sites(record: dict[str, Any]) -> list[tuple[str, Any]]:
    resources = record.get("presources") or {}
    return [pair for group in resources.values() if isinstance(group, dict) for pair in group.items()]


def _role(record: dict[str, Any]) -> str:
    return "nucleus" if NUCLEUS_POLICY in (record.get("datapolicies") or ()) else "satellite"


def _checked_site(document: Document, site: str, record: Any) -> dict[str, Any]:
    found = checked_record(document, site, record)
    kinds = {"datapolicies": list, "ddmendpoints": dict, "presources": dict}
    for key, kind in kinds.items():
        if not isinstance(found.get(key) or kind(), kind):
            raise BadValueError("wrong_type", key, type(found[key]).__name__)
    whole_number(found.get("tier_level"), "tier_level", 0, _MOST_TIERS)
    return found


READ, WRITE = "read_lan", "write_lan"
DEFAULT_SCOPE = "default"
COLUMNS = ("is_local", "roles", "order_read", "order_write", "default_read", "default_write")


@dataclass
class _Relation:
    """What a queue does with an endpoint in one scope."""

    orders: dict[str, int] = field(default_factory=dict)


def relation_table(queues: Document, site_of: Mapping[str, str]) -> MappedTable:
    """``panda_ddm_relation``, whole: in each scope how a queue reads from and writes to the endpoints it lists.

    Args:
        queues: CRIC's queues.
        site_of: the site of each endpoint that is known; others are dropped, but keep their place in the order.

    Raises:
        DocumentRefused: the queues are no object, or empty.
    """
    found, bad_ones, _ = usable_queues(queues)
    rows: dict[Key, tuple[Any, ...]] = {}
    extra: list[DroppedRow] = []
    kept: set[Key] = {(_panda_resource(queues, one.identifier),) for one in bad_ones}
    for queue, record in found.items():
        try:
            site = named(record.get("panda_resource") or queue, "panda_resource", LONGEST_NAME)
            relations = _relations(record.get("astorages"))
        except BadValueError as bad:
            extra.append(dropped_row(queues.name, queue, bad))
            kept.add((_panda_resource(queues, queue),))
            continue
        for (scope, endpoint), relation in relations.items():
            if endpoint in site_of:
                local = site_of[endpoint] == record.get("atlas_site")
                rows.setdefault((site, endpoint, scope), _values(relation, local))
    unknown = {endpoint for queue in found.values() for endpoint in _listed(queue.get("astorages"))} - set(site_of)
    extra += [DroppedRow(queues.name, one[:80], "unknown_endpoint", "not active in CRIC") for one in sorted(unknown)]
    key = ("panda_site_name", "ddm_endpoint_name", "scope")
    return MappedTable("panda_ddm_relation", key, COLUMNS, rows, frozenset(kept), dropped_rows=tuple(extra))


def _panda_resource(queues: Document, queue: str) -> str:
    """Under which name the relations of a queue stand whose record cannot be used."""
    record = queues.records().get(queue)
    named_so = record.get("panda_resource") if isinstance(record, dict) else None
    return named_so if isinstance(named_so, str) and named_so else queue


def _values(relation: _Relation, local: bool) -> tuple[Any, ...]:
    read, write = relation.orders.get(READ), relation.orders.get(WRITE)
    roles = ",".join(role for role in (READ, WRITE) if role in relation.orders)
    return ("Y" if local else "N", roles, read, write, "Y" if read == 1 else "N", "Y" if write == 1 else "N")


def _relations(astorages: Any) -> dict[tuple[str, str], _Relation]:
    found: dict[tuple[str, str], _Relation] = {}
    if astorages is None:
        return found
    if not isinstance(astorages, dict):
        raise BadValueError("wrong_type", "astorages", type(astorages).__name__)
    for role, endpoints in astorages.items():
        activity, scope = split_role(role)
        if activity is None:
            continue
        if not isinstance(endpoints, list) or not all(isinstance(one, str) for one in endpoints):
            raise BadValueError("wrong_type", f"astorages.{role}", type(endpoints).__name__)
        for order, endpoint in enumerate(endpoints, 1):
            found.setdefault((named(scope, "scope", LONGEST_NAME), endpoint), _Relation()).orders.setdefault(
                activity, order
            )
    return found


def split_role(role: str) -> tuple[str | None, str]:
    """What a role of ``astorages`` allows and in which scope; None for roles that are not of the LAN."""
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
