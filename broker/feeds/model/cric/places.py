"""Where CRIC's sites are: their own latitude and longitude, else those of their resource centre.

Source: CRIC, core API (``rcsite``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from broker.domain.work import DroppedRow
from broker.feeds.model.cric.queues import ACTIVE, bad_sites, usable_sites
from broker.feeds.model.rows import Key, MappedTable, dropped_row, within
from broker.fetching.documents import Document
from broker.snapshot.raw import BadValueError

RANGES: Mapping[str, float] = {"latitude": 90.0, "longitude": 180.0}
REPORTED_AS = "places of sites"
"""Places are reported apart: a document is not refused for what only the map shows."""


def place_table(sites: Document, centres: Document | None) -> MappedTable:
    """``site_places``: the sites in state ACTIVE whose place is known; one with a bad place keeps the row it has.

    Args:
        sites: CRIC's sites.
        centres: its resource centres; None where that document is not there.

    Raises:
        DocumentRefused: a document is no object, or empty.
    """
    found, _ = usable_sites(sites)
    of_centres = {} if centres is None else centres.records()
    rows: dict[Key, tuple[Any, ...]] = {}
    bad_ones: list[DroppedRow] = []
    kept: set[Key] = {(site,) for site in bad_sites(sites, found)}
    for site, record in found.items():
        if record.get("state") != ACTIVE:
            continue
        centre = of_centres.get(str(record.get("rc_site") or site))
        try:
            place = _place(record) or (_place(centre) if isinstance(centre, dict) else None)
        except BadValueError as bad:
            bad_ones.append(dropped_row(REPORTED_AS, site, bad))
            kept.add((site,))
            continue
        if place is not None:
            rows[(site,)] = place
    columns = ("latitude", "longitude")
    return MappedTable("site_places", ("site_name",), columns, rows, frozenset(kept), dropped_rows=tuple(bad_ones))


def _place(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """Degrees north and east; None if either is missing, or at 0, 0: the default of records that were not filled in.

    Raises:
        BadValueError: one is no number of degrees.
    """
    north, east = (within(record.get(name), name, -most, most) for name, most in RANGES.items())
    return None if math.isnan(north) or math.isnan(east) or north == east == 0 else (north, east)
