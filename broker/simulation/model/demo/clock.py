"""Times of a scenario: ISO 8601, UTC, whole seconds, relative to its ``now``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

Row = dict[str, object]
Tables = Mapping[str, list[Row]]


class Clock:
    """Formats instants before and after ``now`` (aware) for scenario files."""

    def __init__(self, now: datetime) -> None:
        """Take ``now``; raises ValueError when it has no time zone."""
        if now.tzinfo is None:
            raise ValueError("scenario: now has no time zone; pass an aware datetime, for example in UTC")
        self._now = now.astimezone(UTC).replace(microsecond=0, tzinfo=None)

    @property
    def now(self) -> str:
        """The instant of the demonstration, as text (UTC)."""
        return self._now.isoformat()

    def ago(self, *, hours: float = 0, minutes: float = 0) -> str:
        """The instant this many hours and minutes earlier (negative: later)."""
        return (self._now - timedelta(seconds=round(hours * 3600 + minutes * 60))).isoformat()
