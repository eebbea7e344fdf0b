"""Instants with and without a time zone, the latter as in PanDA's columns (UTC), and durations in words. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

HOUR_S = 3600.0
_MINUTE, _DAY = 60.0, 86_400.0


def naive(moment: datetime) -> datetime:
    """Convert an instant to the form of PanDA's tables: UTC without a zone; one without a zone is taken as UTC."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def aware(moment: datetime) -> datetime:
    """Convert an instant to UTC with a zone; one without a zone is taken as UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def length(seconds: float) -> str:
    """Format a duration in its largest fitting unit; negative ones count as 0.

    >>> [length(value) for value in (45.0, 754.0, 7_200.0, 12_600.0, 432_000.0, -1.0)]
    ['45 s', '13 min', '2 h', '3.5 h', '5 d', '0 s']
    """
    seconds = max(0.0, seconds)
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR_S:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / HOUR_S:.1f} h".replace(".0 h", " h")
    return f"{seconds / _DAY:.1f} d".replace(".0 d", " d")
