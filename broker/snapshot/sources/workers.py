"""The source ``workers``: batch workers counted by Harvester."""

from __future__ import annotations

import math

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, instants_s, known, not_negative, seconds
from broker.snapshot.source import TableRead
from broker.snapshot.sources.queues import QUEUES

#: Validity of a Harvester worker count.
WORKER_VALIDITY_S = 3600.0


class Workers(GridSource[Floats]):
    """Batch workers; rows older than 60 min are dropped."""

    name = "workers"
    reads = (
        TableRead(
            "harvester_worker_stats",
            ("harvester_id", "computingsite", "resourcetype", "status", "jobtype", "n_workers", "lastupdate"),
            where="status IN ('running', 'submitted')",
        ),
    )

    def build(self, raw: RawSource, draft: Draft) -> Floats:
        """Build the running and submitted workers (U,)."""
        ends_s = instants_s(raw.rows("harvester_worker_stats").column("lastupdate"), WORKER_VALIDITY_S)
        return build_workers(raw, draft.of(QUEUES).rows, draft.now_against(ends_s), draft.dropped_rows)


WORKERS = Workers()


def build_workers(source: RawSource, unified: dict[str, int], now_s: float, dropped_rows: list[DroppedRow]) -> Floats:
    """Running and submitted batch workers by unified queue, from rows of the last 60 minutes."""
    workers = np.zeros(len(unified))
    for row in source.rows("harvester_worker_stats").records():
        queue = unified.get(row["computingsite"])
        if queue is None or row["status"] not in ("running", "submitted"):
            continue
        try:
            stamp = known(seconds(row["lastupdate"], "lastupdate"), "lastupdate")
            count = not_negative(row["n_workers"], "n_workers")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("workers", str(row["computingsite"])[:80], bad.code, str(bad)))
            continue
        if stamp > now_s - WORKER_VALIDITY_S and not math.isnan(count):
            workers[queue] += count
    return workers
