"""Distributions from a mean and three quantiles: a lognormal of two pieces, or a mixture with two humps.

Source: the quantiles p10, p50, p90 determine the two pieces. The mean is used only as a check: if the mean of the two
pieces is off by more than 30 %, as with input that is sometimes slow, two lognormals are fitted to all four figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.calibration.profiles import PROBABILITIES, Quantiles
from broker.simulation.model.job_kinds import normal_quantile

#: The 90 % quantile of the standard normal distribution.
Z90 = 1.2815515655446004
#: Error of the mean above which a second hump is fitted, and the maximum weight of that hump.
MEAN_OFF, MOST_WEIGHT = 0.30, 0.5
#: Number of points from which quantiles of the mixture are interpolated.
_POINTS = 513
#: Spread of a piece whose two quantiles are equal, as rounded figures may be.
LEAST_S = 0.003


@dataclass(frozen=True)
class TwoPiece:
    """ln x = ln(median) + z s, with one s below the median and another above."""

    median: float
    s_below: float
    s_above: float

    def quantile(self, probability: Floats) -> Floats:
        """Return the quantiles at these probabilities."""
        z = normal_quantile(probability)
        return np.asarray(self.median * np.exp(np.where(z < 0, self.s_below, self.s_above) * z))

    @property
    def mean(self) -> float:
        """The expected value."""
        from scipy.special import ndtr

        sides = ((self.s_below, -1.0), (self.s_above, 1.0))
        return self.median * sum(math.exp(s * s / 2) * float(ndtr(sign * s)) for s, sign in sides)


@dataclass(frozen=True)
class TwoHumped:
    """Two lognormals of equal spread ``s``: a part ``weight`` of the draws is ``ratio`` times as large."""

    median: float
    s: float
    weight: float
    ratio: float

    def quantile(self, probability: Floats) -> Floats:
        """Return the quantiles at these probabilities, interpolated from the distribution function."""
        from scipy.special import ndtr

        low, high = sorted((0.0, math.log(self.ratio)))
        points = np.linspace(low - 6 * self.s, high + 6 * self.s, _POINTS)
        below = (1 - self.weight) * ndtr(points / self.s) + self.weight * ndtr((points - math.log(self.ratio)) / self.s)
        inside = np.concatenate([[True], np.diff(below) > 0])
        return np.asarray(self.median * np.exp(np.interp(probability, below[inside], points[inside])))

    @property
    def mean(self) -> float:
        """The expected value."""
        return self.median * math.exp(self.s**2 / 2) * (1 - self.weight + self.weight * self.ratio)


Fitted = TwoPiece | TwoHumped


def fit(quantiles: Quantiles) -> Fitted:
    """The distribution of a cell: two pieces, or two humps if the mean requires them and they fit better."""
    pieces = TwoPiece(
        quantiles.p50,
        max(LEAST_S, math.log(quantiles.p50 / quantiles.p10) / Z90),
        max(LEAST_S, math.log(quantiles.p90 / quantiles.p50) / Z90),
    )
    if abs(pieces.mean / quantiles.mean - 1.0) <= MEAN_OFF:
        return pieces
    humps = _two_humped(quantiles)
    return humps if _misfit(humps, quantiles) < min(0.05, _misfit(pieces, quantiles)) else pieces


def _two_humped(quantiles: Quantiles) -> TwoHumped:
    """Least squares on the logarithms of the three quantiles and the mean, from a few fixed starts."""
    from scipy.optimize import least_squares

    wanted = np.log([quantiles.p10, quantiles.p50, quantiles.p90, quantiles.mean])

    def off(x: Floats) -> Floats:
        humps = TwoHumped(math.exp(x[0]), math.exp(x[1]), float(x[2]), math.exp(x[3]))
        return np.asarray([*np.log(humps.quantile(np.array(PROBABILITIES))), math.log(humps.mean)] - wanted)

    low, high = [-np.inf, math.log(LEAST_S), 1e-4, -6.0], [np.inf, 1.5, MOST_WEIGHT, 6.0]
    spread = math.log(max(LEAST_S, math.log(quantiles.p90 / quantiles.p10) / (2 * Z90) / 2))
    starts = [[math.log(quantiles.p50), min(spread, 1.4), w, r] for w in (0.08, 0.3) for r in (-2.0, 2.0)]
    solutions = [least_squares(off, start, bounds=(low, high)) for start in starts]
    best = min(solutions, key=lambda solution: solution.cost).x
    return TwoHumped(math.exp(best[0]), math.exp(best[1]), float(best[2]), math.exp(best[3]))


def _misfit(fitted: Fitted, quantiles: Quantiles) -> float:
    """The largest difference of logarithms over the three quantiles and the mean."""
    own = [*fitted.quantile(np.array(PROBABILITIES)), fitted.mean]
    wanted = [quantiles.p10, quantiles.p50, quantiles.p90, quantiles.mean]
    return float(np.abs(np.log(own) - np.log(wanted)).max())
