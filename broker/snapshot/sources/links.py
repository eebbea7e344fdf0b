"""The source ``links``: the network matrix, as links between storage sites and nuclei.

Source: PanDA data model, network matrix; ATLAS brokerage, network weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, Ints, texts
from broker.domain.grid import LinkMatrix
from broker.domain.work import DroppedRow
from broker.snapshot.build_nuclei import nuclei_of
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, instants_s, name, number, seconds
from broker.snapshot.source import SourceLimit, TableRead

#: Validity of a row of the network matrix.
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
        """Build the fresh values by source site and nucleus."""
        nuclei = list(nuclei_of(draft).name)
        # only the names of nuclei matter: the free space of storages changes more often than the matrix
        readings = draft.once(_readings)
        return _matrix(readings, draft.now_against(readings.ends_s), nuclei, draft.dropped_rows)


LINKS = Links()


@dataclass(frozen=True)
class _Readings:
    """The N readable rows of the matrix with a known key, whether or not they name a nucleus.

    Attributes:
        sources: (S,) names of source sites.
        destinations: (D,) names of destination sites.
        src: (N,) number of the source.
        dst: (N,) number of the destination.
        field: (N,) number of the key.
        value: (N,) NaN for none.
        stamp_s: (N,) seconds since 1970 UTC.
        ends_s: the instants at which rows stop being fresh.
        bad: the unreadable rows, each with its destination.
    """

    sources: tuple[str, ...]
    destinations: tuple[Any, ...]
    src: Ints
    dst: Ints
    field: Ints
    value: Floats
    stamp_s: Floats
    ends_s: frozenset[float]
    bad: tuple[tuple[Any, DroppedRow], ...]


def _readings(draft: Draft) -> _Readings:
    """Read the rows of the source."""
    rows = draft.raw(LINKS.name).rows("network_matrix_kv")
    fields = {key: number for number, key in enumerate(KEYS)}
    sources: dict[str, int] = {}
    destinations: dict[Any, int] = {}
    readable: list[tuple[int, int, int, float, float]] = []
    bad: list[tuple[Any, DroppedRow]] = []
    for row in rows.records():
        key, destination = row["key"], row["dst"]
        if key not in fields:
            continue
        try:
            src, value, stamp_s = _row(row)
        except BadValueError as error:
            link = f"{row['src']} {destination}"[:80]
            bad.append((destination, DroppedRow("links", link, error.code, str(error))))
            continue
        numbers = sources.setdefault(src, len(sources)), destinations.setdefault(destination, len(destinations))
        readable.append((*numbers, fields[key], value, stamp_s))
    of_source, of_destination, fields_read, values, stamps_s = np.array(readable, dtype=np.float64).reshape(-1, 5).T
    return _Readings(
        sources=tuple(sources),
        destinations=tuple(destinations),
        src=of_source.astype(np.int64),
        dst=of_destination.astype(np.int64),
        field=fields_read.astype(np.int64),
        value=values,
        stamp_s=stamps_s,
        ends_s=frozenset(instants_s(rows.column("ts"), LINK_VALIDITY_S)),
        bad=tuple(bad),
    )


def _row(row: Mapping[str, Any]) -> tuple[str, float, float]:
    """Source, value and time (s since 1970 UTC) of a row."""
    src = name(row["src"], "src")
    value = number(row["value"], row["key"])
    stamp_s = seconds(row["ts"], "ts")
    if KEYS[row["key"]] != "closeness" and value < 0:
        raise BadValueError("negative", row["key"], value)
    if np.isnan(stamp_s):
        raise BadValueError("missing", "ts", None)
    return src, value, stamp_s


def _matrix(readings: _Readings, now_s: float, nuclei: list[str], dropped_rows: list[DroppedRow]) -> LinkMatrix:
    """Fresh values by source site (rows) and nucleus (columns), NaN without one.

    Rows older than 60 minutes are dropped, as are links to sites that are not nuclei. Queued files are summed over all
    sources for each nucleus; without any row the sum is 0.
    """
    column = {key: index for index, key in enumerate(nuclei)}
    dropped_rows += [dropped for destination, dropped in readings.bad if destination in column]
    column_of = np.array([column.get(one, -1) for one in readings.destinations], dtype=np.int64)
    to = column_of[readings.dst]
    fresh = np.flatnonzero((to >= 0) & ~np.isnan(readings.value) & (readings.stamp_s > now_s - LINK_VALIDITY_S))
    # nuclei are sources, too, so that a storage at one is always found
    sites = sorted({readings.sources[at] for at in np.unique(readings.src[fresh]).tolist()} | set(nuclei))
    position = {site: index for index, site in enumerate(sites)}
    row_of = np.array([position.get(one, -1) for one in readings.sources], dtype=np.int64)
    values = np.full((len(KEYS), len(sites), len(nuclei)), np.nan)
    # of several rows the last one counts
    values[readings.field[fresh], row_of[readings.src[fresh]], to[fresh]] = readings.value[fresh]
    matrix: dict[str, Floats] = {field: one.copy() for field, one in zip(KEYS.values(), values, strict=True)}
    return LinkMatrix(
        sites=texts(sites),
        **matrix,
        total_queued=np.nansum(matrix["queued"], axis=0),
        total_queued_urgent=np.nansum(matrix["queued_urgent"], axis=0),
    )
