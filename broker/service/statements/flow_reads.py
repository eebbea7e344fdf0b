"""The flow of work: jobs placed and ended, and chunks that waited, from sums stored by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.store.connection.plain_rows import scalar, tuples
from broker.store.summaries.reason_counts import COARSE_S, FINE_S

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_WIDTHS = [FINE_S, COARSE_S]
_READ_PLACED = sa.text("""
    SELECT bucket_at, sum(jobs)::bigint FROM broker.reason_counts
    WHERE bucket_at >= :since AND bucket_at < :until AND brokerage = ANY(:brokerages) GROUP BY 1 ORDER BY 1""")
# The buckets are summed first, so that instants are truncated for a few hundred sums, not for every bucket's reasons.
_READ_DECIDED = sa.text("""
    WITH by_bucket AS MATERIALIZED (
        SELECT bucket_at, outcome, sum(chunks)::bigint AS chunks,
            sum(jobs) FILTER (WHERE brokerage = ANY(:of_jobs))::bigint AS jobs
        FROM broker.reason_counts WHERE bucket_at >= :before_since AND bucket_at < :until GROUP BY 1, 2)
    SELECT 'outcome' AS kind, date_bin(make_interval(secs => :outcome_step_s), bucket_at, '1970-01-01T00:00:00Z') AS at,
        outcome, sum(chunks)::bigint AS number
    FROM by_bucket WHERE bucket_at >= :outcomes_since AND bucket_at < :outcomes_until GROUP BY 2, 3
    UNION ALL
    SELECT 'step', date_bin(make_interval(secs => :step_s), bucket_at, '1970-01-01T00:00:00Z'), '', sum(jobs)::bigint
    FROM by_bucket WHERE jobs IS NOT NULL AND bucket_at >= :steps_since GROUP BY 2
    UNION ALL
    SELECT 'last', NULL, '', sum(jobs)::bigint FROM by_bucket WHERE bucket_at > :last_since
    UNION ALL
    SELECT 'before', NULL, '', sum(jobs)::bigint
    FROM by_bucket WHERE bucket_at < :before_until
    ORDER BY 1, 2, 3""")
_READ_ENDED = sa.text("""
    SELECT hour, sum(finished)::bigint, sum(failed)::bigint FROM broker.queue_record
    WHERE hour >= :since AND hour < :until GROUP BY 1 ORDER BY 1""")
_READ_STARTED = sa.text("""
    SELECT hour, started FROM broker.job_starts WHERE hour >= :since AND hour < :until ORDER BY 1""")
# Waiting work is counted anew in every bucket: the last bucket of a step counts, found directly by the index. An hour's
# bucket is read only if there is none of 5 minutes, from which it is made.
_READ_WAITING = sa.text("""
    SELECT span.which, at, coalesce(nullif(main_reason, ''), reason) AS code, sum(chunks)::bigint AS chunks
    FROM (VALUES
            (0, CAST(:since AS timestamptz), CAST(:until AS timestamptz), make_interval(secs => :step_s)),
            (1, CAST(:before_since AS timestamptz), CAST(:before_until AS timestamptz),
                make_interval(secs => :before_step_s))
        ) AS span (which, since, until, step),
        generate_series(date_bin(span.step, span.since, '1970-01-01T00:00:00Z'), span.until, span.step) AS at,
        unnest(CAST(:brokerages AS text[])) AS name, LATERAL (
            (SELECT bucket_s, bucket_at FROM broker.waiting_counts
             WHERE bucket_s = :fine_s AND brokerage = name AND bucket_at >= greatest(at, span.since)
               AND bucket_at < least(at + span.step, span.until)
             ORDER BY bucket_at DESC LIMIT 1)
            UNION ALL
            (SELECT bucket_s, bucket_at FROM broker.waiting_counts
             WHERE bucket_s = :coarse_s AND brokerage = name AND bucket_at >= greatest(at, span.since)
               AND bucket_at < least(at + span.step, span.until)
             ORDER BY bucket_at DESC LIMIT 1)
            LIMIT 1) AS last
    JOIN broker.waiting_counts AS counted USING (bucket_s, bucket_at)
    WHERE counted.brokerage = name
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""")
# the first bucket of each width is one index lookup; the lowest of all would be a scan
_FIRST_BUCKET = sa.text("""
    SELECT min(first.bucket_at) FROM unnest(CAST(:widths AS int[])) AS width, LATERAL (
        SELECT bucket_at FROM broker.reason_counts WHERE bucket_s = width AND bucket_at >= :since
        ORDER BY bucket_at LIMIT 1) AS first""")


@dataclass(frozen=True)
class DailyDecisions:
    """What was decided in a day, and jobs placed, from one read of the buckets.

    Attributes:
        outcomes: start of a step, outcome, and the approximate number of such chunks, in this order.
        placed: start of a step, and jobs placed; steps in which no brokerage counted are missing.
        placed_last_hour: jobs in the last hour; None if nothing is counted in it.
        placed_before: the same a day earlier.
    """

    outcomes: Sequence[tuple[datetime, str, int]]
    placed: Sequence[tuple[datetime, int]]
    placed_last_hour: int | None
    placed_before: int | None


@dataclass(frozen=True)
class Steps:
    """Steps of ``step_s`` seconds, at whole multiples in UTC, that cover a span with aware ends."""

    since: datetime
    until: datetime
    step_s: float


Waited = tuple[datetime, str, int]
"""Start of a step, a reason, and the chunks that waited for it at the end of the step."""


def decided(
    connection: sa.Connection, now: datetime, outcomes: Steps, placed: Steps, brokerages: Sequence[str]
) -> DailyDecisions:
    """Return what was decided in the day before ``now``, and what some brokerages placed.

    Args:
        connection: connection to read from.
        now: an aware instant.
        outcomes: steps for the outcomes of all brokerages, within the last 25 hours.
        placed: steps for the jobs placed, within the last 25 hours; the jobs of the last hour are counted up to its
            end.
        brokerages: those that place jobs.
    """
    values = {
        "outcomes_since": outcomes.since,
        "outcomes_until": outcomes.until,
        "outcome_step_s": outcomes.step_s,
        "steps_since": placed.since,
        "step_s": placed.step_s,
        "last_since": now - _HOUR,
        "before_since": now - _DAY - _HOUR,
        "before_until": now - _DAY,
        "until": placed.until,
        "of_jobs": list(brokerages),
    }
    rows = tuples(connection, _READ_DECIDED, values)
    sums = {kind: number for kind, _, _, number in rows}
    return DailyDecisions(
        [(at, outcome, number) for kind, at, outcome, number in rows if kind == "outcome"],
        [(at, number) for kind, at, _, number in rows if kind == "step"],
        sums["last"],
        sums["before"],
    )


def first_bucket(connection: sa.Connection, since: datetime) -> datetime | None:
    """Return when decisions were first counted since an instant; None if never."""
    bucket: datetime | None = scalar(connection, _FIRST_BUCKET, {"since": since, "widths": _WIDTHS})
    return bucket


def placed(
    connection: sa.Connection, since: datetime, until: datetime, brokerages: Sequence[str]
) -> list[tuple[datetime, int]]:
    """Return the jobs that some brokerages placed, by time bucket."""
    parameters = {"since": since, "until": until, "brokerages": list(brokerages)}
    return [(at, jobs) for at, jobs in tuples(connection, _READ_PLACED, parameters)]


def ended(connection: sa.Connection, since: datetime, until: datetime) -> list[tuple[datetime, int, int]]:
    """Return the jobs that finished and that failed, by hour."""
    rows = tuples(connection, _READ_ENDED, {"since": since, "until": until})
    return [(at, finished, failed) for at, finished, failed in rows]


def started(connection: sa.Connection, since: datetime, until: datetime) -> list[tuple[datetime, int]]:
    """Return the jobs that started, by hour."""
    rows = tuples(connection, _READ_STARTED, {"since": since, "until": until})
    return [(at, jobs) for at, jobs in rows]


def waiting(
    connection: sa.Connection, spans: tuple[Steps, Steps], brokerages: Sequence[str]
) -> tuple[list[Waited], list[Waited]]:
    """Return the chunks that waited at the end of each step of two spans for some brokerages, by reason."""
    now, before = spans
    values = {
        "since": now.since,
        "until": now.until,
        "step_s": now.step_s,
        "before_since": before.since,
        "before_until": before.until,
        "before_step_s": before.step_s,
        "fine_s": FINE_S,
        "coarse_s": COARSE_S,
        "brokerages": list(brokerages),
    }
    rows = tuples(connection, _READ_WAITING, values)
    return [row[1:] for row in rows if row[0] == 0], [row[1:] for row in rows if row[0] == 1]
