"""Recent cycles of agents: how many, how long, and how they ended one after another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.store.connection.plain_rows import mappings, scalar

LATELY = timedelta(hours=24)
_COUNT_CYCLES = sa.text("""
    SELECT agent, count(*) AS cycles,
           count(*) FILTER (WHERE outcome NOT IN ('done', 'running', 'abandoned')) AS failed,
           avg(extract(epoch FROM finished_at - started_at))::float8 AS mean_s,
           max(extract(epoch FROM finished_at - started_at))::float8 AS largest_s
    FROM broker.agent_runs WHERE started_at > :since AND started_at <= :until GROUP BY agent""")
_READ_LAST_CYCLES = sa.text("""
    SELECT agent, outcome, started_at, error, part FROM (
        SELECT agent, outcome, started_at, error, part,
               row_number() OVER (PARTITION BY agent, part ORDER BY started_at DESC, id DESC) AS place
        FROM broker.agent_runs WHERE started_at > :since AND started_at <= :until AND finished_at IS NOT NULL
    ) AS run WHERE place <= :most ORDER BY agent, part, place""")
_READ_CLOCK = sa.text("SELECT clock_timestamp()")


@dataclass(frozen=True)
class Cycles:
    """The cycles of an agent in a day; seconds are None if none has ended."""

    agent: str
    cycles: int
    failed: int
    mean_s: float | None
    largest_s: float | None


@dataclass(frozen=True)
class EndedCycle:
    """How one cycle of an agent, or of a part of it, ended."""

    agent: str
    outcome: str
    started_at: datetime
    error: str | None
    part: str | None = None


def database_clock(connection: sa.Connection) -> datetime:
    """Return the instant by the database's clock, on which leases, cycles and pauses depend (aware)."""
    now: datetime = scalar(connection, _READ_CLOCK)
    return now


def cycles_lately(connection: sa.Connection, now: datetime) -> dict[str, Cycles]:
    """Return the cycles of each agent in the day before ``now`` (aware)."""
    rows = mappings(connection, _COUNT_CYCLES, {"since": now - LATELY, "until": now})
    return {row["agent"]: Cycles(**row) for row in rows}


def last_ended(connection: sa.Connection, now: datetime, most: int) -> list[EndedCycle]:
    """Return the last ``most`` cycles of each agent, or part of one, in the day before ``now``, newest first."""
    values = {"since": now - LATELY, "until": now, "most": most}
    return [EndedCycle(**row) for row in mappings(connection, _READ_LAST_CYCLES, values)]
