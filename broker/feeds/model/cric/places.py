"""The locations of CRIC's sites: their own latitude and longitude, else those of their resource centre.

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
"""Places are reported separately: a document is not refused for data that only the map shows."""


def place_table(sites: Document, centres: Document | None) -> MappedTable:
    """Build ``site_places`` from the ACTIVE sites with a known place; a site with an invalid place keeps its row.

    Args:
        sites: CRIC's sites.
        centres: its resource centres; None without that document.

    Raises:
        DocumentRefused: a document is not an object, or is empty.
    """
    usable, _ = usable_sites(sites)
    of_centres = {} if centres is None else centres.records()
    rows: dict[Key, tuple[Any, ...]] = {}
    dropped_rows: list[DroppedRow] = []
    retained: set[Key] = {(site,) for site in bad_sites(sites, usable)}
    for site, record in usable.items():
        if record.get("state") != ACTIVE:
            continue
        centre = of_centres.get(str(record.get("rc_site") or site))
        try:
            place = _place(record) or (_place(centre) if isinstance(centre, dict) else None)
        except BadValueError as bad:
            dropped_rows.append(dropped_row(REPORTED_AS, site, bad))
            retained.add((site,))
            continue
        if place is not None:
            rows[(site,)] = place
    columns = ("latitude", "longitude")
    return MappedTable(
        "site_places", ("site_name",), columns, rows, frozenset(retained), dropped_rows=tuple(dropped_rows)
    )


def _place(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """Degrees north and east; None if either is missing, or at 0, 0: the default of records that were not filled in.

    Raises:
        BadValueError: a value is not a number of degrees.
    """
    north, east = (within(record.get(name), name, -most, most) for name, most in RANGES.items())
    return None if math.isnan(north) or math.isnan(east) or north == east == 0 else (north, east)
