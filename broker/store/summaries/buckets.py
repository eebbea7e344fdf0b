"""The buckets of time in which decisions are counted: 5 minutes each for 2 days, then an hour each for 90 days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

FINE_S, COARSE_S = 300, 3600
FINE_KEPT, COARSE_KEPT = timedelta(days=2), timedelta(days=90)


def bucket_of(moment: datetime, width_s: int = FINE_S) -> datetime:
    """The start of the bucket that an aware instant falls into; buckets begin at whole multiples in UTC."""
    seconds = int(moment.timestamp()) // width_s * width_s
    return datetime.fromtimestamp(seconds, UTC)
