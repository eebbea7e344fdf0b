"""The source ``links``: the network matrix, as links between storage sites and nuclei.

Source: PanDA data model, network matrix; ATLAS brokerage, network weight.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats, texts
from broker.domain.grid import LinkMatrix
from broker.domain.work import DroppedRow
from broker.snapshot.build_nuclei import nuclei_of
from broker.snapshot.draft import Draft
from broker.snapshot.raw import RawSource
from broker.snapshot.readings import BadValueError, instants_s, name, number, seconds
from broker.snapshot.source import GridSource, SourceLimit, TableRead

#: A row of the network matrix counts for this long.
LINK_VALIDITY_S = 3600.0

KEYS = {
    "AGIS_closeness": "closeness",
    "Production Output_queued": "queued",
    "Express_queued": "queued_urgent",
    "dashb_mbps_1h": "mbps_1h",
    "dashb_mbps_1d": "mbps_1d",
    "dashb_mbps_1w": "mbps_1w",
}
_KEYS_READ = ", ".join(f"'{key}'" for key in KEYS)


class Links(GridSource[LinkMatrix]):
    """Network matrix; each row counts for 60 min."""

    name = "links"
    reads = (
        TableRead(
            "network_matrix_kv", ("src", "dst", "key", "value", "ts"), stamp="ts", where=f"key IN ({_KEYS_READ})"
        ),
    )
    limit = SourceLimit(max_age_s=3600.0)

    def build(self, raw: RawSource, draft: Draft) -> LinkMatrix:
        """Fresh values by source site and nucleus."""
        nuclei = list(nuclei_of(draft).name)
        ends_s = instants_s(raw.rows("network_matrix_kv").column("ts"), LINK_VALIDITY_S)
        return build_links(raw, draft.now_against(ends_s), nuclei, draft.dropped_rows)


LINKS = Links()


def build_links(source: RawSource, now_s: float, nuclei: list[str], dropped_rows: list[DroppedRow]) -> LinkMatrix:
    """Fresh values by source site (rows) and nucleus (columns), NaN where there are none.

    Rows older than 60 minutes are dropped, as are links to sites that are no nucleus. Files queued are summed over all
    sources for each nucleus; without any row the sum is 0.
    """
    column = {key: index for index, key in enumerate(nuclei)}
    fresh = []
    for row in source.rows("network_matrix_kv").records():
        field = KEYS.get(row["key"])
        if field is None or row["dst"] not in column:
            continue
        try:
            src = name(row["src"], "src")
            value = number(row["value"], row["key"])
            stamp = seconds(row["ts"], "ts")
            if field != "closeness" and value < 0:
                raise BadValueError("negative", row["key"], value)
            if np.isnan(stamp):
                raise BadValueError("missing", "ts", None)
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("links", f"{row['src']} {row['dst']}"[:80], bad.code, str(bad)))
            continue
        if not np.isnan(value) and stamp > now_s - LINK_VALIDITY_S:
            fresh.append((src, column[row["dst"]], field, value))
    # nuclei are sources too, so that a storage at one is always found
    sites = sorted({link[0] for link in fresh} | set(nuclei))
    position = {site: index for index, site in enumerate(sites)}
    matrix: dict[str, Floats] = {field: np.full((len(sites), len(nuclei)), np.nan) for field in KEYS.values()}
    for src, dst, field, value in fresh:
        matrix[field][position[src], dst] = value
    return LinkMatrix(
        sites=texts(sites),
        **matrix,
        total_queued=np.nansum(matrix["queued"], axis=0),
        total_queued_urgent=np.nansum(matrix["queued_urgent"], axis=0),
    )
