"""CRIC's sites to rows of ``site`` and ``panda_site``.

Source: PanDA configurator; PanDA data model, sites.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from broker.domain.work import DroppedRow
from broker.feeds.model.cric.queues import checked_record
from broker.feeds.model.rows import Key, MappedTable, dropped_row, named, whole_number
from broker.fetching.documents import Document
from broker.snapshot.readings import BadValueError

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
            found[named(site, "site", LONGEST_NAME)] = _checked(document, site, record)
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


def _checked(document: Document, site: str, record: Any) -> dict[str, Any]:
    found = checked_record(document, site, record)
    kinds = {"datapolicies": list, "ddmendpoints": dict, "presources": dict}
    for key, kind in kinds.items():
        if not isinstance(found.get(key) or kind(), kind):
            raise BadValueError("wrong_type", key, type(found[key]).__name__)
    whole_number(found.get("tier_level"), "tier_level", 0, _MOST_TIERS)
    return found
