"""Rolling buckets of 5 minutes up into hours when they are 2 days old, and removing hours when they are 90 days old."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.domain.queue_counts import QueueCounts
from broker.store.summaries.buckets import COARSE_KEPT, COARSE_S, FINE_KEPT, FINE_S, bucket_of
from broker.store.summaries.count_writing import known_counts

_HOUR = "date_bin('1 hour', bucket_at, '1970-01-01T00:00:00Z')"
_ROLL_UP_REASONS = sa.text(f"""
    WITH old AS (DELETE FROM broker.reason_counts WHERE bucket_s = :fine AND bucket_at < :before RETURNING *)
    INSERT INTO broker.reason_counts
        (bucket_s, bucket_at, brokerage, outcome, reason, main_reason, decisions, chunks, jobs)
    SELECT :coarse, {_HOUR}, brokerage, outcome, reason, main_reason, sum(decisions), sum(chunks), sum(jobs) FROM old
    GROUP BY {_HOUR}, brokerage, outcome, reason, main_reason
    ON CONFLICT (bucket_s, bucket_at, brokerage, outcome, reason, main_reason) DO UPDATE SET
        decisions = reason_counts.decisions + excluded.decisions, chunks = reason_counts.chunks + excluded.chunks,
        jobs = reason_counts.jobs + excluded.jobs""")  # noqa: S608 - a constant
# What waited at the first bucket of an hour stands for the hour.
_ROLL_UP_WAITING = sa.text(f"""
    WITH old AS (DELETE FROM broker.waiting_counts WHERE bucket_s = :fine AND bucket_at < :before RETURNING *),
    first AS (SELECT brokerage, {_HOUR} AS hour, min(bucket_at) AS bucket_at FROM old GROUP BY 1, 2)
    INSERT INTO broker.waiting_counts (bucket_s, bucket_at, brokerage, outcome, reason, main_reason, chunks, tasks)
    SELECT :coarse, first.hour, brokerage, outcome, reason, main_reason, chunks, tasks
    FROM old JOIN first USING (brokerage, bucket_at)
    ON CONFLICT DO NOTHING""")  # noqa: S608 - a constant
_OLD_QUEUES = sa.text("""
    DELETE FROM broker.queue_counts WHERE bucket_s = :fine AND bucket_at < :before
    RETURNING bucket_at, brokerage, counts""")
_KNOWN_QUEUES = sa.text("""
    SELECT counts FROM broker.queue_counts
    WHERE bucket_s = :coarse AND bucket_at = :hour AND brokerage = :brokerage FOR UPDATE""")
_SAVE_QUEUES = sa.text("""
    INSERT INTO broker.queue_counts (bucket_s, bucket_at, brokerage, counts)
    VALUES (:coarse, :hour, :brokerage, :counts)
    ON CONFLICT (bucket_s, bucket_at, brokerage) DO UPDATE SET counts = excluded.counts""")
_TABLES = ("reason_counts", "queue_counts", "waiting_counts")


def roll_up(connection: sa.Connection, now: datetime) -> int:
    """Roll up and remove what is due at ``now``, in one transaction; how many buckets of queues were rolled up."""
    before = bucket_of(now - FINE_KEPT, COARSE_S)
    values: dict[str, Any] = {"fine": FINE_S, "coarse": COARSE_S, "before": before}
    connection.execute(_ROLL_UP_REASONS, values)
    connection.execute(_ROLL_UP_WAITING, values)
    rolled = _roll_up_queues(connection, values)
    for table in _TABLES:
        statement = f"DELETE FROM broker.{table} WHERE bucket_s = :coarse AND bucket_at < :before"  # noqa: S608 - a constant
        connection.execute(sa.text(statement), {"coarse": COARSE_S, "before": now - COARSE_KEPT - timedelta(hours=1)})
    return rolled


def _roll_up_queues(connection: sa.Connection, values: dict[str, Any]) -> int:
    hours: dict[tuple[datetime, str], QueueCounts] = {}
    connection.execute(sa.text("DELETE FROM broker.queue_hours WHERE bucket_at < :before"), values)
    rows = connection.execute(_OLD_QUEUES, values).all()
    for row in rows:
        key = bucket_of(row.bucket_at, COARSE_S), row.brokerage
        counts = known_counts(bytes(row.counts))
        hours[key] = hours[key].plus(counts) if key in hours else counts
    for (hour, brokerage), counts in sorted(hours.items(), key=lambda item: item[0]):
        about = {"coarse": COARSE_S, "hour": hour, "brokerage": brokerage}
        known = connection.execute(_KNOWN_QUEUES, about).scalar_one_or_none()
        total = counts if known is None else known_counts(bytes(known)).plus(counts)
        connection.execute(_SAVE_QUEUES, {**about, "counts": total.pack()})
    return len(rows)
