"""The cost of cycles compared with the best placement: rows of ``broker.decision_quality``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from broker.store.connection.plain_rows import mappings

State = Literal["measured", "nothing", "time_limit", "unreadable", "beside"]
Placer = Literal["ours", "panda"]
_COLUMNS = """brokerage, decided_at, tuning, vo, placer, snapshot, measured_at, measure_s, state, jobs, cost_hs06h,
    best_hs06h, left_hs06h, gb, best_gb, input_gb, details"""
_WRITE = sa.text(f"""
    INSERT INTO broker.decision_quality ({_COLUMNS})
    VALUES (:brokerage, :decided_at, :tuning, :vo, :placer, :snapshot, :measured_at, :measure_s, :state, :jobs,
        :cost_hs06h, :best_hs06h, :left_hs06h, :gb, :best_gb, :input_gb, CAST(:details AS jsonb))
    ON CONFLICT DO NOTHING""")  # noqa: S608 - constants
_READ = sa.text(f"""
    SELECT {_COLUMNS} FROM broker.decision_quality
    WHERE decided_at > :since AND decided_at <= :until
      AND (CAST(:brokerage AS text) IS NULL OR brokerage = :brokerage)
    ORDER BY decided_at, brokerage, tuning, vo, placer""")  # noqa: S608 - constants
_MEASURED = sa.text("""
    SELECT brokerage, decided_at, tuning FROM broker.decision_quality
    WHERE decided_at >= :since AND placer = :placer""")
_ONLY_RECORDED = sa.text("SELECT id FROM broker.agent_runs WHERE id = ANY(:runs) AND only_recorded")
_ENDED_RUNS = sa.text("SELECT id FROM broker.agent_runs WHERE id = ANY(:runs) AND finished_at IS NOT NULL")


@dataclass(frozen=True)
class QualityRow:
    """One cycle of one VO.

    Attributes:
        brokerage, decided_at, tuning: identify the cycle; ``vo`` is empty for none.
        placer: whose placement was measured.
        snapshot: snapshot on which it was decided.
        state: whether it could be measured; ``beside``: the details price PanDA's placement next to ours.
        jobs: jobs that had to be placed.
        cost_hs06h: cost of the placement; ``best_hs06h``: of the best one; ``left_hs06h``: its part for unplaced jobs.
        gb: GB moved; ``best_gb``: by the best placement; ``input_gb``: of all input.
        details: parts of the costs, shares, queues, rules, solver.
    """

    brokerage: str
    decided_at: datetime
    tuning: int
    vo: str
    placer: Placer
    snapshot: str
    measured_at: datetime
    measure_s: float
    state: State
    jobs: int = 0
    cost_hs06h: float = 0.0
    best_hs06h: float = 0.0
    left_hs06h: float = 0.0
    gb: float = 0.0
    best_gb: float = 0.0
    input_gb: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)


def write(connection: sa.Connection, rows: Iterable[QualityRow]) -> None:
    """Write the rows; a cycle that was already measured keeps its row."""
    values = [{**vars(row), "details": json.dumps(row.details)} for row in rows]
    if values:
        connection.execute(_WRITE, values)


def read(connection: sa.Connection, since: datetime, until: datetime, brokerage: str | None = None) -> list[QualityRow]:
    """The rows of cycles that decided after ``since`` and up to ``until``, oldest first."""
    values = {"since": since, "until": until, "brokerage": brokerage}
    return [QualityRow(**row) for row in mappings(connection, _READ, values)]


def measured(connection: sa.Connection, since: datetime, placer: Placer = "ours") -> set[tuple[str, datetime, int]]:
    """Brokerage, instant and tuning of the cycles from ``since`` on with a row of a placer."""
    parameters = {"since": since, "placer": placer}
    return {(row[0], row[1], row[2]) for row in connection.execute(_MEASURED, parameters)}


def only_recorded(connection: sa.Connection, runs: Iterable[int]) -> set[int]:
    """The runs that wrote nothing but their decisions."""
    return set(connection.execute(_ONLY_RECORDED, {"runs": sorted(runs)}).scalars())


def ended_runs(connection: sa.Connection, runs: Iterable[int]) -> set[int]:
    """The runs that have ended."""
    return set(connection.execute(_ENDED_RUNS, {"runs": sorted(runs)}).scalars())
