"""The source ``pools``: places, and the queues of SubmitPools."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import texts
from broker.domain.grid import PoolTable
from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import RawSource
from broker.snapshot.source import SourceLimit, StatementRead, TableRead
from broker.snapshot.sources.queues import QUEUES

PLACES, MEMBERS = "resource_queues", "submit_pool_links"
PLACE_COLUMNS = ("number", "site", "ce", "queue", "panda_queue")
MEMBER_COLUMNS = ("pool_id", "queues")
_QUEUES_OF_POOLS = """
    SELECT pool.pool_id, link.queues
    FROM broker.submit_pools AS pool
    LEFT JOIN (SELECT pool, array_send(array_agg(queue)) AS queues FROM broker.submit_pool_links GROUP BY pool) AS link
        ON link.pool = pool.number
    ORDER BY pool.pool_id"""
_LAST_REFRESH = """
    SELECT coalesce((SELECT refreshed_at FROM broker.submit_pool_refreshes),
                    (SELECT min(coalesce(refreshed_at, created_at)) FROM broker.submit_pools))
    WHERE EXISTS (SELECT FROM broker.submit_pools)"""


class Pools(GridSource[PoolTable]):
    """Queues of SubmitPools; as old as the last refresh."""

    name = "pools"
    reads = (
        TableRead(f"broker.{PLACES}", PLACE_COLUMNS, stored_as=PLACES),
        StatementRead(MEMBERS, MEMBER_COLUMNS, _QUEUES_OF_POOLS, newest=_LAST_REFRESH, number_lists=("queues",)),
    )
    limit = SourceLimit(max_age_s=2700.0)

    def build(self, raw: RawSource, draft: Draft) -> PoolTable:
        """Build the places of known queues, and the pools with the numbers of their places."""
        return build_pools(raw, draft.of(QUEUES).rows, draft.dropped_rows)


POOLS = Pools()


def build_pools(source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]) -> PoolTable:
    """The places by number; one that belongs to no known PanDA queue is dropped.

    A place that names no PanDA queue belongs to the PanDA queue with the name of its queue, if there is one.
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
