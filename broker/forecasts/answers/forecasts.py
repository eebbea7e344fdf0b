"""When work will start: the last forecasts of the agent, with their age; nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from broker.forecasts.model.subjects import QUEUE, TASK, TASK_KIND, apart, together
from broker.forecasts.model.wording import duration, start_sentence
from broker.forecasts.statements import forecast_looks
from broker.store.query_context import NothingFound, QueryContext, ResponseModel

#: Older forecasts are not shown: twice the period of the agent, plus a cycle.
STALE_S = 1500.0
MOST_LINES = 500
_QUANTILES = ("p10_s", "p50_s", "p90_s")
Kind = Literal["queue", "task", "task_kind"]


class ForecastLine(ResponseModel):
    """The start of the next work of a queue's line, a task, or a kind of task.

    Attributes:
        queue: queue of a line of jobs.
        share: share of a line of jobs.
        jeditaskid: number of a task.
        situation: situation of the work, such as whether jobs wait at the queue.
        made_at: time of the forecast; null if there is none.
        age_s: age of the forecast in seconds.
        p10_s: one in ten starts within this many seconds; null if unknown or later than ``horizon_s``.
        p50_s: half start within this many seconds.
        p90_s: nine in ten start within this many seconds.
        horizon_s: longest forecast in seconds; a later start is reported as later.
        basis: basis of the forecast: ``history``, similar past cases, or these with a roll-out of the decisions.
        n: number of similar past cases that have started.
        unknown: why the forecast is unknown; empty if it is known.
        sentence: the forecast in words.
    """

    kind: Kind
    subject: str
    queue: str | None = None
    share: str | None = None
    jeditaskid: int | None = None
    situation: str = ""
    made_at: datetime | None = None
    age_s: float | None = None
    p10_s: float | None = None
    p50_s: float | None = None
    p90_s: float | None = None
    horizon_s: float | None = None
    basis: Literal["history", "history and roll-out"] = "history"
    n: int = 0
    unknown: str = ""
    sentence: str


class ForecastLines(ResponseModel):
    """Forecasts of a kind, latest start first."""

    now: datetime
    kind: Kind
    lines: tuple[ForecastLine, ...]


def forecast_list(query: QueryContext, kind: Kind, most: int = MOST_LINES) -> ForecastLines:
    """The newest forecasts of a kind."""
    rows = forecast_looks.newest_of_kind(query.connection, kind, most)
    return ForecastLines(now=query.now, kind=kind, lines=tuple(_line(row, query.now) for row in rows))


def queue_forecasts(query: QueryContext, queue: str) -> ForecastLines:
    """When jobs that come to a queue now will start, by share.

    Raises:
        NothingFound: there is no forecast for the queue.
    """
    rows = forecast_looks.newest_of_queue(query.connection, together(queue, ""))
    if not rows:
        raise NothingFound("forecast of a queue", queue, "broker.forecasts", remedy="see broker forecast list")
    return ForecastLines(now=query.now, kind=QUEUE, lines=tuple(_line(row, query.now) for row in rows))


def task_start(query: QueryContext, jeditaskid: int) -> ForecastLine:
    """When the next job of a task starts; unknown without a forecast."""
    rows = forecast_looks.newest(query.connection, TASK, [str(jeditaskid)])
    if rows:
        return _line(rows[0], query.now)
    return _unknown(TASK, str(jeditaskid), "nothing was told of it: it runs, has ended, or is too new")


def kind_start(query: QueryContext, gshare: str, resource_type: str) -> ForecastLine:
    """When a task of a share and a resource type would start if it were submitted now."""
    name = together(gshare, resource_type)
    rows = forecast_looks.newest(query.connection, TASK_KIND, [name])
    return _line(rows[0], query.now) if rows else _unknown(TASK_KIND, name, "no such task came within a week")


def submitted_start(query: QueryContext, jeditaskid: int) -> ForecastLine | None:
    """When a task that was just submitted would start, by its kind; None without a forecast for that kind."""
    kind = forecast_looks.kind_of_task(query.connection, query.names, jeditaskid)
    line = None if kind is None else kind_start(query, *kind)
    return None if line is None or line.made_at is None else line


def waiting_start(query: QueryContext, jeditaskid: int) -> ForecastLine | None:
    """When the next job of a task starts; None without a forecast."""
    line = task_start(query, jeditaskid)
    return None if line.made_at is None else line


def _line(row: Mapping[str, Any], now: datetime) -> ForecastLine:
    made_at: datetime = row["made_at"]
    age_s = max(0.0, (now - made_at).total_seconds())
    fields: dict[str, Any] = {name: row[name] for name in ("kind", "subject", "situation", "horizon_s", "n", "unknown")}
    fields |= _about(row["kind"], row["subject"]) | {"made_at": made_at, "age_s": age_s}
    fields["basis"] = "history" if row["rollout_s"] is None else "history and roll-out"
    if age_s > STALE_S:
        fields["unknown"] = f"the last one is {duration(age_s)} old; see the agent forecasts"
    if fields["unknown"]:
        return ForecastLine(**fields, sentence=f"not known: {fields['unknown']}")
    quantiles = [float(row[name]) for name in _QUANTILES]
    for name, value in zip(_QUANTILES, quantiles, strict=True):
        fields[name] = value if math.isfinite(value) else None
    low_s, middle_s, high_s = quantiles
    sentence = start_sentence(low_s, middle_s, high_s, row["horizon_s"])
    return ForecastLine(**fields, sentence=f"{sentence}; told {duration(age_s)} ago")


def _unknown(kind: Kind, subject: str, why: str) -> ForecastLine:
    return ForecastLine(kind=kind, subject=subject, **_about(kind, subject), unknown=why, sentence=f"not known: {why}")


def _about(kind: str, subject: str) -> dict[str, Any]:
    if kind == TASK:
        return {"jeditaskid": int(subject)}
    if kind == QUEUE:
        queue, share = apart(subject)
        return {"queue": queue, "share": share}
    return {}
