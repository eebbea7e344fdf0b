"""The rows of forecasts and their outcomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from broker.domain.arrays import Floats, texts
from broker.forecasts.model.forecasting import CLUES, Past
from broker.forecasts.model.resolving import ForecastJudgement, OpenForecast
from broker.forecasts.model.subjects import ForecastSubject

#: How many of the newest forecasts correct the next ones.
MOST_PAST = 20_000
_COLUMNS = (
    "kind", "subject", "cell", "situation", "made_at", "p10_s", "p50_s", "p90_s", "horizon_s", *CLUES, "n",
    "usual_s", "unknown", "status", "status_since", "is_judged",
)  # fmt: skip
_PAST = """
    SELECT * FROM (
        SELECT kind, cell, situation, made_at, coalesce(waited_s, 0) AS waited_s, outcome, p10_s, p50_s, p90_s, id,
            ahead_s, backlog_s, recent_s, age_s, rollout_s
        FROM broker.forecasts WHERE is_judged AND made_at >= :since AND made_at < :now
        ORDER BY made_at DESC, id DESC LIMIT :most) AS newest
    ORDER BY made_at, id"""
_NEWEST = """
    SELECT f.kind, f.subject, f.status, f.status_since,
        (SELECT max(made_at) FROM broker.forecasts AS j
         WHERE j.kind = f.kind AND j.subject = f.subject AND j.is_judged) AS judged_at
    FROM broker.forecasts AS f WHERE f.is_newest"""
_INSERT = """
    INSERT INTO broker.forecasts ({columns}, is_newest) VALUES ({values}, true)"""
_OPEN = """
    SELECT id, kind, subject, made_at, tracked FROM broker.forecasts
    WHERE is_judged AND outcome IS NULL ORDER BY made_at, id LIMIT :most"""
_NOTE = """
    UPDATE broker.forecasts SET tracked = :tracked, outcome = :outcome, waited_s = :waited_s,
        is_judged = :is_kept, resolved_at = CASE WHEN CAST(:outcome AS text) IS NULL THEN NULL
            ELSE CAST(:now AS timestamptz) END
    WHERE id = :id"""


@dataclass(frozen=True)
class ForecastRow:
    """A forecast as it is stored.

    Attributes:
        quantiles_s: p10, p50 and p90; infinite for later than the horizon, None if unknown.
        usual_s: median of the waits that were seen before in its cell; None without any.
        status_since: since when the queue has its status.
        is_judged: whether it is kept, and judged by its outcome.
    """

    forecast_subject: ForecastSubject
    made_at: datetime
    quantiles_s: tuple[float, ...] | None
    horizon_s: float
    n: int
    usual_s: float | None
    unknown: str
    status_since: datetime
    is_judged: bool

    def row(self) -> dict[str, Any]:
        """The columns of the row."""
        row = vars(self) | vars(self.forecast_subject)
        row |= dict(zip(("p10_s", "p50_s", "p90_s"), self.quantiles_s or (None, None, None), strict=True))
        clues = {name: self.forecast_subject.clues.get(name, math.nan) for name in CLUES}
        row |= {name: None if math.isnan(value) else value for name, value in clues.items()}
        return {name: row[name] for name in _COLUMNS}


@dataclass(frozen=True)
class LastForecast:
    """The last forecast of a subject: its status then and since when, and when its last judged forecast was made."""

    status: str
    status_since: datetime
    judged_at: datetime | None


def read_past(connection: sa.Connection, since: datetime, now: datetime, most: int = MOST_PAST) -> Past:
    """The newest ``most`` judged forecasts made between two instants (aware), in order."""
    arguments = {"since": since, "now": now, "most": most}
    rows = connection.execute(sa.text(_PAST), arguments).all()
    return Past(
        kind=texts(row.kind for row in rows),
        cell=texts(row.cell for row in rows),
        situation=texts(row.situation for row in rows),
        clues=_floats([[getattr(row, name) for name in CLUES] for row in rows], len(CLUES)),
        made_s=np.array([row.made_at.timestamp() for row in rows], dtype=np.float64),
        waited_s=np.array([row.waited_s for row in rows], dtype=np.float64),
        is_known=np.array([row.outcome == "started" for row in rows], dtype=np.bool_),
        quantiles_s=_floats([[row.p10_s, row.p50_s, row.p90_s] for row in rows], 3),
    )


def _floats(values: Sequence[Any], width: int) -> Floats:
    """Rows of ``width`` values, NaN where there is none."""
    return np.array(values, dtype=np.float64).reshape(len(values), width)


def last_forecasts(connection: sa.Connection) -> dict[tuple[str, str], LastForecast]:
    """The last forecasts, by kind and subject."""
    rows = connection.execute(sa.text(_NEWEST))
    return {(row.kind, row.subject): LastForecast(row.status, row.status_since, row.judged_at) for row in rows}


def write_forecasts(connection: sa.Connection, forecasts: Sequence[ForecastRow]) -> None:
    """Write the forecasts of a cycle in place of the newest; those that are judged stay."""
    connection.execute(sa.text("DELETE FROM broker.forecasts WHERE is_newest AND NOT is_judged"))
    connection.execute(sa.text("UPDATE broker.forecasts SET is_newest = false WHERE is_newest"))
    if forecasts:
        values = ", ".join(f":{name}" for name in _COLUMNS)
        connection.execute(
            sa.text(_INSERT.format(columns=", ".join(_COLUMNS), values=values)), [one.row() for one in forecasts]
        )


def open_forecasts(connection: sa.Connection, most: int) -> list[OpenForecast]:
    """The forecasts that are not judged yet, the oldest first."""
    rows = connection.execute(sa.text(_OPEN), {"most": most})
    return [OpenForecast(row.id, row.kind, row.subject, row.made_at, row.tracked) for row in rows]


def note_judged(connection: sa.Connection, judged: Sequence[ForecastJudgement], now: datetime) -> None:
    """Record the outcomes of forecasts; those that cannot have one are no longer judged."""
    if judged:
        connection.execute(sa.text(_NOTE), [asdict(one) | {"now": now} for one in judged])
