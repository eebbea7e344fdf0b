"""Writes of counts in buckets of time: a cycle adds its decisions in its own transaction; old buckets are rolled up.

Buckets of 5 minutes become hours when they are 2 days old; hours are removed when they are 90 days old.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

import psycopg
import sqlalchemy as sa

from broker.codec.decision_counts import counts_of
from broker.domain.decisions import DecisionRecord
from broker.domain.rejection_counts import CountsCorruptError, QueueCounts
from broker.store.decisions.legends import clean_text
from broker.store.summaries.chunk_states import GONE_AFTER
from broker.store.summaries.reason_counts import COARSE_RETENTION, COARSE_S, FINE_RETENTION, FINE_S, bucket_of

_Key = tuple[str, str, str]
"""Outcome, reason and main reason."""

_ADD_REASON_COUNTS = """
    INSERT INTO broker.reason_counts
        (bucket_s, bucket_at, brokerage, outcome, reason, main_reason, decisions, chunks, jobs)
    SELECT %s, %s, %s, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
    ON CONFLICT (bucket_s, bucket_at, brokerage, outcome, reason, main_reason) DO UPDATE SET
        decisions = reason_counts.decisions + excluded.decisions, chunks = reason_counts.chunks + excluded.chunks,
        jobs = reason_counts.jobs + excluded.jobs"""
_LOCK_QUEUE_COUNTS = """
    SELECT counts FROM broker.queue_counts WHERE bucket_s = %s AND bucket_at = %s AND brokerage = %s FOR UPDATE"""
# Several brokers may begin a bucket at once, each with a part of the work: one of them creates the row, others wait.
_BEGIN_QUEUES = """
    INSERT INTO broker.queue_counts (bucket_s, bucket_at, brokerage, counts) VALUES (%s, %s, %s, %s)
    ON CONFLICT (bucket_s, bucket_at, brokerage) DO NOTHING"""
_SAVE_QUEUES = """
    UPDATE broker.queue_counts SET counts = %s WHERE bucket_s = %s AND bucket_at = %s AND brokerage = %s"""
# Counts added to an hour that was already summed up are missing from that sum.
_FORGET_HOUR = "DELETE FROM broker.queue_hours WHERE bucket_at = %s AND brokerage = %s"
_LAST_HOUR = """
    SELECT counts FROM broker.queue_counts
    WHERE bucket_s = %s AND bucket_at >= %s AND bucket_at < %s AND brokerage = %s"""
_IS_ADDED_UP = "SELECT FROM broker.queue_hours WHERE bucket_at = %s AND brokerage = %s"
_SAVE_HOUR = """
    INSERT INTO broker.queue_hours (bucket_at, brokerage, counts) VALUES (%s, %s, %s)
    ON CONFLICT (bucket_at, brokerage) DO NOTHING"""
_FIRST_OF_ALL = """
    SELECT NOT EXISTS (
        SELECT FROM broker.queue_counts
        WHERE bucket_s = %(s)s AND bucket_at < %(at)s AND bucket_at >= %(at)s - interval '1 hour'
          AND brokerage = %(brokerage)s)"""
_ADD_WAITING_COUNTS = """
    INSERT INTO broker.waiting_counts (bucket_s, bucket_at, brokerage, outcome, reason, main_reason, chunks, tasks)
    SELECT %(s)s, %(at)s, brokerage, outcome, reason, main_reason, count(*), count(DISTINCT jeditaskid)
    FROM broker.chunk_states
    WHERE brokerage = %(brokerage)s AND waiting_since IS NOT NULL
      AND greatest(last_seen_at, pending_until) >= %(now)s - %(gone_after)s
    GROUP BY brokerage, outcome, reason, main_reason
    ON CONFLICT (bucket_s, bucket_at, brokerage, outcome, reason, main_reason) DO UPDATE SET
        chunks = excluded.chunks, tasks = excluded.tasks"""


def add(
    connection: psycopg.Connection[Any],
    brokerage: str,
    now: datetime,
    records: Sequence[DecisionRecord],
    distinct: Sequence[bool],
    main_reasons: Sequence[str],
) -> None:
    """Count the decisions of a batch by reason and by queue, and waiting work if the bucket is new.

    Args:
        connection: in the transaction that stores the decisions, after the states of their chunks were written.
        brokerage: the brokerage that decided.
        now: the instant for which it decided.
        records: the decisions.
        distinct: for each, whether it is the first of its kind for its chunk in this bucket.
        main_reasons: the main reason of each.
    """
    bucket = bucket_of(now)
    _add_reasons(connection, brokerage, bucket, _keys(records, main_reasons), records, distinct)
    new_bucket = _add_queues(connection, brokerage, bucket, counts_of(records, distinct))
    values = {"s": FINE_S, "at": bucket, "brokerage": brokerage, "now": now, "gone_after": GONE_AFTER}
    # the states of a broker that has just started are incomplete until its first cycle ends
    if new_bucket or _scalar(connection, _FIRST_OF_ALL, values):
        connection.execute(_ADD_WAITING_COUNTS, values)


def _keys(records: Sequence[DecisionRecord], main_reasons: Sequence[str]) -> list[_Key]:
    return [
        (record.decision.outcome, clean_text(record.decision.reason), clean_text(main))
        for record, main in zip(records, main_reasons, strict=True)
    ]


def _add_reasons(
    connection: psycopg.Connection[Any],
    brokerage: str,
    bucket: datetime,
    keys: Sequence[_Key],
    records: Sequence[DecisionRecord],
    distinct: Sequence[bool],
) -> None:
    decisions: Counter[_Key] = Counter()
    chunks: Counter[_Key] = Counter()
    jobs: Counter[_Key] = Counter()
    for key, record, first in zip(keys, records, distinct, strict=True):
        decisions[key] += 1
        chunks[key] += first
        jobs[key] += sum(record.assigned.values())
    rows = sorted(decisions)
    stats = [[count[key] for key in rows] for count in (decisions, chunks, jobs)]
    names = [[key[column] for key in rows] for column in range(3)]
    connection.execute(_ADD_REASON_COUNTS, [FINE_S, bucket, brokerage, *names, *stats])


def _add_queues(connection: psycopg.Connection[Any], brokerage: str, bucket: datetime, counts: QueueCounts) -> bool:
    """Add to the counts of the bucket, and return whether the bucket is new."""
    key = [FINE_S, bucket, brokerage]
    row = connection.execute(_LOCK_QUEUE_COUNTS, key).fetchone()
    new = row is None and connection.execute(_BEGIN_QUEUES, [*key, counts.pack()]).rowcount == 1
    if not new:
        row = row or connection.execute(_LOCK_QUEUE_COUNTS, key).fetchone()
        counts = counts if row is None else known_counts(bytes(row[0])).plus(counts)
        connection.execute(_SAVE_QUEUES, [counts.pack(), *key])
    connection.execute(_FORGET_HOUR, [bucket_of(bucket, COARSE_S), brokerage])
    if new:
        _add_up_the_hour_before(connection, brokerage, bucket)
    return new


def _add_up_the_hour_before(connection: psycopg.Connection[Any], brokerage: str, bucket: datetime) -> None:
    """Store the sum of the hour before that of a new bucket, unless it is stored already."""
    hour = bucket_of(bucket, COARSE_S)
    before = hour - timedelta(seconds=COARSE_S)
    if connection.execute(_IS_ADDED_UP, [before, brokerage]).fetchone() is not None:
        return
    rows = connection.execute(_LAST_HOUR, [FINE_S, before, hour, brokerage]).fetchall()
    if rows:
        total = reduce(QueueCounts.plus, (known_counts(bytes(row[0])) for row in rows))
        connection.execute(_SAVE_HOUR, [before, brokerage, total.pack()])


def known_counts(data: bytes) -> QueueCounts:
    """Unpack stored counts; damaged ones count as none, because a cycle must not fail because of a summary."""
    try:
        return QueueCounts.unpack(data)
    except CountsCorruptError:
        return QueueCounts.none()


def _scalar(connection: psycopg.Connection[Any], statement: str, values: dict[str, Any]) -> object:
    row = connection.execute(statement, values).fetchone()
    return None if row is None else row[0]


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
# The work that waited in the first bucket of an hour represents the hour.
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
_SAVE_QUEUE_HOUR = sa.text("""
    INSERT INTO broker.queue_counts (bucket_s, bucket_at, brokerage, counts)
    VALUES (:coarse, :hour, :brokerage, :counts)
    ON CONFLICT (bucket_s, bucket_at, brokerage) DO UPDATE SET counts = excluded.counts""")
_TABLES = ("reason_counts", "queue_counts", "waiting_counts")


def roll_up(connection: sa.Connection, now: datetime) -> int:
    """Roll up and remove buckets due at ``now``, in one transaction; return the number of queue buckets rolled up."""
    before = bucket_of(now - FINE_RETENTION, COARSE_S)
    values: dict[str, Any] = {"fine": FINE_S, "coarse": COARSE_S, "before": before}
    connection.execute(_ROLL_UP_REASONS, values)
    connection.execute(_ROLL_UP_WAITING, values)
    rolled = _roll_up_queues(connection, values)
    for table in _TABLES:
        statement = f"DELETE FROM broker.{table} WHERE bucket_s = :coarse AND bucket_at < :before"  # noqa: S608 - a constant
        connection.execute(
            sa.text(statement), {"coarse": COARSE_S, "before": now - COARSE_RETENTION - timedelta(hours=1)}
        )
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
        connection.execute(_SAVE_QUEUE_HOUR, {**about, "counts": total.pack()})
    return len(rows)
