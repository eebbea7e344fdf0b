"""Positions of the published decision streams, the limit up to which decisions can be read, and the rows in between.

A transaction assigns numbers to its decisions before it commits, so a lower number may become visible after a higher
one. From then until its end it holds a lock on their sequence: once the transactions that hold a lock at a check have
ended, everything numbered before that check is visible.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from broker.domain.decisions import StoredDecision
from broker.notifications.statements.outbox_rows import LONGEST_DETAIL, ChannelState
from broker.store.connection.plain_rows import mappings
from broker.store.decisions.decision_rows import COLUMNS, TABLE, decisions_of
from broker.store.query_context import ResponseModel

_LAST_NUMBER = sa.text("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM broker.decisions_id_seq")
_NUMBERING = sa.text("""
    SELECT virtualtransaction FROM pg_catalog.pg_locks
    WHERE locktype = 'relation' AND relation = 'broker.decisions_id_seq'::regclass AND mode = 'RowExclusiveLock'
      AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())""")
_OLDEST = sa.text(f"SELECT id FROM {TABLE} ORDER BY id LIMIT 1")  # noqa: S608 - a constant
_BETWEEN = sa.text(f"""
    SELECT {COLUMNS} FROM {TABLE} WHERE id > :after AND id <= :until ORDER BY id LIMIT :most""")  # noqa: S608 - constants
_READ = sa.text("""
    SELECT channel, position, tries, not_before, lost_untold FROM broker.decision_streams ORDER BY channel""")
_START = sa.text("""
    INSERT INTO broker.decision_streams (channel, position, started_at, read_at)
    VALUES (:channel, :position, :now, :now) ON CONFLICT (channel) DO NOTHING""")
_FORGET = sa.text("DELETE FROM broker.decision_streams WHERE channel <> ALL(CAST(:kept AS text[])) RETURNING channel")
_LOSE = sa.text("""
    UPDATE broker.decision_streams SET position = :position, lost = lost + :lost, lost_untold = lost_untold + :lost,
        lost_at = :now
    WHERE channel = :channel""")
_TRYING = sa.text("""
    UPDATE broker.decision_streams SET tries = tries + 1, not_before = :again
    WHERE channel = :channel AND position = :position AND tries = :tries""")
_GOT_THROUGH = sa.text("""
    UPDATE broker.decision_streams SET position = :position, read_at = :now, sent = sent + :sent,
        sent_at = CASE WHEN :sent > 0 THEN :now ELSE sent_at END, unknown = unknown + :unknown, tries = 0,
        not_before = NULL, failing_since = NULL, detail = NULL,
        lost_untold = CASE WHEN :sent > 0 THEN 0 ELSE lost_untold END
    WHERE channel = :channel""")
_FAILED = sa.text("""
    UPDATE broker.decision_streams SET position = :position, read_at = :now, sent = sent + :sent,
        sent_at = CASE WHEN :sent > 0 THEN :now ELSE sent_at END, failing_since = coalesce(failing_since, :now),
        detail = :detail, lost_untold = CASE WHEN :sent > 0 THEN 0 ELSE lost_untold END
    WHERE channel = :channel""")
MOST_COUNTED = 100_000
"""Maximum count of waiting decisions."""
_STREAM_STATES = sa.text(f"""
    SELECT channel, CASE WHEN tries > 0 THEN 'failing' WHEN backlog > 0 THEN 'behind' ELSE 'sent' END AS state,
        position, started_at, read_at, sent, sent_at, backlog, tries, not_before, failing_since, detail, unknown,
        lost, lost_at
    FROM broker.decision_streams AS s, LATERAL (
        SELECT count(*) AS backlog FROM (
            SELECT FROM broker.decisions AS d WHERE d.id > s.position LIMIT {MOST_COUNTED}
        ) AS later
    ) AS counted
    ORDER BY channel""")  # noqa: S608 - a constant

# alarms are queried often: the backlog is the numbers assigned since, and no row is read
_FAILING = sa.text("""
    SELECT channel, (SELECT last_value FROM broker.decisions_id_seq) - position AS waiting, tries, sent, sent_at,
        failing_since, detail
    FROM broker.decision_streams WHERE tries > 0 ORDER BY channel""")


@dataclass(frozen=True)
class Numbered:
    """What is numbered at one instant: all up to ``last``, partly by transactions that may not have ended."""

    last: int
    by: frozenset[str]


@dataclass(frozen=True)
class StreamRow:
    """The position of a channel: see ``broker.decision_streams``."""

    channel: str
    position: int
    tries: int
    not_before: datetime | None
    lost_untold: int


class StreamLine(ResponseModel):
    """The published decisions of a channel.

    Attributes:
        state: ``failing`` if the last attempt failed, ``behind`` if decisions wait, else ``sent``.
        position: number up to which all stored decisions were sent, or are not for the channel.
        started_at: start of publication: only decisions stored later are published.
        read_at: time of the last search for stored decisions.
        sent: number of messages with receipts.
        sent_at: time of the last receipt; null if there is none.
        backlog: number of stored decisions not examined yet, counted up to 100,000.
        tries: failed attempts since the last success.
        not_before: earliest time of the next attempt; null: in the next cycle.
        failing_since: time of the first failed attempt; null if the last one succeeded.
        detail: why the last attempt failed.
        unknown: decisions omitted because their share or VO, which the filter names, is not stored.
        lost: upper bound on the decisions deleted before they were sent.
        lost_at: time when the last loss was noticed.
    """

    channel: str
    state: Literal["failing", "behind", "sent"]
    position: int
    started_at: datetime
    read_at: datetime
    sent: int
    sent_at: datetime | None
    backlog: int
    tries: int
    not_before: datetime | None
    failing_since: datetime | None
    detail: str | None
    unknown: int
    lost: int
    lost_at: datetime | None


def numbered(connection: sa.Connection) -> Numbered:
    """Return the last number of a decision, and the transactions that are assigning numbers."""
    last = int(connection.execute(_LAST_NUMBER).scalar_one())
    return Numbered(last, frozenset(connection.execute(_NUMBERING).scalars()))


def oldest(connection: sa.Connection) -> int | None:
    """Return the lowest number of a stored decision; None if there is none."""
    number = connection.scalar(_OLDEST)
    return None if number is None else int(number)


def decisions_between(connection: sa.Connection, after: int, until: int, most: int) -> list[StoredDecision]:
    """Return the first ``most`` stored decisions with a number above ``after``, up to ``until``, in ascending order.

    Raises:
        DecisionUnreadable: one of them is damaged.
    """
    values = {"after": after, "until": until, "most": most}
    return decisions_of(connection, (dict(row._mapping) for row in connection.execute(_BETWEEN, values)))


def read(connection: sa.Connection) -> dict[str, StreamRow]:
    """Return the position of each channel, by its name."""
    return {row.channel: StreamRow(*row) for row in connection.execute(_READ)}


def start(connection: sa.Connection, channel: str, position: int, now: datetime) -> None:
    """Start a channel after the decision with this number."""
    connection.execute(_START, {"channel": channel, "position": position, "now": now})


def forget(connection: sa.Connection, channels: Collection[str]) -> list[str]:
    """Delete the channels that are not among these and return their names."""
    return list(connection.execute(_FORGET, {"kept": list(channels)}).scalars())


def lose(connection: sa.Connection, channel: str, position: int, lost: int, now: datetime) -> None:
    """Record that at most this many decisions up to ``position`` are lost, and continue after them."""
    connection.execute(_LOSE, {"channel": channel, "position": position, "lost": lost, "now": now})


def trying(connection: sa.Connection, row: StreamRow, again: datetime) -> bool:
    """Record an attempt to send decisions, and the time of the next one; False if another process is sending them."""
    values = {"channel": row.channel, "position": row.position, "tries": row.tries, "again": again}
    return connection.execute(_TRYING, values).rowcount == 1


def got_through(
    connection: sa.Connection, channel: str, position: int, now: datetime, sent: int, unknown: int = 0
) -> None:
    """Record that all decisions up to ``position`` are processed, ``sent`` of them as messages."""
    values = {"channel": channel, "position": position, "now": now, "sent": sent, "unknown": unknown}
    connection.execute(_GOT_THROUGH, values)


def failed(connection: sa.Connection, channel: str, position: int, now: datetime, sent: int, detail: str) -> None:
    """Record why an attempt failed, and that decisions up to ``position`` got through before."""
    values = {"channel": channel, "position": position, "now": now, "sent": sent, "detail": detail[:LONGEST_DETAIL]}
    connection.execute(_FAILED, values)


def stream_states(connection: sa.Connection) -> list[StreamLine]:
    """Return the state of each channel's decision stream."""
    return [StreamLine(**row) for row in mappings(connection, _STREAM_STATES)]


def failing(connection: sa.Connection) -> list[ChannelState]:
    """Return the channels whose last attempt failed, with their waiting decisions, counted up to a limit."""
    return [
        ChannelState(
            channel=row.channel, waiting=row.waiting, failing=row.waiting, tries=row.tries, given_up=0,
            delivered=row.sent, delivered_at=row.sent_at, failing_since=row.failing_since, detail=row.detail,
        )
        for row in connection.execute(_FAILING)
    ]  # fmt: skip
