"""Adding the decisions of a batch to the counts of their bucket, in the transaction of the cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

import psycopg

from broker.codec.decision_counts import counts_of
from broker.domain.decision_records import DecisionRecord
from broker.domain.queue_counts import CountsCorruptError, QueueCounts
from broker.store.decisions.plain_json import clean_text
from broker.store.summaries.buckets import COARSE_S, FINE_S, bucket_of
from broker.store.summaries.chunk_states import GONE_AFTER

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
# Several brokers may begin a bucket at once, each with a part of the work: one of them makes the row, the others wait.
_BEGIN_QUEUES = """
    INSERT INTO broker.queue_counts (bucket_s, bucket_at, brokerage, counts) VALUES (%s, %s, %s, %s)
    ON CONFLICT (bucket_s, bucket_at, brokerage) DO NOTHING"""
_SAVE_QUEUES = """
    UPDATE broker.queue_counts SET counts = %s WHERE bucket_s = %s AND bucket_at = %s AND brokerage = %s"""
# What is counted in an hour that was added up already is not in that sum.
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
    """Count the decisions of a batch by reason and by queue, and what waits where the bucket is new.

    Args:
        connection: in the transaction that stores the decisions, after the states of their chunks were written.
        brokerage: that decided.
        now: the instant for which it decided.
        records: the decisions.
        distinct: for each whether its chunk was not decided so in this bucket before.
        main_reasons: of each.
    """
    bucket = bucket_of(now)
    _add_reasons(connection, brokerage, bucket, _keys(records, main_reasons), records, distinct)
    new_bucket = _add_queues(connection, brokerage, bucket, counts_of(records, distinct))
    values = {"s": FINE_S, "at": bucket, "brokerage": brokerage, "now": now, "gone_after": GONE_AFTER}
    # the states of a broker that has just begun are not whole until its first cycle is
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
    """Add to the counts of the bucket; whether it is new."""
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
    """Keep the sum of the hour before that of a new bucket, if there is none yet."""
    hour = bucket_of(bucket, COARSE_S)
    before = hour - timedelta(seconds=COARSE_S)
    if connection.execute(_IS_ADDED_UP, [before, brokerage]).fetchone() is not None:
        return
    rows = connection.execute(_LAST_HOUR, [FINE_S, before, hour, brokerage]).fetchall()
    if rows:
        total = reduce(QueueCounts.plus, (known_counts(bytes(one[0])) for one in rows))
        connection.execute(_SAVE_HOUR, [before, brokerage, total.pack()])


def known_counts(data: bytes) -> QueueCounts:
    """Stored counts; none where they are damaged: a cycle must not fail because of a summary."""
    try:
        return QueueCounts.unpack(data)
    except CountsCorruptError:
        return QueueCounts.none()


def _scalar(connection: psycopg.Connection[Any], statement: str, values: dict[str, Any]) -> object:
    row = connection.execute(statement, values).fetchone()
    return None if row is None else row[0]
