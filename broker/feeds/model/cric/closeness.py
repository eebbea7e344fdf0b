"""Map CRIC's site matrix to rows of ``network_matrix_kv``.

Source: PanDA data model, network_matrix_kv: 0 is closest, 11 farthest, -1 a blocked link.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from broker.domain.work import DroppedRow
from broker.feeds.model.rows import Key, MappedTable, dropped_row, named, whole_number
from broker.fetching.documents import Document
from broker.snapshot.raw import BadValueError

CLOSENESS_KEY = "AGIS_closeness"
UNKNOWN_SITE = "UNKNOWN"
LONGEST_SITE = 256
_FARTHEST = 11
KEY, COLUMNS = ("src", "dst", "key"), ("value",)


def closeness_table(document: Document, sites: Collection[str]) -> MappedTable:
    """Build the rows of the key ``AGIS_closeness`` for links between known sites, without their listing time.

    Args:
        document: CRIC's site matrix.
        sites: names of the known sites.

    Raises:
        DocumentRefused: the document is not a list, or is empty.
    """
    rows: dict[Key, tuple[Any, ...]] = {}
    dropped_rows: list[DroppedRow] = []
    known = {UNKNOWN_SITE, *sites}
    for item in document.items():
        link = ""
        try:
            if not isinstance(item, dict):
                raise BadValueError("wrong_type", "link", type(item).__name__)
            source, target = (named(item.get(key), key, LONGEST_SITE) for key in ("src", "dst"))
            link = f"{source}:{target}"
            value = whole_number(item.get("closeness"), "closeness", -1, _FARTHEST)
            if value is None:
                raise BadValueError("missing", "closeness", None)
            if not {source, target} <= known:
                raise BadValueError("unknown_site", "link", link)
        except BadValueError as bad:
            dropped_rows.append(dropped_row(document.name, link, bad))
            continue
        rows[(source, target, CLOSENESS_KEY)] = (value,)
    return MappedTable("network_matrix_kv", KEY, COLUMNS, rows, dropped_rows=tuple(dropped_rows))
