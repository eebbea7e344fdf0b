"""Quiet hours: when a rule sends nothing, by the clock of a time zone."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, field_validator, model_validator

from broker.domain.incident import GRAVITY, Severity
from broker.notifications.model.terms import Terms

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_WHOLE_DAY = timedelta(days=1)


def _clock(value: object) -> object:
    """``22:00`` as it was written: YAML reads it without quotes as the number 1320, which says as much."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        return time(value // 60, value % 60)
    return value


Clock = Annotated[time, BeforeValidator(_clock)]


class QuietHours(Terms):
    """A span of each day, or of some days, in which nothing is sent; incidents that outlast it are sent at its end.

    Attributes:
        start: time of day at which it is quiet; ``from`` in the file.
        end: time of day until which it is; ``to`` in the file; the next day where it is not after ``start``.
        zone: of the clock, such as ``Europe/Zurich``.
        days: on which a quiet span begins; all without it.
        except_from: incidents of this severity or above are sent nevertheless; None: none are.
    """

    start: Clock = Field(alias="from")
    end: Clock = Field(alias="to")
    zone: str = "UTC"
    days: tuple[Day, ...] = DAYS  # type: ignore[assignment]
    except_from: Severity | None = "critical"

    @field_validator("zone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{name!r} is no time zone; write it as Europe/Zurich") from None
        return name

    @model_validator(mode="after")
    def _plain(self) -> QuietHours:
        if self.start.tzinfo or self.end.tzinfo:
            raise ValueError("from and to are times of day without a zone; write zone")
        return self

    def ends(self, now: datetime, severity: Severity) -> datetime:
        """When a message of a severity may be sent: ``now``, or the end of the quiet span that ``now`` is in (aware).

        >>> night = QuietHours.model_validate({"from": "22:00", "to": "07:00", "zone": "Europe/Zurich"})
        >>> night.ends(datetime.fromisoformat("2026-11-27T23:30:00+00:00"), "warning").isoformat()
        '2026-11-28T06:00:00+00:00'
        """
        if self.except_from is not None and GRAVITY[severity] <= GRAVITY[self.except_from]:
            return now
        earliest = now
        # a span may begin where another ends
        for _ in range(len(DAYS) + 1):
            later = self._end_of_span(earliest)
            if later == earliest:
                break
            earliest = later
        return earliest

    def _end_of_span(self, moment: datetime) -> datetime:
        zone = ZoneInfo(self.zone)
        today = moment.astimezone(zone).date()
        for day in (today - _WHOLE_DAY, today):
            start, end = self._span(day, zone)
            if DAYS[day.weekday()] in self.days and start <= moment < end:
                return end
        return moment

    def _span(self, day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
        until = day if self.end > self.start else day + _WHOLE_DAY
        utc = ZoneInfo("UTC")
        start = datetime.combine(day, self.start, zone).astimezone(utc)
        return start, datetime.combine(until, self.end, zone).astimezone(utc)
