"""Places and SubmitPools, from the rows of ``resource_queues`` and ``submit_pool_links``."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import texts
from broker.domain.pool_table import PoolTable
from broker.domain.work import DroppedRow
from broker.snapshot.raw import RawSource

PLACES, MEMBERS = "resource_queues", "submit_pool_links"
PLACE_COLUMNS = ("number", "site", "ce", "queue", "panda_queue")
MEMBER_COLUMNS = ("pool_id", "queues")


def build_pools(source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]) -> PoolTable:
    """The places by number; one that belongs to no known PanDA queue is left out.

    A place that names no PanDA queue belongs to the one called like its queue, if there is one.
    """
    places = []
    for row in source.rows(PLACES).records():
        index = unified.get(row["panda_queue"] or row["queue"])
        if index is not None:
            places.append((row["number"], row["site"], index))
        elif row["panda_queue"] is not None:
            name = f"{row['site']}/{row['ce']}/{row['queue']}"
            dropped_rows.append(DroppedRow("pools", name[:80], "unknown_queue", f"no queue {row['panda_queue'][:80]}"))
    pools = list(source.rows(MEMBERS).records())
    return PoolTable(
        np.array([place[0] for place in places], dtype=np.int64),
        texts(place[1] for place in places),
        np.array([place[2] for place in places], dtype=np.int64),
        texts(pool["pool_id"] for pool in pools),
        texts(pool["queues"] for pool in pools),
    )
