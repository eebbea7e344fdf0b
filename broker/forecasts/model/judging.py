"""How good forecasts were: coverage, clustered by subject, and loss against the usual wait. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Texts
from broker.forecasts.model.forecasting import HORIZON_NAMES, LEVELS, horizon_of

ALL = "all"
#: Forecasts whose p90 lies within the horizon, and those whose p90 is later, which can be missed only below.
CLOSED, OPEN = "p90 known", "p90 later"
#: Share of starts that right forecasts of each cover.
_MEANT_CLOSED, _MEANT_OPEN = float(LEVELS[2] - LEVELS[0]), 1.0 - float(LEVELS[0])
#: Half-width of a 95 % interval in standard errors.
_Z = 1.96


@dataclass(frozen=True)
class JudgedForecasts:
    """Forecasts with their outcomes (length n).

    Attributes:
        subject: clusters the forecasts: several are made of one task, or of one line.
        quantiles_s: (n, 3) the quantiles; NaN where there were none, infinite for later than the horizon.
        usual_s: median of the waits that were seen before; NaN where there were none.
        waited_s: time to the start, or time known to have passed without one; at most the horizon.
        is_known: whether the subject started.
        horizon_s: of each forecast.
    """

    kind: Texts
    subject: Texts
    quantiles_s: Floats
    usual_s: Floats
    waited_s: Floats
    is_known: Bools
    horizon_s: Floats

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class Verdict:
    """How good a group of forecasts was.

    Attributes:
        told: number of forecasts; ``resolved`` ones started, or did not within the horizon; ``censored`` ones ended
            without a start, or are open.
        subjects: number of their tasks or lines.
        covered: share in the 80 % interval, of the resolved ones and those open longer than their upper edge; NaN
            without any.
        meant: share that right forecasts cover: 0.8 of those whose p90 lies within the horizon, 0.9 of the others,
            which can be missed only below.
        covered_between: 95 % interval of ``covered``, with subjects as clusters.
        below, above: shares below and above the 80 % interval.
        loss_part: pinball loss, mean of the three quantiles, over that of the usual wait in place of each.
        middle_loss_part: the same for p50 alone.
    """

    name: str
    told: int
    resolved: int
    censored: int
    subjects: int
    covered: float
    meant: float
    covered_between: tuple[float, float]
    below: float
    above: float
    loss_part: float
    middle_loss_part: float


def verdicts(forecasts: JudgedForecasts) -> list[Verdict]:
    """Verdicts on all forecasts, by kind, by horizon, and by whether p90 lies within it."""
    has_forecast = ~np.isnan(forecasts.quantiles_s[:, 1])
    return [_verdict(name, forecasts, rows) for name, rows in _groups(forecasts, has_forecast)]


def _groups(forecasts: JudgedForecasts, has_forecast: Bools) -> Iterator[tuple[str, Bools]]:
    yield ALL, has_forecast
    for kind in np.unique(forecasts.kind[has_forecast]):
        yield str(kind), has_forecast & (forecasts.kind == kind)
    horizon = horizon_of(forecasts.quantiles_s[:, 1])
    for place, name in enumerate(HORIZON_NAMES):
        yield name, has_forecast & (horizon == place)
    is_open = np.isinf(forecasts.quantiles_s[:, 2])
    yield CLOSED, has_forecast & ~is_open
    yield OPEN, has_forecast & is_open


def _verdict(name: str, forecasts: JudgedForecasts, rows: Bools) -> Verdict:
    waited, quantiles, known = forecasts.waited_s[rows], forecasts.quantiles_s[rows], forecasts.is_known[rows]
    known = known | (waited >= forecasts.horizon_s[rows])
    counted = known | (waited > quantiles[:, 2])
    below, above = known & (waited < np.minimum(quantiles[:, 0], forecasts.horizon_s[rows])), waited > quantiles[:, 2]
    is_in = (~below & ~above)[counted]
    clusters = forecasts.subject[rows][counted]
    part = _mean(is_in)
    half = _Z * clustered_error(is_in.astype(np.float64), clusters)
    loss, middle = _losses(
        forecasts,
        rows & (forecasts.is_known | (forecasts.waited_s >= forecasts.horizon_s)) & ~np.isnan(forecasts.usual_s),
    )
    return Verdict(
        name=name,
        told=int(rows.sum()),
        resolved=int(known.sum()),
        censored=int((~known).sum()),
        subjects=len(np.unique(clusters)),
        covered=part,
        meant=_meant(np.isinf(quantiles[:, 2])[counted]),
        covered_between=(max(0.0, part - half), min(1.0, part + half)),
        below=_mean(below[counted]),
        above=_mean(above[counted]),
        loss_part=loss,
        middle_loss_part=middle,
    )


def _mean(values: Bools) -> float:
    return float(values.mean()) if len(values) else math.nan


def _meant(is_open: Bools) -> float:
    """The share that right forecasts cover, given which have no upper edge; NaN without any."""
    return float(np.where(is_open, _MEANT_OPEN, _MEANT_CLOSED).mean()) if len(is_open) else math.nan


def clustered_error(values: Floats, clusters: Texts) -> float:
    """The standard error of a mean of values that depend on each other within clusters; NaN below two clusters."""
    names, places = np.unique(clusters, return_inverse=True)
    if len(names) < 2:
        return math.nan
    sums = np.bincount(places, weights=values - values.mean())
    return math.sqrt(len(names) / (len(names) - 1) * float((sums**2).sum())) / len(values)


def _losses(forecasts: JudgedForecasts, rows: Bools) -> tuple[float, float]:
    """The loss of the three quantiles, and of the middle, over that of the usual wait; later counts as the horizon."""
    if not rows.any():
        return math.nan, math.nan
    waited, usual = forecasts.waited_s[rows], np.minimum(forecasts.usual_s[rows], forecasts.horizon_s[rows])
    quantiles = np.minimum(forecasts.quantiles_s[rows], forecasts.horizon_s[rows, None])
    own = np.array([pinball(waited, quantiles[:, place], level).mean() for place, level in enumerate(LEVELS)])
    others = np.array([pinball(waited, usual, level).mean() for level in LEVELS])
    if not (others > 0).all():
        return math.nan, math.nan
    return float(own.sum() / others.sum()), float(own[1] / others[1])


def pinball(actual: Floats, forecast: Floats, level: float) -> Floats:
    """The pinball loss of forecasts of a quantile, in the unit of the values."""
    error = actual - forecast
    return np.maximum(level * error, (level - 1.0) * error)
