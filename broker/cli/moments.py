"""Instants on the command line."""

from __future__ import annotations

from datetime import UTC, datetime

from broker.errors import WRONG_USAGE, BrokerError
from broker.store.database import Database
from broker.store.load_dump import read_clock

NOW = "now"


class NotATime(BrokerError):
    """A text that is no instant."""

    exit_status = WRONG_USAGE


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
    except ValueError as error:
        raise NotATime(f"not a time: {text}", "--at", "write it as 2026-08-01T12:00:00, in UTC, or as now") from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
