"""How often it was decided so, by main reason, and what waited for which reason, in buckets of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.store.summaries.buckets import bucket_of

_BETWEEN = """
    bucket_at >= :since AND bucket_at < :until
    AND (CAST(:brokerages AS text[]) IS NULL OR brokerage = ANY(:brokerages))"""
_READ_REASON_COUNTS = sa.text(f"""
    SELECT bucket_at, bucket_s, brokerage, outcome, reason, main_reason, decisions, chunks, jobs
    FROM broker.reason_counts
    WHERE {_BETWEEN} ORDER BY bucket_at, brokerage, outcome, reason, main_reason""")  # noqa: S608 - a constant
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
    """A bucket of time and a reason that something waited for or was decided by.

    Attributes:
        bucket_at: its start.
        bucket_s: its length.
        brokerage: that decided.
        outcome: of the decisions.
        reason: of the outcome; empty where it is brokered.
        main_reason: the code that rejected most queues where rules left none, else ``reason``.
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
        decisions: how many.
        chunks: about how many distinct chunks or tasks.
        jobs: assigned, or tasks that got their nucleus.
    """

    decisions: int
    chunks: int
    jobs: int


@dataclass(frozen=True)
class WaitingCount(ReasonBucket):
    """What waited for one reason at the first cycle of a bucket; ``chunks`` of ``tasks`` tasks."""

    chunks: int
    tasks: int


def reason_counts(
    connection: sa.Connection, since: datetime, until: datetime, brokerages: Sequence[str] | None = None
) -> list[ReasonCount]:
    """The buckets from the one that holds ``since`` up to ``until``."""
    rows = connection.execute(_READ_REASON_COUNTS, _values(since, until, brokerages))
    return [ReasonCount(**row._mapping) for row in rows]


def waiting_counts(
    connection: sa.Connection, since: datetime, until: datetime, brokerages: Sequence[str] | None = None
) -> list[WaitingCount]:
    """What waited, in the buckets from the one that holds ``since`` up to ``until``."""
    rows = connection.execute(_READ_WAITING_COUNTS, _values(since, until, brokerages))
    return [WaitingCount(**row._mapping) for row in rows]


def waited_at(
    connection: sa.Connection, moment: datetime, brokerages: Sequence[str] | None = None
) -> list[WaitingCount]:
    """What waited at ``moment``: each brokerage's last bucket of the hour before; none where it made no cycle."""
    names = None if brokerages is None else list(brokerages)
    return [
        WaitingCount(**row._mapping) for row in connection.execute(_WAITED_AT, {"moment": moment, "brokerages": names})
    ]


def _values(since: datetime, until: datetime, brokerages: Sequence[str] | None) -> dict[str, object]:
    names = None if brokerages is None else list(brokerages)
    return {"since": bucket_of(since), "until": until, "brokerages": names}
