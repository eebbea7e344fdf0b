"""The storages of CRIC's queues to rows of ``panda_ddm_relation``.

Source: PanDA configurator; PanDA data model, panda_ddm_relation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.domain.work import DroppedRow
from broker.feeds.model.cric.queues import LONGEST_NAME, usable_queues
from broker.feeds.model.rows import Key, MappedTable, dropped_row, named
from broker.fetching.documents import Document
from broker.snapshot.raw import BadValueError

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
