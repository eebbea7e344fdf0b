"""How good forecasts were: coverage of the interval from p10 to p90, and loss against the usual wait."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from broker.forecasts.model.judging import Verdict, verdicts
from broker.forecasts.model.subjects import together
from broker.forecasts.statements import forecast_looks
from broker.store.query_context import QueryContext, ResponseModel


class ForecastVerdict(ResponseModel):
    """The accuracy of some forecasts.

    Attributes:
        name: ``all``, a kind, a horizon by p50, ``p90 known`` (within the horizon) or ``p90 later``.
        told: number of forecasts.
        resolved: forecasts whose work started, or did not within the horizon.
        censored: forecasts whose work ended without a start, or is open.
        subjects: number of tasks, lines and kinds of the forecasts.
        covered_percent: per cent of the resolved ones within p10 and p90; null if there are none.
        meant_percent: per cent that right forecasts cover: 80 where p90 is known, 90 where it is beyond the horizon. A
            deviation of at most 2 is acceptable.
        low_percent: lower end of the 95 % interval in per cent, with the forecasts of a subject as one cluster.
        high_percent: upper end of the interval in per cent.
        below_percent: per cent that started before p10.
        above_percent: per cent that started after p90.
        loss_part: pinball loss relative to that of the queue's or kind's previous median wait, mean of the three;
            target: 0.7.
        middle_loss_part: the same for p50 alone.
    """

    name: str
    told: int
    resolved: int
    censored: int
    subjects: int
    covered_percent: float | None
    meant_percent: float | None
    low_percent: float | None
    high_percent: float | None
    below_percent: float | None
    above_percent: float | None
    loss_part: float | None
    middle_loss_part: float | None


class ForecastCheck(ResponseModel):
    """The accuracy of the forecasts made between two instants.

    Attributes:
        verdicts: verdicts on all, by kind, by horizon, and by whether p90 is known.
    """

    now: datetime
    since: datetime
    queue: str | None
    verdicts: tuple[ForecastVerdict, ...]


def forecast_check(query: QueryContext, *, days: float = 14.0, queue: str | None = None) -> ForecastCheck:
    """How good the forecasts of the last days were, for all queues or for one."""
    since = query.now - timedelta(days=days)
    prefix = None if queue is None else together(queue, "")
    forecasts = forecast_looks.judged(query.connection, since, query.now, prefix)
    lines = tuple(_line(verdict) for verdict in verdicts(forecasts) if verdict.told)
    return ForecastCheck(now=query.now, since=since, queue=queue, verdicts=lines)


def _line(verdict: Verdict) -> ForecastVerdict:
    low, high = verdict.covered_between
    return ForecastVerdict(
        **{name: getattr(verdict, name) for name in ("name", "told", "resolved", "censored", "subjects")},
        covered_percent=_percent(verdict.covered),
        meant_percent=_percent(verdict.meant),
        low_percent=_percent(low),
        high_percent=_percent(high),
        below_percent=_percent(verdict.below),
        above_percent=_percent(verdict.above),
        loss_part=_part(verdict.loss_part),
        middle_loss_part=_part(verdict.middle_loss_part),
    )


def _percent(part: float) -> float | None:
    return None if math.isnan(part) else round(100.0 * part, 1)


def _part(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)
