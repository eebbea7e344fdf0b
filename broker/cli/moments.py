"""Instants and lengths of time on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from broker.errors import WRONG_USAGE, BrokerError
from broker.store.database import Database
from broker.store.load_dump import read_clock

NOW = "now"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LONGEST = timedelta(days=3650)


class NotATime(BrokerError):
    """A text that is no instant."""

    exit_status = WRONG_USAGE


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


def moment_of(text: str, database: Database) -> datetime:
    """The instant meant by ``text``: ISO 8601, UTC without a zone; ``now`` is the clock of a loaded scenario, if any.

    Raises:
        NotATime: the text is neither.
    """
    if text != NOW:
        return _parsed(text)
    with database.begin() as connection:
        return (read_clock(connection) or datetime.now(UTC)).astimezone(UTC)


def until(text: str) -> datetime | None:
    """The instant up to which something is wanted; None, without end, for ``now``.

    Raises:
        NotATime: the text is neither.
    """
    return None if text == NOW else _parsed(text)


def _parsed(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise NotATime(f"not a time: {text}", "--at", "write it as 2026-08-01T12:00:00, in UTC, or as now") from error
