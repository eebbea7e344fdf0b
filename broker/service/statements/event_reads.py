"""Events since a cursor, for listeners: cycles, changes of outcomes, tuning versions, feed runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

Kind = Literal["cycle", "outcome", "tuning", "source"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURSOR = re.compile(r"(\d{1,18})-(\d{1,18})-(\d{1,18})-(\d{1,18})")
_MICROSECOND = timedelta(microseconds=1)

_READ_NEWEST_IDS = sa.text("""
    SELECT coalesce((SELECT max(id) FROM broker.agent_runs WHERE finished_at IS NOT NULL), 0),
           coalesce((SELECT max(version) FROM broker.gdpconfig_versions WHERE version > 0), 0),
           coalesce((SELECT max(id) FROM broker.feed_runs), 0),
           (SELECT max(outcome_since) FROM broker.chunk_states)""")
_READ_CYCLES = sa.text("""
    SELECT id, agent, outcome, started_at, finished_at, counts, tuning FROM broker.agent_runs
    WHERE finished_at IS NOT NULL AND id > :after ORDER BY id LIMIT :most""")
_READ_VERSIONS = sa.text("""
    SELECT version, published_at, editor, reason,
           (SELECT array_agg(DISTINCT key) FROM broker.gdpconfig_changes c WHERE c.version = v.version) AS keys
    FROM broker.gdpconfig_versions v WHERE version > :after ORDER BY version LIMIT :most""")
_READ_FEEDS = sa.text("""
    SELECT id, feed, outcome, started_at FROM broker.feed_runs WHERE id > :after ORDER BY id LIMIT :most""")
_READ_OUTCOMES = sa.text("""
    SELECT brokerage, jeditaskid, datasetid, outcome, reason, outcome_since, jobs FROM broker.chunk_states
    WHERE outcome_since > :after ORDER BY outcome_since, jeditaskid LIMIT :most""")


@dataclass(frozen=True)
class Cursor:
    """A reader's position: numbers of the last cycle, version and feed run, and the last change of an outcome.

    ``outcome_us`` is in microseconds since 1970.
    """

    run: int
    version: int
    feed: int
    outcome_us: int

    def __str__(self) -> str:
        """Return the cursor as text for a client."""
        return f"{self.run}-{self.version}-{self.feed}-{self.outcome_us}"

    @classmethod
    def read(cls, text: str) -> Cursor | None:
        """Parse a cursor from text; None if it is invalid."""
        match = _CURSOR.fullmatch(text)
        return None if match is None else cls(*(int(part) for part in match.groups()))


@dataclass(frozen=True)
class Event:
    """An event: its kind, its time, and its facts."""

    kind: Kind
    at: datetime
    facts: dict[str, Any]


def now(connection: sa.Connection) -> Cursor:
    """Return the cursor after everything that has happened."""
    run, version, feed, outcome = connection.execute(_READ_NEWEST_IDS).one()
    return Cursor(run, version, feed, _us(outcome))


def after(connection: sa.Connection, cursor: Cursor, most: int) -> tuple[list[Event], Cursor]:
    """Return what happened after a cursor, by time, at most ``most`` events of each kind, and the cursor after them."""
    cycles = connection.execute(_READ_CYCLES, {"after": cursor.run, "most": most}).all()
    versions = connection.execute(_READ_VERSIONS, {"after": cursor.version, "most": most}).all()
    feeds = connection.execute(_READ_FEEDS, {"after": cursor.feed, "most": most}).all()
    since = _EPOCH + cursor.outcome_us * _MICROSECOND
    outcomes = connection.execute(_READ_OUTCOMES, {"after": since, "most": most}).all()
    events = [
        *(Event("cycle", row.finished_at, dict(row._mapping)) for row in cycles),
        *(Event("tuning", row.published_at, dict(row._mapping)) for row in versions),
        *(Event("source", row.started_at, dict(row._mapping)) for row in feeds),
        *(Event("outcome", row.outcome_since, dict(row._mapping)) for row in outcomes),
    ]
    behind = Cursor(
        max((row.id for row in cycles), default=cursor.run),
        max((row.version for row in versions), default=cursor.version),
        max((row.id for row in feeds), default=cursor.feed),
        max((_us(row.outcome_since) for row in outcomes), default=cursor.outcome_us),
    )
    return sorted(events, key=lambda event: event.at), behind


def _us(moment: datetime | None) -> int:
    return 0 if moment is None else (moment - _EPOCH) // _MICROSECOND
