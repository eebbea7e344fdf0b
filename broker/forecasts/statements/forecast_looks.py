"""Look-ups of forecasts: the newest of a subject, and the judged ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from broker.domain.arrays import texts
from broker.forecasts.model.judging import JudgedForecasts
from broker.store.connection.tables import Names

_SHOWN = """
    SELECT kind, subject, cell, situation, made_at, p10_s, p50_s, p90_s, horizon_s, rollout_s, n, unknown
    FROM broker.forecasts WHERE is_newest AND kind = :kind"""
_ONE = f"{_SHOWN} AND subject = ANY(:subjects) ORDER BY subject"
_OF_QUEUE = f"{_SHOWN} AND starts_with(subject, :queue) ORDER BY subject"
_ALL = f"{_SHOWN} ORDER BY p50_s DESC NULLS LAST, subject LIMIT :most"
_JUDGED = """
    SELECT kind, subject, p10_s, p50_s, p90_s, usual_s, horizon_s, outcome, coalesce(waited_s, 0) AS waited_s
    FROM broker.forecasts
    WHERE is_judged AND made_at >= :since AND made_at < :until AND p50_s IS NOT NULL
      AND (CAST(:queue AS text) IS NULL OR (kind = 'queue' AND starts_with(subject, :queue)))
    ORDER BY made_at, id"""
#: The row of a submitted task, which tells its kind.
_TASK = """
    SELECT coalesce(gshare, '') AS gshare, coalesce(resource_type, '') AS resource_type FROM {panda}.jedi_tasks
    WHERE jeditaskid = :task"""


def kind_of_task(connection: sa.Connection, names: Names, jeditaskid: int) -> tuple[str, str] | None:
    """Share and resource type of a task; None where there is no such task."""
    row = connection.execute(sa.text(names.sql(_TASK)), {"task": jeditaskid}).one_or_none()
    return None if row is None else (row.gshare, row.resource_type)


def newest(connection: sa.Connection, kind: str, subjects: Sequence[str]) -> list[dict[str, Any]]:
    """The newest forecasts of some subjects; subjects without any are left out."""
    rows = connection.execute(sa.text(_ONE), {"kind": kind, "subjects": list(subjects)})
    return [dict(row) for row in rows.mappings()]


def newest_of_queue(connection: sa.Connection, prefix: str) -> list[dict[str, Any]]:
    """The newest forecasts of the lines at a queue; ``prefix``: how their names begin."""
    rows = connection.execute(sa.text(_OF_QUEUE), {"kind": "queue", "queue": prefix})
    return [dict(row) for row in rows.mappings()]


def newest_of_kind(connection: sa.Connection, kind: str, most: int) -> list[dict[str, Any]]:
    """The newest forecasts of a kind, those that start last first."""
    rows = connection.execute(sa.text(_ALL), {"kind": kind, "most": most})
    return [dict(row) for row in rows.mappings()]


def judged(connection: sa.Connection, since: datetime, until: datetime, queue: str | None) -> JudgedForecasts:
    """The forecasts made between two instants (aware) with their outcomes, for all or for the lines of a queue."""
    arguments = {"since": since, "until": until, "queue": queue}
    rows = connection.execute(sa.text(_JUDGED), arguments).all()
    return JudgedForecasts(
        kind=texts(row.kind for row in rows),
        subject=texts(row.subject for row in rows),
        quantiles_s=np.array([[row.p10_s, row.p50_s, row.p90_s] for row in rows], dtype=np.float64).reshape(-1, 3),
        usual_s=np.array([row.usual_s for row in rows], dtype=np.float64),
        waited_s=np.array([row.waited_s for row in rows], dtype=np.float64),
        is_known=np.array([row.outcome == "started" for row in rows], dtype=np.bool_),
        horizon_s=np.array([row.horizon_s for row in rows], dtype=np.float64),
    )
