"""Instants and lengths of time on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import cast

import sqlalchemy as sa

from broker.cli.rendering.moments import utc, with_age
from broker.cli.rendering.visible_text import remark
from broker.errors import WRONG_USAGE, BrokerError, NotFound
from broker.store.connection.database import Database

NOW = "now"
SCENARIO = "scenario"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LONGEST = timedelta(days=3650)


class NotATime(BrokerError):
    """A text that is no instant."""

    exit_status = WRONG_USAGE


class NoScenario(NotFound):
    """No scenario is loaded, so there is no clock of one."""


class NotADuration(BrokerError):
    """A text that is no length of time."""

    exit_status = WRONG_USAGE


def duration(text: str, option: str) -> timedelta:
    """A length of time such as ``24h``, ``90m``, ``7d``.

    Raises:
        NotADuration: it is none, or longer than anything is kept.
    """
    found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*([smhd])\s*", text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < seconds <= LONGEST.total_seconds():
        raise NotADuration(f"not a length of time: {text[:40]!r}", option, "write it as 24h, 90m or 7d")
    return timedelta(seconds=seconds)


def moment_of(text: str, database: Database, *, of_scenario: bool = False) -> datetime:
    """The instant meant by ``text``, said on stderr with its clock: ISO 8601 (UTC without a zone), now, or scenario.

    Args:
        text: as it was typed.
        database: whose clock is the wall clock.
        of_scenario: ``now`` is the clock of the loaded scenario, if any: for commands that decide, or look at what was
            decided. Whatever changes something, or judges what runs, goes by the wall clock.

    Raises:
        NotATime: the text is none of these.
        NoScenario: the clock of a scenario is asked for, and none is loaded.
    """
    if text not in (NOW, SCENARIO):
        return _parsed(text)
    with database.begin() as connection:
        wall = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one().astimezone(UTC)
        loaded = _scenario_clock(connection) if of_scenario or text == SCENARIO else None
    if loaded is None and text == SCENARIO:
        raise NoScenario("no scenario is loaded", "broker.scenario", "leave --at out for the wall clock")
    if loaded is None:
        remark(f"clock: {utc(wall)}, the wall clock")
        return cast(datetime, wall)
    remark(f"clock: {with_age(loaded, wall)}, of the loaded scenario")
    return loaded.astimezone(UTC)


def _scenario_clock(connection: sa.Connection) -> datetime | None:
    # what loads scenarios takes long to import, and few commands ask for their clock
    from broker.store.scenarios.load_dump import read_clock

    return read_clock(connection)


def until(text: str) -> datetime | None:
    """The instant up to which something is wanted; None, without end, for ``now`` and ``scenario``.

    Raises:
        NotATime: the text is neither.
    """
    return None if text in (NOW, SCENARIO) else _parsed(text)


def end_of(text: str, now: datetime) -> datetime:
    """The instant at which something ends: an instant, or a length of time from ``now``.

    Raises:
        NotATime: it is neither, or no end at all.
    """
    try:
        return now + duration(text, "--until")
    except NotADuration:
        found = until(text)
        if found is None:
            raise NotATime("now is no end", "--until", "give a time to come, or a length such as 8h") from None
        return found.astimezone(UTC)


def _parsed(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        remedy = "write it as 2026-08-01T12:00:00, in UTC, or as now, or scenario"
        raise NotATime(f"not a time: {text}", "--at", remedy) from error
