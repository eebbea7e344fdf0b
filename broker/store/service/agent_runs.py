"""The rows of ``broker.agent_runs``: one for each cycle of an agent, opened before it starts and closed when it ends.

Start and end are times of the database's clock. A row that a killed process left open is closed by the next holder of
the agent's lease.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from sqlalchemy import TextClause, text
from sqlalchemy.engine import Connection

from broker.domain.parts import MARK, led_by
from broker.store.connection.plain_rows import mappings
from broker.store.service.leases import Lease

RunOutcome = Literal[
    "running",
    "done",
    "over_budget",
    "overdue",
    "abandoned",
    "lost_lease",
    "refused",
    "paused",
    "failed_transient",
    "failed",
    "interrupted",
]
OVERDUE_AFTER_S = 2.0
"""Seconds past its budget after which a running cycle is overdue and its connections are cut."""
BRAKED = "braked"
"""Name of the count of a cycle that its brake held back."""
ERROR_LIMIT = 2000
"""Number of characters of an error that are stored."""
_NAMED = re.compile(r"[A-Za-z_][\w.]*[a-z][\w.]*: ")
"""Start of the line that names the error; drivers add statements, values and links on separate lines."""


@dataclass(frozen=True)
class CycleReport:
    """What a cycle did.

    Attributes:
        counts: numbers by name.
        timings: seconds of each stage by name.
        notes: typed remarks for operators.
        snapshot: id of the snapshot it decided on.
        tuning: version of the gdpconfig values it used.
        profile: name of the profile that a brokerage used.
        only_recorded: whether a brokerage wrote nothing but its decisions; None for other agents.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    snapshot: str | None = None
    tuning: int | None = None
    profile: str | None = None
    only_recorded: bool | None = None


@dataclass(frozen=True, kw_only=True)
class RunRecord(CycleReport):
    """The record of a finished cycle: what it did, how it ended, and the error, if any."""

    outcome: RunOutcome
    error: str | None = None

    @property
    def error_line(self) -> str:
        """The one line of the error, or of its traceback, that describes the fault."""
        lines = ((self.error or "").strip() or "no reason given").splitlines()
        named = [line for line in lines if _NAMED.match(line)] or lines[-1:]
        return lines[0] if named[0] == lines[0] else named[-1]


@dataclass(frozen=True)
class LastRun:
    """The newest cycle of an agent, or of a part of it, in the database. Ages are in seconds by the database's clock.

    The outcome of a cycle that should have ended is ``overdue``.
    """

    agent: str
    part: str | None
    holder: str
    epoch: int
    outcome: str
    started_at: datetime
    finished_at: datetime | None
    started_s_ago: float
    counts: dict[str, int]
    error: str | None


_CLOSE_ORPHANS = text("""
    UPDATE broker.agent_runs
    SET outcome = 'interrupted', finished_at = clock_timestamp(),
        error = 'the process ended without closing the run; nothing needs to be done'
    WHERE agent = :agent AND finished_at IS NULL AND epoch < :epoch
      AND (part IS NOT DISTINCT FROM CAST(:part AS text)
           OR split_part(part, '/', 2) IS DISTINCT FROM split_part(CAST(:part AS text), '/', 2))""")

_INSERT_RUN = text("""
    INSERT INTO broker.agent_runs (agent, part, holder, epoch, started_at, outcome, budget_s)
    VALUES (:agent, :part, :holder, :epoch, clock_timestamp(), 'running', :budget_s)
    RETURNING id""")

_FINISH_RUN = text("""
    UPDATE broker.agent_runs
    SET finished_at = clock_timestamp(), outcome = :outcome, counts = CAST(:counts AS jsonb), error = :error,
        snapshot = :snapshot, tuning = :tuning, timings = CAST(:timings AS jsonb), profile = :profile,
        only_recorded = :only_recorded
    WHERE id = :id""")

_COUNT_BRAKED_IN_A_ROW = text("""
    SELECT count(*) FILTER (WHERE all_so_far) FROM (
        SELECT bool_and(counts ? 'braked') OVER (ORDER BY id DESC) AS all_so_far FROM (
            SELECT id, coalesce(counts, '{}') AS counts FROM broker.agent_runs
            WHERE agent = :agent AND finished_at IS NOT NULL AND outcome IN ('done', 'over_budget', 'abandoned')
              AND started_at > coalesce(
                  (SELECT max(ended_at) FROM broker.agent_pauses WHERE agent = :agent), '-infinity')
            ORDER BY id DESC LIMIT :most) AS last
        ) AS run""")

_READ_LAST_RUNS = """
    SELECT DISTINCT ON ({by}) agent, part, holder, epoch, started_at, finished_at,
           CASE WHEN finished_at IS NULL
                 AND started_at + make_interval(secs => budget_s + :overdue_after_s) < clock_timestamp()
                THEN 'overdue' ELSE outcome END AS outcome,
           extract(epoch FROM clock_timestamp() - started_at)::float8 AS started_s_ago, counts, error
    FROM broker.agent_runs WHERE {chosen}
    ORDER BY {by}, started_at DESC, id DESC"""
_READ_LAST_OF_AGENTS = text(_READ_LAST_RUNS.format(by="agent", chosen="true"))
_READ_LAST_OF_PARTS = text(
    _READ_LAST_RUNS.format(
        by="agent, part", chosen="part IS NOT NULL AND started_at > clock_timestamp() - make_interval(days => 1)"
    )
)


def start(connection: Connection, agent: str, lease: Lease, budget_s: float | None = None) -> int:
    """Open the row of a cycle of an agent, close those that earlier epochs left open, and return its id.

    Rows of other parts of the same division stay open. ``budget_s`` is the time limit of the cycle in seconds; None: no
    limit.
    """
    part = led_by(lease.name)[1]
    values: dict[str, object] = {"agent": agent, "part": None if part.is_whole else str(part), "epoch": lease.epoch}
    connection.execute(_CLOSE_ORPHANS, values)
    values |= {"holder": lease.holder, "budget_s": None if budget_s == float("inf") else budget_s}
    return int(connection.execute(_INSERT_RUN, values).scalar_one())


def finish(connection: Connection, run_id: int, record: RunRecord) -> None:
    """Close the row of a cycle. Notes are stored with the counts, under ``notes``."""
    counts = {**record.counts, "notes": list(record.notes)} if record.notes else dict(record.counts)
    values = {
        "id": run_id,
        "outcome": record.outcome,
        "counts": json.dumps(counts),
        "error": None if record.error is None else record.error.replace("\0", "\ufffd")[:ERROR_LIMIT],
        "snapshot": record.snapshot,
        "tuning": record.tuning,
        "timings": json.dumps(dict(record.timings)),
        "profile": record.profile,
        "only_recorded": record.only_recorded,
    }
    connection.execute(_FINISH_RUN, values)


def braked_in_a_row(connection: Connection, agent: str, most: int) -> int:
    """The number of consecutive newest cycles of an agent that its brake held back; at most ``most`` are checked.

    Failed cycles, and those before the agent was last resumed, do not count.
    """
    return int(connection.execute(_COUNT_BRAKED_IN_A_ROW, {"agent": agent, "most": most}).scalar_one())


def last_runs(connection: Connection) -> dict[str, LastRun]:
    """The newest cycle of each agent that ever ran."""
    return {run.agent: run for run in _read(connection, _READ_LAST_OF_AGENTS)}


def last_runs_of_parts(connection: Connection) -> dict[str, LastRun]:
    """The newest cycle of each part of an agent in the last day, by the name of its lease."""
    return {f"{run.agent}{MARK}{run.part}": run for run in _read(connection, _READ_LAST_OF_PARTS)}


def _read(connection: Connection, query: TextClause) -> list[LastRun]:
    rows = mappings(connection, query, {"overdue_after_s": OVERDUE_AFTER_S})
    return [LastRun(**{**row, "counts": row["counts"] or {}}) for row in rows]
