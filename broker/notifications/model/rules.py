"""The notification settings: which incidents a rule matches, and its quiet hours in a time zone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, field_validator, model_validator

from broker.domain.incident import GRAVITY, Incident, Severity
from broker.errors import did_you_mean
from broker.notifications.model.channels import AnyChannel, MailChannel, usable_address
from broker.notifications.model.terms import Pattern, Terms, fits

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_WHOLE_DAY = timedelta(days=1)


def _clock(value: object) -> object:
    """Restore ``22:00`` as it was written: unquoted, YAML reads it as the equivalent number 1320."""
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
        """Return when a message of a severity may be sent: ``now``, or the end of the current quiet span (aware).

        >>> night = QuietHours.model_validate({"from": "22:00", "to": "07:00", "zone": "Europe/Zurich"})
        >>> night.ends(datetime.fromisoformat("2026-11-27T23:30:00+00:00"), "warning").isoformat()
        '2026-11-28T06:00:00+00:00'
        """
        if self.except_from is not None and GRAVITY[severity] <= GRAVITY[self.except_from]:
            return now
        earliest = now
        # a span may begin where another one ends
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


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
Minutes = Annotated[float, Field(ge=0, le=7 * 24 * 60, allow_inf_nan=False)]


class NotificationRule(Terms):
    """Which incidents are sent to which channels.

    Attributes:
        name: of the rule.
        to: names of channels.
        alarms: codes of alarms, with ``*`` for any characters.
        reasons: codes of reasons for which work waits, likewise.
        about: what an alarm is about (queue, source, agent, task), likewise.
        severity: alarms as grave as this, or graver.
        tasks: a reason is sent when at least this many tasks wait for it.
        lasts_min: an incident is sent once it has lasted for this long.
        resolved: whether the end of an incident is sent, too.
        quiet: when nothing is sent.
    """

    name: Name
    to: tuple[Name, ...] = Field(min_length=1)
    alarms: tuple[Pattern, ...] = ()
    reasons: tuple[Pattern, ...] = ()
    about: tuple[Pattern, ...] = ("*",)
    severity: Severity = "warning"
    tasks: int = Field(default=1, ge=1)
    lasts_min: Minutes = 0.0
    resolved: bool = True
    quiet: QuietHours | None = None

    @model_validator(mode="after")
    def _says_what(self) -> NotificationRule:
        if not self.alarms and not self.reasons:
            raise ValueError("neither alarms nor reasons are named, so it would never send anything")
        return self

    def asks_for(self, incidents: Iterable[Incident]) -> Iterator[Incident]:
        """Yield the ``incidents`` that match the rule, whatever their duration; a reason is about the rule."""
        for incident in incidents:
            if incident.kind == "alarm":
                grave = GRAVITY[incident.severity] <= GRAVITY[self.severity]
                if grave and fits(incident.code, self.alarms) and fits(incident.about, self.about):
                    yield incident
            elif incident.tasks >= self.tasks and fits(incident.code, self.reasons):
                yield replace(incident, about=self.name)

    def lasts_enough(self, since: datetime, now: datetime) -> bool:
        """Return whether an incident that began at ``since`` has lasted long enough to be sent."""
        return now - since >= timedelta(minutes=self.lasts_min)

    def not_before(self, now: datetime, severity: Severity) -> datetime:
        """Return the earliest time (aware) at which a message of this severity may be sent."""
        return now if self.quiet is None else self.quiet.ends(now, severity)


class Subscriptions(Terms):
    """What people may subscribe to tasks with.

    Attributes:
        channels: that somebody may name.
        mail: the mail channel that sends to addresses of subscribers; None: no addresses.
        domains: of these addresses, such as ``example.org``, or ``*.example.org`` for all below.
        waits_min: a task has stopped being brokered when its work waits for so long.
        most_of_a_task: subscriptions.
    """

    channels: tuple[Name, ...] = ()
    mail: Name | None = None
    domains: tuple[Pattern, ...] = ()
    waits_min: Minutes = 60.0
    most_of_a_task: int = Field(default=20, ge=1, le=1000)


class NotificationSettings(Terms):
    """All of ``config/notifications.yaml``.

    Attributes:
        page: address of the web page, for links; empty: no links.
        settle_min: an incident is over when it has not been seen for this long.
        first_pause_s: pause after a failed try, doubled with each further one ...
        longest_pause_s: ... up to this.
        give_up_h: hours after which a message is given up.
        channels: where messages go, by name.
        rules: which incidents go to which channels; the first rule that matches counts for a channel.
        subscriptions: to tasks.
    """

    page: str = Field(default="", max_length=2048)
    settle_min: Minutes = 5.0
    first_pause_s: float = Field(default=30.0, gt=0, le=86_400)
    longest_pause_s: float = Field(default=1800.0, gt=0, le=86_400)
    give_up_h: float = Field(default=24.0, gt=0, le=24 * 30)
    channels: dict[Name, AnyChannel] = Field(default_factory=dict)
    rules: tuple[NotificationRule, ...] = ()
    subscriptions: Subscriptions = Subscriptions()

    @field_validator("page")
    @classmethod
    def _address(cls, page: str) -> str:
        return usable_address(page).rstrip("/") if page else page

    @model_validator(mode="after")
    def _names_are_known(self) -> NotificationSettings:
        for rule in self.rules:
            for name in rule.to:
                self._check(name, f"rules.{rule.name}.to")
                channel = self.channels[name]
                if isinstance(channel, MailChannel) and not channel.to:
                    raise ValueError(f"rules.{rule.name}.to: channel {name} names nobody; write channels.{name}.to")
        twice = [rule.name for at, rule in enumerate(self.rules) if rule.name in {one.name for one in self.rules[:at]}]
        if twice:
            raise ValueError(f"rules: two are called {twice[0]}")
        for name in self.subscriptions.channels:
            self._check(name, "subscriptions.channels")
        mail = self.subscriptions.mail
        if mail is not None:
            self._check(mail, "subscriptions.mail")
            if not isinstance(self.channels[mail], MailChannel):
                raise ValueError(f"subscriptions.mail: {mail} sends no mail")
            if not self.subscriptions.domains:
                raise ValueError("subscriptions.domains: name the domains that subscribers may have mail sent to")
        return self

    def _check(self, name: str, where: str) -> None:
        if name not in self.channels:
            hint = did_you_mean(name, self.channels, f"known are {', '.join(self.channels) or 'none'}")
            raise ValueError(f"{where}: there is no channel {name}; {hint}")


def fits_domain(address: str, domains: Iterable[str]) -> bool:
    """Return whether a subscriber's address belongs to one of these domains.

    >>> fits_domain("ann@x.example.org", ["*.example.org"]), fits_domain("ann@evil.org", ["example.org"])
    (True, False)
    """
    return fits(address.rpartition("@")[2].casefold(), [domain.casefold() for domain in domains])
