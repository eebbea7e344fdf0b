"""A source of snapshots: announced downtimes of queues, from a table of the collaboration."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, SourceLimit, TableRead

TABLE = "public.site_downtimes"


class SiteDowntimes(Source):
    """For each queue the next announced downtime as (start, end), in seconds since 1970 UTC."""

    name = "site_downtimes"
    reads = (TableRead(TABLE, ("panda_queue", "starts_at", "ends_at", "written_at"), stamp="written_at"),)
    limit = SourceLimit(max_age_s=86_400.0)

    def build(self, raw: RawSource, snapshot: Snapshot) -> Mapping[str, tuple[float, float]]:
        """The first downtime of each queue that has not ended at the instant of the snapshot."""
        downtimes: dict[str, tuple[float, float]] = {}
        for row in raw.rows(TABLE).records():
            start, end = (row[name].replace(tzinfo=UTC).timestamp() for name in ("starts_at", "ends_at"))
            if end > snapshot.now_s and start < downtimes.get(row["panda_queue"], (float("inf"),))[0]:
                downtimes[row["panda_queue"]] = (start, end)
        return downtimes
