"""How good forecasts were: coverage, clustered by subject, and loss against the usual wait. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Texts
from broker.forecasts.model.forecasting import HORIZON_NAMES, LEVELS, horizon_of

ALL = "all"
#: Whose p90 lies within the horizon, and whose is later: the latter is missed below only.
CLOSED, OPEN = "p90 known", "p90 later"
#: Which part a right forecast of these covers.
_MEANT_CLOSED, _MEANT_OPEN = float(LEVELS[2] - LEVELS[0]), 1.0 - float(LEVELS[0])
#: Half-width of a 95 % interval in standard errors.
_Z = 1.96


@dataclass(frozen=True)
class JudgedForecasts:
    """Forecasts with what came of them (length n).

    Attributes:
        subject: by which they hang together: of one task, or one line, several are made.
        told_s: (n, 3) NaN where nothing was told, infinite for later than the horizon.
        usual_s: the middle of the waits that were seen before, NaN where there were none.
        waited_s: to the start, or as long as is known that nothing started; at most the horizon.
        is_known: whether it started.
        horizon_s: of each.
    """

    kind: Texts
    subject: Texts
    told_s: Floats
    usual_s: Floats
    waited_s: Floats
    is_known: Bools
    horizon_s: Floats

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class Verdict:
    """How good some forecasts were.

    Attributes:
        told: how many there are; ``resolved`` started, or did not within the horizon; ``censored`` ended without a
            start, or are open.
        subjects: of how many tasks or lines they are.
        covered: part of the resolved ones, and of those open longer than their upper edge, in the 80 % interval; NaN
            without any.
        meant: which part right forecasts cover: 0.8 of those whose p90 lies within the horizon, 0.9 of the others,
            which are missed below only.
        covered_between: its 95 % interval, subjects as clusters.
        below, above: parts outside of it.
        loss_part: pinball loss, mean of the three quantiles, over that of the usual wait told in place of each.
        middle_loss_part: the same of p50 alone.
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


def verdicts(found: JudgedForecasts) -> list[Verdict]:
    """Of all, by kind, by horizon, and by whether p90 lies within it."""
    told = ~np.isnan(found.told_s[:, 1])
    return [_verdict(name, found, rows) for name, rows in _groups(found, told)]


def _groups(found: JudgedForecasts, told: Bools) -> Iterator[tuple[str, Bools]]:
    yield ALL, told
    for kind in np.unique(found.kind[told]):
        yield str(kind), told & (found.kind == kind)
    horizon = horizon_of(found.told_s[:, 1])
    for place, name in enumerate(HORIZON_NAMES):
        yield name, told & (horizon == place)
    is_open = np.isinf(found.told_s[:, 2])
    yield CLOSED, told & ~is_open
    yield OPEN, told & is_open


def _verdict(name: str, found: JudgedForecasts, rows: Bools) -> Verdict:
    waited, told, known = found.waited_s[rows], found.told_s[rows], found.is_known[rows]
    known = known | (waited >= found.horizon_s[rows])
    counted = known | (waited > told[:, 2])
    below, above = known & (waited < np.minimum(told[:, 0], found.horizon_s[rows])), waited > told[:, 2]
    is_in = (~below & ~above)[counted]
    clusters = found.subject[rows][counted]
    part = _mean(is_in)
    half = _Z * clustered_error(is_in.astype(np.float64), clusters)
    loss, middle = _losses(
        found, rows & (found.is_known | (found.waited_s >= found.horizon_s)) & ~np.isnan(found.usual_s)
    )
    return Verdict(
        name=name,
        told=int(rows.sum()),
        resolved=int(known.sum()),
        censored=int((~known).sum()),
        subjects=len(np.unique(clusters)),
        covered=part,
        meant=_meant(np.isinf(told[:, 2])[counted]),
        covered_between=(max(0.0, part - half), min(1.0, part + half)),
        below=_mean(below[counted]),
        above=_mean(above[counted]),
        loss_part=loss,
        middle_loss_part=middle,
    )


def _mean(values: Bools) -> float:
    return float(values.mean()) if len(values) else math.nan


def _meant(is_open: Bools) -> float:
    """What right forecasts cover, of which these have no upper edge; NaN without any."""
    return float(np.where(is_open, _MEANT_OPEN, _MEANT_CLOSED).mean()) if len(is_open) else math.nan


def clustered_error(values: Floats, clusters: Texts) -> float:
    """The standard error of a mean of values of which those of a cluster hang together; NaN below two clusters."""
    names, places = np.unique(clusters, return_inverse=True)
    if len(names) < 2:
        return math.nan
    sums = np.bincount(places, weights=values - values.mean())
    return math.sqrt(len(names) / (len(names) - 1) * float((sums**2).sum())) / len(values)


def _losses(found: JudgedForecasts, rows: Bools) -> tuple[float, float]:
    """The loss of the three quantiles, and of the middle, over that of the usual wait; what is later is the horizon."""
    if not rows.any():
        return math.nan, math.nan
    waited, usual = found.waited_s[rows], np.minimum(found.usual_s[rows], found.horizon_s[rows])
    told = np.minimum(found.told_s[rows], found.horizon_s[rows, None])
    own = np.array([pinball(waited, told[:, at], level).mean() for at, level in enumerate(LEVELS)])
    others = np.array([pinball(waited, usual, level).mean() for level in LEVELS])
    if not (others > 0).all():
        return math.nan, math.nan
    return float(own.sum() / others.sum()), float(own[1] / others[1])


def pinball(actual: Floats, forecast: Floats, level: float) -> Floats:
    """The pinball loss of forecasts of a quantile, in the unit of the values."""
    error = actual - forecast
    return np.maximum(level * error, (level - 1.0) * error)
