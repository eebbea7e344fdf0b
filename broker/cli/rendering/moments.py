"""Times in one style: UTC with its zone, and how long ago that was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_STEPS = ((86_400.0 * 2, 86_400.0, "d"), (3600.0 * 2, 3600.0, "h"), (60.0, 60.0, "min"))
"""From how many seconds on a unit is used, its seconds, its name."""


def utc(at: datetime) -> str:
    """``2026-11-22 05:20:58 UTC``; a time without a zone is in UTC already."""
    moment = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def length(span: timedelta | float) -> str:
    """A length of time in its largest fitting unit: ``45 s``, ``12 min``, ``3 h``, ``5 d``; never negative."""
    seconds = abs(span.total_seconds() if isinstance(span, timedelta) else span)
    for least, unit_s, name in _STEPS:
        if seconds >= least:
            return f"{seconds / unit_s:.0f} {name}"
    return f"{seconds:.0f} s"


def ago(at: datetime, now: datetime) -> str:
    """``12 min ago``; ``in 12 min`` for what is still to come."""
    span = _aware(now) - _aware(at)
    if abs(span) < timedelta(seconds=0.5):
        return "now"
    return f"in {length(span)}" if span < timedelta(0) else f"{length(span)} ago"


def with_age(at: datetime | None, now: datetime) -> str:
    """``2026-11-22 05:20:58 UTC (12 min ago)``; empty for no time."""
    return "" if at is None else f"{utc(at)} ({ago(at, now)})"


def _aware(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
