"""The daily partitions of ``broker.decisions``, created ahead and dropped whole.

Days are in UTC. Rows of a day without a partition are in ``broker.decisions_default``; such a day does not get a
partition later, and its rows are deleted individually.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import sqlalchemy as sa

PARTITIONED = "decisions"
_READ_DAYS = sa.text("""
    SELECT c.relname FROM pg_catalog.pg_inherits AS i
    JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'broker.decisions'::regclass AND c.relname ~ '^decisions_[0-9]{8}$' ORDER BY c.relname""")
_ASK_WHETHER_OWNED = sa.text("""
    SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_catalog.pg_class AS c WHERE c.oid = 'broker.decisions'::regclass""")
_ASK_FOR_STRAY_ROWS = sa.text("""
    SELECT EXISTS (SELECT FROM broker.decisions_default WHERE decided_at >= :start AND decided_at < :end)""")


@dataclass(frozen=True)
class NewPartitions:
    """The result of creating partitions ahead.

    Attributes:
        created: days whose partitions were created now.
        stray: days that get no partition because they have rows in the default one already.
        owned: whether this role may create partitions at all.
    """

    created: tuple[date, ...]
    stray: tuple[date, ...]
    owned: bool


def day_of(moment: datetime) -> datetime:
    """The start of the UTC day of an aware instant."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def days(connection: sa.Connection) -> list[date]:
    """The days that have a partition, in order."""
    return [datetime.strptime(name[-8:], "%Y%m%d").date() for name in connection.execute(_READ_DAYS).scalars()]  # noqa: DTZ007


def may_change(connection: sa.Connection) -> bool:
    """Whether this role owns the table, and may therefore create and drop its partitions."""
    return bool(connection.scalar(_ASK_WHETHER_OWNED))


def missing(connection: sa.Connection, now: datetime, ahead: int) -> bool:
    """Whether the day of ``now``, or one of the ``ahead`` days after it, has no partition."""
    wanted = {(day_of(now) + timedelta(days=offset)).date() for offset in range(ahead + 1)}
    return not wanted <= set(days(connection))


def make(connection: sa.Connection, now: datetime, ahead: int) -> NewPartitions:
    """Create the missing partitions of the day of ``now`` and of the ``ahead`` days after it."""
    if not may_change(connection):
        return NewPartitions((), (), owned=False)
    known, created, stray = set(days(connection)), [], []
    for offset in range(ahead + 1):
        start = day_of(now) + timedelta(days=offset)
        if start.date() in known:
            continue
        end = start + timedelta(days=1)
        if connection.scalar(_ASK_FOR_STRAY_ROWS, {"start": start, "end": end}):
            stray.append(start.date())
            continue
        connection.exec_driver_sql(
            f"CREATE TABLE {_name(start.date())} PARTITION OF broker.decisions "
            f"FOR VALUES FROM ('{start.isoformat()}') TO ('{end.isoformat()}')"
        )
        created.append(start.date())
    return NewPartitions(tuple(created), tuple(stray), owned=True)


def ended_before(known: Sequence[date], moment: datetime) -> list[date]:
    """The days that were over at an aware instant."""
    return [day for day in known if datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1) <= moment]


def rows_of(connection: sa.Connection, day: date) -> int:
    """The number of decisions in the partition of a day."""
    return int(connection.exec_driver_sql(f"SELECT count(*) FROM {_name(day)}").scalar_one())  # noqa: S608 - from a date


def drop(connection: sa.Connection, day: date) -> None:
    """Drop the partition of a day with its contents."""
    connection.exec_driver_sql(f"DROP TABLE {_name(day)}")


def _name(day: date) -> str:
    return f"broker.decisions_{day:%Y%m%d}"
