"""The source ``queue_capacity``: the most cores that ran at each queue within weeks, and how its jobs ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from broker.domain.queue_capacity import QueueSums
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, SourceLimit, StatementRead
from broker.snapshot.sources.queue_health import MAX_AGE_S

QUEUE_CAPACITY = "queue_capacity"
#: Period over which the record is summed.
WINDOW = timedelta(days=21)
_COLUMNS = ("queue", "most_cores", "hours", "finished", "failed", "ratio_jobs", "ratio_ln_sum")

LearnedCapacity = Mapping[str, QueueSums]
"""Sums by unified queue."""


class QueueCapacitySource(Source):
    """Sums over the record of queues, as stored by the agent ``outcomes``."""

    name = QUEUE_CAPACITY
    reads = (
        StatementRead(
            name=QUEUE_CAPACITY,
            columns_stored=_COLUMNS,
            statement="""
                SELECT queue, c.most_cores, c.hours, coalesce(r.finished, 0)::bigint AS finished,
                    coalesce(r.failed, 0)::bigint AS failed, coalesce(r.ratio_jobs, 0)::bigint AS ratio_jobs,
                    coalesce(r.ratio_ln_sum, 0) AS ratio_ln_sum
                FROM (SELECT queue, max(most_cores_running) AS most_cores, count(*) AS hours FROM broker.queue_cores
                      WHERE kind = 'all' AND hour >= CAST(:since AS timestamp) AT TIME ZONE 'UTC' GROUP BY queue) AS c
                LEFT JOIN (SELECT queue, sum(finished) AS finished, sum(failed) AS failed,
                               sum(ratio_jobs) AS ratio_jobs, sum(ratio_ln_sum) AS ratio_ln_sum
                           FROM broker.queue_record
                           WHERE kind <> 'test' AND hour >= CAST(:since AS timestamp) AT TIME ZONE 'UTC'
                           GROUP BY queue) AS r USING (queue)
                ORDER BY queue""",
            window=WINDOW,
        ),
    )
    limit = SourceLimit(max_age_s=MAX_AGE_S)
    aged_by = "outcomes"

    def build(self, raw: RawSource, snapshot: Snapshot) -> LearnedCapacity:
        """Build the sums of each queue."""
        return {
            str(row["queue"]): QueueSums(
                most_cores=float(row["most_cores"]),
                hours=int(row["hours"]),
                finished=int(row["finished"]),
                failed=int(row["failed"]),
                ratio_jobs=int(row["ratio_jobs"]),
                ratio_ln_sum=float(row["ratio_ln_sum"]),
            )
            for row in raw.rows(QUEUE_CAPACITY).records()
        }
