"""How good forecasts were: coverage of the interval from p10 to p90, and loss against the usual wait."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from broker.forecasts.model.judging import Verdict, verdicts
from broker.forecasts.model.subjects import together
from broker.forecasts.statements import forecast_looks
from broker.store.query_context import Answer, Asking


class ForecastVerdict(Answer):
    """How good some forecasts were.

    Attributes:
        name: ``all``, a kind, a horizon by p50, ``p90 known`` (within the horizon) or ``p90 later``.
        told: how many.
        resolved: those that started, or did not within the horizon.
        censored: those that ended without a start, or are open.
        subjects: tasks, lines and kinds of which they are.
        covered_percent: per cent of the resolved ones within p10 and p90. Null without any.
        meant_percent: per cent that right forecasts cover: 80 where p90 is known, 90 where it is beyond the horizon.
            Wanted are at most 2 more or less.
        low_percent: lower end of its 95 % interval in per cent, with the forecasts of a subject as one cluster.
        high_percent: upper end of it in per cent.
        below_percent: per cent that started before p10.
        above_percent: per cent that started after p90.
        loss_part: pinball loss over that of the queue's or kind's middle wait before, mean of the three; wanted is 0.7.
        middle_loss_part: the same of p50 alone.
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


class ForecastCheck(Answer):
    """What came of the forecasts that were made between two instants.

    Attributes:
        verdicts: of all, by kind, by horizon, and by whether p90 is known.
    """

    now: datetime
    since: datetime
    queue: str | None
    verdicts: tuple[ForecastVerdict, ...]


def forecast_check(asking: Asking, *, days: float = 14.0, queue: str | None = None) -> ForecastCheck:
    """How good the forecasts of the last days were, of all or of a queue."""
    since = asking.now - timedelta(days=days)
    prefix = None if queue is None else together(queue, "")
    found = forecast_looks.judged(asking.connection, since, asking.now, prefix)
    told = tuple(_shown(one) for one in verdicts(found) if one.told)
    return ForecastCheck(now=asking.now, since=since, queue=queue, verdicts=told)


def _shown(one: Verdict) -> ForecastVerdict:
    low, high = one.covered_between
    return ForecastVerdict(
        **{name: getattr(one, name) for name in ("name", "told", "resolved", "censored", "subjects")},
        covered_percent=_percent(one.covered),
        meant_percent=_percent(one.meant),
        low_percent=_percent(low),
        high_percent=_percent(high),
        below_percent=_percent(one.below),
        above_percent=_percent(one.above),
        loss_part=_part(one.loss_part),
        middle_loss_part=_part(one.middle_loss_part),
    )


def _percent(part: float) -> float | None:
    return None if math.isnan(part) else round(100.0 * part, 1)


def _part(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)
