"""Outcomes of forecasts: started, ended without a start, not started within the horizon, or still open. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Kind = Literal["queue", "task", "task_kind"]
Outcome = Literal["started", "gone", "late"]
#: A forecast is not judged if no job or task came within this time by which to judge it.
NOBODY_CAME_S = 3600.0


@dataclass(frozen=True)
class OpenForecast:
    """A forecast that is not judged yet.

    Attributes:
        tracked: the job or task by which it is judged; None if none has come yet.
    """

    id: int
    kind: Kind
    subject: str
    made_at: datetime
    tracked: int | None


@dataclass(frozen=True)
class TrackedWork:
    """What is known about the job or task by which a forecast is judged.

    Attributes:
        began_at: start of its wait: when it came, or when the forecast was made.
        started_at: None before its start.
        is_there: whether it may still start.
    """

    began_at: datetime
    started_at: datetime | None
    is_there: bool


@dataclass(frozen=True)
class ForecastJudgement:
    """The judgement of a forecast.

    Attributes:
        outcome: None while the forecast is open.
        waited_s: wait until the start, or so far.
        is_kept: false if nothing came by which to judge it.
    """

    id: int
    tracked: int | None
    outcome: Outcome | None
    waited_s: float
    is_kept: bool = True


def judge(
    one: OpenForecast, tracked: int | None, seen: TrackedWork | None, now: datetime, horizon_s: float
) -> ForecastJudgement:
    """Judge an open forecast at ``now``.

    Args:
        one: the forecast.
        tracked: the job or task by which it is judged; None if none has come yet.
        seen: what is known about that job or task; None if it is gone.
        now: aware.
        horizon_s: wait from which it is late.
    """
    if tracked is None:
        nobody_came = (now - one.made_at).total_seconds() >= NOBODY_CAME_S
        return ForecastJudgement(one.id, None, None, 0.0, is_kept=not nobody_came)
    if seen is None:
        return ForecastJudgement(one.id, tracked, "gone", 0.0)
    ended = now if seen.started_at is None else seen.started_at
    waited_s = max(0.0, (ended - seen.began_at).total_seconds())
    if seen.started_at is not None:
        return ForecastJudgement(
            one.id, tracked, "started" if waited_s <= horizon_s else "late", min(waited_s, horizon_s)
        )
    if waited_s >= horizon_s:
        return ForecastJudgement(one.id, tracked, "late", horizon_s)
    return ForecastJudgement(one.id, tracked, None if seen.is_there else "gone", waited_s)
