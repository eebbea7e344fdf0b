"""How far published decisions have gone out, up to where they can be read, and the rows in between.

A transaction takes the numbers of its decisions before it commits, so that a lower number may become visible after a
higher one. It holds a lock on their sequence from then on until it ends: what was numbered before the locks were looked
at is all visible once the transactions that held one then have ended.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from broker.domain.decisions import StoredDecision
from broker.notifications.statements.outbox_rows import LONGEST_DETAIL, ChannelStanding
from broker.store.connection.plain_rows import mappings
from broker.store.decisions.decision_rows import COLUMNS, TABLE, decisions_of
from broker.store.query_context import Answer

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
"""Decisions that wait are counted up to here."""
_STANDING = sa.text(f"""
    SELECT channel, CASE WHEN tries > 0 THEN 'failing' WHEN backlog > 0 THEN 'behind' ELSE 'sent' END AS state,
        position, started_at, read_at, sent, sent_at, backlog, tries, not_before, failing_since, detail, unknown,
        lost, lost_at
    FROM broker.decision_streams AS s, LATERAL (
        SELECT count(*) AS backlog FROM (
            SELECT FROM broker.decisions AS d WHERE d.id > s.position LIMIT {MOST_COUNTED}
        ) AS later
    ) AS counted
    ORDER BY channel""")  # noqa: S608 - a constant

# alarms are asked for often: what waits is what was numbered since, and no row is looked at
_FAILING = sa.text("""
    SELECT channel, (SELECT last_value FROM broker.decisions_id_seq) - position AS waiting, tries, sent, sent_at,
        failing_since, detail
    FROM broker.decision_streams WHERE tries > 0 ORDER BY channel""")


@dataclass(frozen=True)
class Numbered:
    """What was numbered at one instant: all up to ``last``, some of it by transactions that may not have ended."""

    last: int
    by: frozenset[str]


@dataclass(frozen=True)
class StreamRow:
    """How far a channel has come: see ``broker.decision_streams``."""

    channel: str
    position: int
    tries: int
    not_before: datetime | None
    lost_untold: int


class StreamLine(Answer):
    """The decisions of a channel.

    Attributes:
        state: ``failing`` since the last try was in vain, ``behind`` where decisions wait, else ``sent``.
        position: all stored decisions up to this number were sent, or are not for the channel.
        started_at: those that were stored later are published.
        read_at: when stored decisions were last looked for.
        sent: messages that have receipts.
        sent_at: when the last receipt came; null: none has.
        backlog: stored decisions that were not looked at, counted up to 100,000.
        tries: in vain since the last one that got through.
        not_before: when it is tried next; null: in the next cycle.
        failing_since: when the first try in vain was; null: the last one got through.
        detail: why the last try failed.
        unknown: decisions left out since their share or VO, which the filter names, is not stored.
        lost: at most so many decisions were cleared away before they were sent.
        lost_at: when that was last noticed.
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
    """The last number that a decision has, and the transactions that are giving them."""
    last = int(connection.execute(_LAST_NUMBER).scalar_one())
    return Numbered(last, frozenset(connection.execute(_NUMBERING).scalars()))


def oldest(connection: sa.Connection) -> int | None:
    """The lowest number of a decision that is stored; None where none is."""
    found = connection.scalar(_OLDEST)
    return None if found is None else int(found)


def decisions_between(connection: sa.Connection, after: int, until: int, most: int) -> list[StoredDecision]:
    """The first ``most`` stored decisions of a number above ``after``, up to ``until``, as it rises.

    Raises:
        DecisionUnreadable: one of them is damaged.
    """
    values = {"after": after, "until": until, "most": most}
    return decisions_of(connection, (dict(row._mapping) for row in connection.execute(_BETWEEN, values)))


def read(connection: sa.Connection) -> dict[str, StreamRow]:
    """How far each channel has come, by its name."""
    return {row.channel: StreamRow(*row) for row in connection.execute(_READ)}


def start(connection: sa.Connection, channel: str, position: int, now: datetime) -> None:
    """Let a channel begin behind the decision of this number."""
    connection.execute(_START, {"channel": channel, "position": position, "now": now})


def forget(connection: sa.Connection, kept: Collection[str]) -> list[str]:
    """Forget the channels that are not among these; returns which they were."""
    return list(connection.execute(_FORGET, {"kept": list(kept)}).scalars())


def lose(connection: sa.Connection, channel: str, position: int, lost: int, now: datetime) -> None:
    """Record that at most this many decisions up to ``position`` are lost, and continue after them."""
    connection.execute(_LOSE, {"channel": channel, "position": position, "lost": lost, "now": now})


def trying(connection: sa.Connection, row: StreamRow, again: datetime) -> bool:
    """Note a try to send decisions, and the time of the next try; false if another process is sending them."""
    values = {"channel": row.channel, "position": row.position, "tries": row.tries, "again": again}
    return connection.execute(_TRYING, values).rowcount == 1


def got_through(
    connection: sa.Connection, channel: str, position: int, now: datetime, sent: int, unknown: int = 0
) -> None:
    """Record that all decisions up to ``position`` are processed, ``sent`` of them as messages."""
    values = {"channel": channel, "position": position, "now": now, "sent": sent, "unknown": unknown}
    connection.execute(_GOT_THROUGH, values)


def failed(connection: sa.Connection, channel: str, position: int, now: datetime, sent: int, detail: str) -> None:
    """Keep why a try failed, and that those up to ``position`` got through before it did."""
    values = {"channel": channel, "position": position, "now": now, "sent": sent, "detail": detail[:LONGEST_DETAIL]}
    connection.execute(_FAILED, values)


def standing(connection: sa.Connection) -> list[StreamLine]:
    """How the decisions of each channel fare."""
    return [StreamLine(**row) for row in mappings(connection, _STANDING)]


def failing(connection: sa.Connection) -> list[ChannelStanding]:
    """The channels whose last try failed, with their waiting decisions, at most so many of each."""
    return [
        ChannelStanding(
            channel=row.channel, waiting=row.waiting, failing=row.waiting, tries=row.tries, given_up=0,
            delivered=row.sent, delivered_at=row.sent_at, failing_since=row.failing_since, detail=row.detail,
        )
        for row in connection.execute(_FAILING)
    ]  # fmt: skip
