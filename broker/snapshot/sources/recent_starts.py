"""The source ``recent_starts``: jobs that started in the last hours."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from broker.snapshot.raw import RawSource, seconds
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, TableRead

RECENT_STARTS = "recent_starts"


class RecentStarts(Source):
    """Jobs by queue that started between 6 hours and 5 minutes ago and are not archived."""

    name = RECENT_STARTS
    reads = tuple(
        TableRead(
            table,
            ("computingsite", "starttime", "jobstatus"),
            where="starttime IS NOT NULL"
            " AND jobstatus IN ('running', 'holding', 'transferring', 'finished', 'cancelled')",
            counted=True,
        )
        for table in ("jobsactive4", "jobsdefined4")
    )

    def build(self, raw: RawSource, snapshot: Snapshot) -> Mapping[str, float]:
        """By queue, the mean number of jobs that started in an hour, over the last six hours."""
        first, last = (_ten_minutes(snapshot.now_s - ago) for ago in (21600.0, 300.0))
        rates: dict[str, float] = {}
        for read in self.reads:
            for row in raw.rows(read.name).records():
                at = row["starttime"]
                if isinstance(at, datetime) and first <= seconds(at, "starttime") < last:
                    queue = row["computingsite"] or ""
                    rates[queue] = rates.get(queue, 0.0) + float(row["counted"]) / ((last - first) / 3600.0)
        return rates


def _ten_minutes(time_s: float) -> float:
    return time_s // 600.0 * 600.0
