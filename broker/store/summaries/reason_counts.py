"""Counts in buckets of time: decisions by main reason, waiting work by reason, and results by queue.

The buckets are 5 minutes long for 2 days, then an hour long for 90 days. The counts by queue or nucleus are what it
got, and what it was rejected for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from broker.domain.rejection_counts import QueueCount, QueueCounts
from broker.store.connection.plain_rows import mappings, tuples

FINE_S, COARSE_S = 300, 3600
FINE_RETENTION, COARSE_RETENTION = timedelta(days=2), timedelta(days=90)


def bucket_of(moment: datetime, width_s: int = FINE_S) -> datetime:
    """The start of the bucket that contains an aware instant; buckets begin at whole multiples in UTC."""
    seconds = int(moment.timestamp()) // width_s * width_s
    return datetime.fromtimestamp(seconds, UTC)


_BETWEEN = """
    bucket_at >= :since AND bucket_at < :until
    AND (CAST(:brokerages AS text[]) IS NULL OR brokerage = ANY(:brokerages))"""
_READ_REASON_COUNTS = sa.text(f"""
    SELECT bucket_at, bucket_s, brokerage, outcome, reason, main_reason, decisions, chunks, jobs
    FROM broker.reason_counts
    WHERE {_BETWEEN} ORDER BY bucket_at, brokerage, outcome, reason, main_reason""")  # noqa: S608 - a constant
# buckets are summed up first, so that instants are binned for a few hundred sums, not for each reason of each bucket
_READ_OUTCOMES = sa.text(f"""
    WITH by_bucket AS MATERIALIZED (
        SELECT bucket_at, outcome, sum(chunks) AS chunks FROM broker.reason_counts WHERE {_BETWEEN} GROUP BY 1, 2)
    SELECT date_bin(make_interval(secs => :step_s), bucket_at, '1970-01-01T00:00:00Z'), outcome, sum(chunks)
    FROM by_bucket GROUP BY 1, 2 ORDER BY 1, 2""")  # noqa: S608 - as above
_COUNT_DECISIONS = sa.text(f"""
    SELECT brokerage, sum(decisions)::bigint FROM broker.reason_counts WHERE {_BETWEEN} GROUP BY 1 ORDER BY 1""")  # noqa: S608 - as above
_READ_WAITING_COUNTS = sa.text(f"""
    SELECT bucket_at, bucket_s, brokerage, outcome, reason, main_reason, chunks, tasks FROM broker.waiting_counts
    WHERE {_BETWEEN} ORDER BY bucket_at, brokerage, outcome, reason, main_reason""")  # noqa: S608 - as above
_WAITED_AT = sa.text("""
    SELECT w.bucket_at, w.bucket_s, w.brokerage, w.outcome, w.reason, w.main_reason, w.chunks, w.tasks
    FROM (
        SELECT brokerage, max(bucket_at) AS bucket_at FROM broker.waiting_counts
        WHERE bucket_at <= :moment AND bucket_at >= CAST(:moment AS timestamptz) - interval '1 hour'
        GROUP BY brokerage
    ) AS last JOIN broker.waiting_counts AS w USING (brokerage, bucket_at)
    WHERE CAST(:brokerages AS text[]) IS NULL OR w.brokerage = ANY(:brokerages)
    ORDER BY w.chunks DESC, w.brokerage, w.outcome, w.reason, w.main_reason""")


@dataclass(frozen=True)
class ReasonBucket:
    """A bucket of time and a reason of decisions or of waiting.

    Attributes:
        bucket_at: its start.
        bucket_s: its length.
        brokerage: the brokerage that decided.
        outcome: outcome of the decisions.
        reason: reason of the outcome; empty if it is brokered.
        main_reason: the code that rejected most queues if rules left none, else ``reason``.
    """

    bucket_at: datetime
    bucket_s: int
    brokerage: str
    outcome: str
    reason: str
    main_reason: str


@dataclass(frozen=True)
class ReasonCount(ReasonBucket):
    """Decisions of a bucket with the same outcome and main reason.

    Attributes:
        decisions: number of decisions.
        chunks: approximate number of distinct chunks or tasks.
        jobs: number of assigned jobs, or of tasks that got their nucleus.
    """

    decisions: int
    chunks: int
    jobs: int


@dataclass(frozen=True)
class WaitingCount(ReasonBucket):
    """The work that waited for one reason at the first cycle of a bucket: ``chunks`` chunks of ``tasks`` tasks."""

    chunks: int
    tasks: int


def reason_counts(
    connection: sa.Connection, since: datetime, until: datetime, brokerages: Sequence[str] | None = None
) -> list[ReasonCount]:
    """The counts by reason in the buckets from the one that contains ``since`` up to ``until``."""
    rows = connection.execute(_READ_REASON_COUNTS, _values(since, until, brokerages))
    return [ReasonCount(**row._mapping) for row in rows]


def outcome_counts(
    connection: sa.Connection, since: datetime, until: datetime, step_s: float
) -> list[tuple[datetime, str, int]]:
    """Chunks by step and outcome, in the buckets from the one that contains ``since`` up to ``until``.

    Args:
        connection: a connection to a database with the schema ``broker``.
        since: start (aware).
        until: end (aware).
        step_s: length of the steps, which begin at whole multiples in UTC.

    Returns:
        Tuples of the start of the step, the outcome, and the number of chunks.
    """
    rows = tuples(connection, _READ_OUTCOMES, {**_values(since, until, None), "step_s": step_s})
    return [(start, outcome, int(chunks)) for start, outcome, chunks in rows]


def decision_counts(connection: sa.Connection, since: datetime, until: datetime) -> dict[str, int]:
    """The number of decisions by brokerage in the buckets from the one that contains ``since`` up to ``until``."""
    rows = connection.execute(_COUNT_DECISIONS, _values(since, until, None))
    return {brokerage: decisions for brokerage, decisions in rows}


def waiting_counts(
    connection: sa.Connection, since: datetime, until: datetime, brokerages: Sequence[str] | None = None
) -> list[WaitingCount]:
    """The work that waited, in the buckets from the one that contains ``since`` up to ``until``."""
    rows = connection.execute(_READ_WAITING_COUNTS, _values(since, until, brokerages))
    return [WaitingCount(**row._mapping) for row in rows]


def waited_at(
    connection: sa.Connection, moment: datetime, brokerages: Sequence[str] | None = None
) -> list[WaitingCount]:
    """The work that waited at ``moment``: each brokerage's last bucket of the hour before, if it ran a cycle in it."""
    names = None if brokerages is None else list(brokerages)
    return [WaitingCount(**row) for row in mappings(connection, _WAITED_AT, {"moment": moment, "brokerages": names})]


def _values(since: datetime, until: datetime, brokerages: Sequence[str] | None) -> dict[str, object]:
    names = None if brokerages is None else list(brokerages)
    return {"since": bucket_of(since), "until": until, "brokerages": names}


# One row for each completed hour within the span if its sum is stored, else its buckets of 5 minutes.
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
        brokerage: the brokerage that decided.
        counts: counts by queue and reason code.
    """

    bucket_at: datetime
    bucket_s: int
    brokerage: str
    counts: QueueCounts


def queue_buckets(
    connection: sa.Connection, since: datetime, until: datetime, brokerages: Sequence[str] | None = None
) -> Iterator[QueueBucket]:
    """The buckets from the one that contains ``since`` up to ``until``, ordered by brokerage and time."""
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
    """The sums over the buckets of :func:`queue_buckets` by brokerage, of all queues or one, most decisions first."""
    totals: dict[str, QueueCounts] = {}
    for bucket in queue_buckets(connection, since, until, brokerages):
        known = totals.get(bucket.brokerage)
        totals[bucket.brokerage] = bucket.counts if known is None else known.plus(bucket.counts)
    return {
        brokerage: sorted(counts.rows(queue), key=lambda count: (-count.decisions, count.queue, count.code))
        for brokerage, counts in totals.items()
    }
