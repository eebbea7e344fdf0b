"""How many jobs of a type may run at a site: limits in force, leases of their tokens, and recounts.

Matchers never exceed a limit. The number of free tokens changes only by differences: a lease subtracts its tokens, what
is left of it is added back, and a recount adds the difference to the true number. A job that was taken with a token is
counted as running before its lease ends, so that each job is in one of the two at every instant, and sometimes in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa

from broker.domain.arrays import Floats
from broker.pilots.statements.limit_tokens import LEASE_LASTS, MOST_LEASED, RECLAIMED_AFTER, LimitTokens, Pair
from broker.store.connection.tables import Names

LimitsOf = Callable[[Sequence[str], Sequence[str]], Floats]
"""Given types and sites of equal length, how many jobs may run; infinity where there is no limit."""

RUNNING = ("sent", "starting", "running")
"""Statuses of jobs that have a pilot."""
COUNTED_AGAIN_AFTER = timedelta(seconds=5)
"""If nothing is free and the last count is older than this, a process recounts the pair by itself."""

_READ_PAIRS = """
SELECT site, job_type, bool_or(known) AS known FROM (
    SELECT coalesce(place.site, queue.panda_queue) AS site, queue.job_type, false AS known
    FROM broker.task_queues AS queue LEFT JOIN broker.queue_sites AS place USING (panda_queue)
    WHERE queue.panda_queue IS NOT NULL AND queue.job_type IS NOT NULL
    UNION ALL SELECT site, job_type, true FROM broker.running_limits) AS found
GROUP BY 1, 2 ORDER BY 1, 2"""
# A statement that takes a job without a token has seen that there is no limit. The lock waits for statements that began
# before, so that the jobs they take are counted, and makes later ones wait.
_NOBODY_TAKES = "LOCK TABLE broker.running_limits IN ACCESS EXCLUSIVE MODE"
_READ_LIMITS = """
SELECT site, job_type, most, running, greatest(free, 0) FROM broker.running_limits WHERE site = %(site)s
ORDER BY free > 0, job_type"""
_SET_LIMITS = """
INSERT INTO broker.running_limits AS known (site, job_type, most, free)
SELECT site, job_type, most, 0
FROM unnest(CAST(:sites AS text[]), CAST(:types AS text[]), CAST(:most AS bigint[])) AS given (site, job_type, most)
ON CONFLICT (site, job_type) DO UPDATE SET most = excluded.most, free = known.free + excluded.most - known.most
WHERE known.most <> excluded.most"""
_LIFT_LIMITS = """
DELETE FROM broker.running_limits AS known
USING unnest(CAST(:sites AS text[]), CAST(:types AS text[])) AS gone (site, job_type)
WHERE known.site = gone.site AND known.job_type = gone.job_type"""

# Tokens that were reserved from the old lease may still be spent until this statement has locked the row.
_LEASE = """
WITH back AS (
    DELETE FROM broker.limit_leases WHERE id = %(lease)s RETURNING id
), room AS MATERIALIZED (
    SELECT site, job_type, free + given_back AS free, given_back, counted_at
    FROM broker.running_limits, (SELECT %(unspent)s * count(*) AS given_back FROM back) AS found
    WHERE site = %(site)s AND job_type = %(job_type)s FOR UPDATE OF running_limits
), granted AS MATERIALIZED (
    SELECT *, CASE WHEN counted_at IS NULL THEN 0
              ELSE greatest(0, least(free, %(most)s, greatest(1, free / 4))) END AS tokens FROM room
), written AS (
    UPDATE broker.running_limits AS known SET free = known.free + granted.given_back - granted.tokens
    FROM granted WHERE known.site = granted.site AND known.job_type = granted.job_type
), lease AS (
    INSERT INTO broker.limit_leases (site, job_type, tokens, expires_at)
    SELECT site, job_type, tokens, %(expires_at)s FROM granted WHERE tokens > 0
    RETURNING id
)
SELECT (SELECT id FROM lease), tokens, counted_at FROM granted"""
_GIVE_BACK = """
WITH back AS (
    DELETE FROM broker.limit_leases WHERE id = %(lease)s RETURNING site, job_type
)
UPDATE broker.running_limits AS known SET free = known.free + %(unspent)s
FROM back WHERE known.site = back.site AND known.job_type = back.job_type"""

# One count at a time: two that saw the same would both add the difference.
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended('broker.running_limits', 0))"
_ONE_IF_FREE = "SELECT pg_try_advisory_xact_lock(hashtextextended('broker.running_limits', 0))"
# Waits for transactions that are taking a job with a token of one of these leases.
_RECLAIM = """
DELETE FROM broker.limit_leases WHERE expires_at < %(reclaimed_before)s
  AND (%(site)s::text IS NULL OR site = %(site)s AND job_type = %(job_type)s)"""
_COUNT = """
WITH seen AS MATERIALIZED (
    SELECT site, job_type, most, free FROM broker.running_limits
    WHERE (%(site)s::text IS NULL OR site = %(site)s AND job_type = %(job_type)s)
      AND (%(sites)s::text[] IS NULL OR site = ANY(%(sites)s))
), places AS MATERIALIZED (
    SELECT panda_queue, site FROM broker.queue_sites WHERE site IN (SELECT site FROM seen)
    UNION SELECT site, site FROM seen
    WHERE NOT EXISTS (SELECT FROM broker.queue_sites AS known WHERE known.panda_queue = seen.site)
), running AS MATERIALIZED (
    SELECT places.site, {type} AS job_type, count(*) AS jobs
    FROM places JOIN {{panda}}.jobsactive4 AS job ON job.computingsite = places.panda_queue
    WHERE job.jobstatus = ANY(%(running)s) GROUP BY 1, 2
), leased AS MATERIALIZED (
    SELECT site, job_type, sum(tokens)::bigint AS tokens FROM broker.limit_leases GROUP BY 1, 2
)
UPDATE broker.running_limits AS known
SET free = known.free + seen.most - coalesce(running.jobs, 0) - coalesce(leased.tokens, 0) - seen.free,
    running = coalesce(running.jobs, 0), counted_at = %(now)s
FROM seen LEFT JOIN running USING (site, job_type) LEFT JOIN leased USING (site, job_type)
WHERE known.site = seen.site AND known.job_type = seen.job_type
RETURNING known.site, known.job_type, known.most, known.running,
    seen.most - coalesce(running.jobs, 0) - coalesce(leased.tokens, 0) - seen.free AS changed,
    coalesce(leased.tokens, 0)"""

JOB_TYPE = "left(coalesce(nullif(job.processingtype, ''), job.prodsourcelabel, ''), 64)"
"""SQL: the type of a job, from its row ``job``."""


@dataclass(frozen=True)
class Limit:
    """A running limit, as it was last counted.

    Attributes:
        site: site of the jobs.
        job_type: type of the jobs.
        most: maximum number of running jobs.
        running: jobs that ran.
    """

    site: str
    job_type: str
    most: int
    running: int


@dataclass(frozen=True)
class RecountedLimit(Limit):
    """A limit, with the result of its recount.

    Attributes:
        changed: how many more tokens are free than assumed: jobs that ended. Below 0: jobs of live leases already run
            and are counted twice; or the counter was wrong.
        leased: tokens of live leases.
    """

    changed: int
    leased: int = 0

    @property
    def was_wrong(self) -> bool:
        """Whether the counter let too many jobs begin: a job takes its token first, so that cannot be."""
        return self.changed + self.leased < 0


@dataclass(frozen=True)
class LimitState(Limit):
    """A limit and its free tokens.

    Attributes:
        free: number of tokens that are not leased.
    """

    free: int


def set_limits(connection: sa.Connection, limits_of: LimitsOf) -> int:
    """Put the limits of the tuning in force, in the caller's transaction; return how many there are.

    A new limit gives out no tokens until running jobs have been counted. If there is one, matchers wait from here to
    the commit, so call this last, but before writing what matchers write too.
    """
    rows = connection.execute(sa.text(_READ_PAIRS)).all()
    pairs = [(str(row.site), str(row.job_type)) for row in rows]
    most = limits_of([kind for _, kind in pairs], [site for site, _ in pairs]).tolist()
    limited = [(pair, int(limit)) for pair, limit in zip(pairs, most, strict=True) if np.isfinite(limit)]
    lifted = [pair for pair, limit in zip(pairs, most, strict=True) if not np.isfinite(limit)]
    known = {(row.site, row.job_type) for row in rows if row.known}
    if any(pair not in known for pair, _ in limited):
        connection.execute(sa.text(_NOBODY_TAKES))
    if limited:
        values = {**_columns([pair for pair, _ in limited]), "most": [limit for _, limit in limited]}
        connection.execute(sa.text(_SET_LIMITS), values)
    if known & set(lifted):
        connection.execute(sa.text(_LIFT_LIMITS), _columns(lifted))
    return len(limited)


def limits_at(cursor: psycopg.Cursor[Any], site: str) -> list[LimitState]:
    """The limits at a site, those without room first; ``cursor``: with tuple rows."""
    return [LimitState(*row) for row in cursor.execute(_READ_LIMITS, {"site": site})]


def count_running(
    connection: psycopg.Connection[Any], names: Names, now: datetime, sites: Sequence[str] | None = None
) -> list[RecountedLimit]:
    """Count the running jobs under each limit, in the caller's transaction (READ COMMITTED), and reclaim dead leases.

    Args:
        connection: connection in a transaction.
        names: names of the schemas.
        now: time of the count (aware).
        sites: only limits there; None: all.
    """
    connection.execute(_ONE_AT_A_TIME)
    return _count(connection, names, now, None, None if sites is None else list(sites))


def _count(
    connection: psycopg.Connection[Any], names: Names, now: datetime, pair: Pair | None, sites: list[str] | None
) -> list[RecountedLimit]:
    values = {
        "site": None if pair is None else pair[0],
        "job_type": None if pair is None else pair[1],
        "sites": sites,
        "running": list(RUNNING),
        "now": now,
        "reclaimed_before": now - (RECLAIMED_AFTER - LEASE_LASTS),
    }
    connection.execute(_RECLAIM, values)
    rows = connection.execute(names.sql(_COUNT.format(type=JOB_TYPE)), values).fetchall()
    return [RecountedLimit(*row) for row in rows]


def refill(
    connection: psycopg.Connection[Any], names: Names, tokens: LimitTokens, pairs: Sequence[Pair], now: datetime
) -> None:
    """Lease tokens of these pairs, and give back what is left of older leases; recount a pair if none is free."""
    with tokens.fetch_lock:
        for pair in tokens.wanting(pairs, now):
            lease, granted, counted_at = _lease(connection, tokens, pair, now)
            if not granted and (counted_at is None or counted_at <= now - COUNTED_AGAIN_AFTER):
                with connection.transaction():
                    if _value(connection, _ONE_IF_FREE):
                        _count(connection, names, now, pair, None)
                lease, granted, _ = _lease(connection, tokens, pair, now)
            tokens.hold(pair, lease, granted, now)


def give_back(connection: psycopg.Connection[Any], tokens: LimitTokens) -> None:
    """Give back all held tokens, as the process ends."""
    for pair in tokens.pairs():
        lease, unspent = tokens.hand_over(pair)
        connection.execute(_GIVE_BACK, {"lease": lease, "unspent": unspent})


def _lease(
    connection: psycopg.Connection[Any], tokens: LimitTokens, pair: Pair, now: datetime
) -> tuple[int | None, int, datetime | None]:
    """A new lease, its number of tokens, and the time of the last count; no lease where there is no limit."""
    lease, unspent = tokens.hand_over(pair)
    values = {
        "lease": lease, "unspent": unspent, "site": pair[0], "job_type": pair[1], "most": MOST_LEASED,
        "expires_at": now + LEASE_LASTS,
    }  # fmt: skip
    row = connection.execute(_LEASE, values, prepare=True).fetchone()
    return (None, 0, now) if row is None else (row[0], row[1], row[2])


def _value(connection: psycopg.Connection[Any], statement: str) -> Any:
    row = connection.execute(statement).fetchone()
    return None if row is None else row[0]


def _columns(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    return {"sites": [site for site, _ in pairs], "types": [kind for _, kind in pairs]}
