"""How work flows: jobs that were placed and that ended, and chunks that waited, from sums that are kept by time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from broker.store.summaries.reason_counts import COARSE_S, FINE_S

_WIDTHS = [FINE_S, COARSE_S]
_READ_PLACED = sa.text("""
    SELECT bucket_at, sum(jobs)::bigint FROM broker.reason_counts
    WHERE bucket_at >= :since AND bucket_at < :until AND brokerage = ANY(:brokerages) GROUP BY 1 ORDER BY 1""")
_READ_ENDED = sa.text("""
    SELECT hour, sum(finished)::bigint, sum(failed)::bigint FROM broker.queue_record
    WHERE hour >= :since AND hour < :until GROUP BY 1 ORDER BY 1""")
_READ_STARTED = sa.text("""
    SELECT hour, started FROM broker.job_starts WHERE hour >= :since AND hour < :until ORDER BY 1""")
# what waited is counted in every bucket anew: of an hour the last one counts, to which the index leads at once
_READ_WAITING = sa.text("""
    SELECT last.at, coalesce(nullif(main_reason, ''), reason) AS code, sum(chunks)::bigint AS chunks FROM (
        SELECT at, name, max(one.bucket_at) AS bucket_at
        FROM generate_series(
            date_bin(make_interval(secs => :step_s), CAST(:since AS timestamptz), '1970-01-01T00:00:00Z'),
            CAST(:until AS timestamptz), make_interval(secs => :step_s)) AS at,
        unnest(CAST(:brokerages AS text[])) AS name, unnest(CAST(:widths AS int[])) AS width, LATERAL (
            SELECT bucket_at FROM broker.waiting_counts
            WHERE bucket_s = width AND brokerage = name AND bucket_at >= greatest(at, CAST(:since AS timestamptz))
              AND bucket_at < least(at + make_interval(secs => :step_s), CAST(:until AS timestamptz))
            ORDER BY bucket_at DESC LIMIT 1) AS one
        GROUP BY at, name) AS last
    JOIN broker.waiting_counts AS counted
      ON counted.bucket_s = ANY(:widths) AND counted.bucket_at = last.bucket_at AND counted.brokerage = last.name
    GROUP BY 1, 2 ORDER BY 1, 2""")
# the first of each width is one look into the index, the lowest of all a walk through it
_FIRST_BUCKET = sa.text("""
    SELECT min(first.bucket_at) FROM unnest(CAST(:widths AS int[])) AS width, LATERAL (
        SELECT bucket_at FROM broker.reason_counts WHERE bucket_s = width AND bucket_at >= :since
        ORDER BY bucket_at LIMIT 1) AS first""")


def first_bucket(connection: sa.Connection, since: datetime) -> datetime | None:
    """When decisions were first counted since an instant; None: never."""
    found: datetime | None = connection.scalar(_FIRST_BUCKET, {"since": since, "widths": _WIDTHS})
    return found


def placed(
    connection: sa.Connection, since: datetime, until: datetime, brokerages: Sequence[str]
) -> list[tuple[datetime, int]]:
    """Jobs that some brokerages placed, by the bucket of time in which they did."""
    given = {"since": since, "until": until, "brokerages": list(brokerages)}
    return [(row[0], row[1]) for row in connection.execute(_READ_PLACED, given).all()]


def ended(connection: sa.Connection, since: datetime, until: datetime) -> list[tuple[datetime, int, int]]:
    """Jobs that finished and that failed, by hour."""
    rows = connection.execute(_READ_ENDED, {"since": since, "until": until})
    return [(row[0], int(row[1]), int(row[2])) for row in rows]


def started(connection: sa.Connection, since: datetime, until: datetime) -> list[tuple[datetime, int]]:
    """Jobs that started, by hour."""
    return [(row[0], int(row[1])) for row in connection.execute(_READ_STARTED, {"since": since, "until": until})]


def waiting(
    connection: sa.Connection, since: datetime, until: datetime, step_s: int, brokerages: Sequence[str]
) -> list[tuple[datetime, str, int]]:
    """Chunks that waited at the end of each step for some brokerages, by reason."""
    values = {"since": since, "until": until, "step_s": step_s, "widths": _WIDTHS, "brokerages": list(brokerages)}
    return [(row[0], row[1], row[2]) for row in connection.execute(_READ_WAITING, values).all()]
