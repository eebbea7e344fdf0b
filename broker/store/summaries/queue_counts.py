"""What each queue or nucleus got, and what it was rejected for, in buckets of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.domain.queue_counts import QueueCount, QueueCounts
from broker.store.summaries.buckets import bucket_of

# An hour that is over and lies within the span is one row, where that is kept; else its buckets of 5 minutes.
_READ_QUEUE_COUNTS = sa.text("""
    WITH hours AS (
        SELECT bucket_at, brokerage, counts FROM broker.queue_hours
        WHERE bucket_at >= :since AND bucket_at + interval '1 hour' <= CAST(:until AS timestamptz)
          AND (CAST(:brokerages AS text[]) IS NULL OR brokerage = ANY(:brokerages)))
    SELECT bucket_at, 3600 AS bucket_s, brokerage, counts FROM hours
    UNION ALL
    SELECT bucket_at, bucket_s, brokerage, counts FROM broker.queue_counts AS c
    WHERE bucket_at >= :since AND bucket_at < :until
      AND (CAST(:brokerages AS text[]) IS NULL OR brokerage = ANY(:brokerages))
      AND NOT EXISTS (SELECT FROM hours AS h WHERE h.brokerage = c.brokerage
          AND h.bucket_at = date_bin('1 hour', c.bucket_at, '1970-01-01T00:00:00Z'))
    ORDER BY brokerage, bucket_at""")


@dataclass(frozen=True)
class QueueBucket:
    """The counts of one brokerage in one bucket.

    Attributes:
        bucket_at: its start.
        bucket_s: its length.
        brokerage: that decided.
        counts: by queue and reason code.
    """

    bucket_at: datetime
    bucket_s: int
    brokerage: str
    counts: QueueCounts


def queue_buckets(
    connection: sa.Connection, since: datetime, until: datetime, brokerages: Sequence[str] | None = None
) -> Iterator[QueueBucket]:
    """The buckets from the one that holds ``since`` up to ``until``, by brokerage and time."""
    names = None if brokerages is None else list(brokerages)
    values = {"since": bucket_of(since), "until": until, "brokerages": names}
    for row in connection.execute(_READ_QUEUE_COUNTS, values):
        yield QueueBucket(row.bucket_at, row.bucket_s, row.brokerage, QueueCounts.unpack(bytes(row.counts)))


def queue_totals(
    connection: sa.Connection,
    since: datetime,
    until: datetime,
    brokerages: Sequence[str] | None = None,
    queue: str | None = None,
) -> dict[str, list[QueueCount]]:
    """The sums over these buckets by brokerage, of all queues or of one, most decisions first."""
    totals: dict[str, QueueCounts] = {}
    for bucket in queue_buckets(connection, since, until, brokerages):
        known = totals.get(bucket.brokerage)
        totals[bucket.brokerage] = bucket.counts if known is None else known.plus(bucket.counts)
    return {
        brokerage: sorted(counts.rows(queue), key=lambda one: (-one.decisions, one.queue, one.code))
        for brokerage, counts in totals.items()
    }
