"""Upper points of Student's t distribution, for any number of degrees of freedom above 0, whole or not.

The tail of t beyond ``x`` is half the regularised incomplete beta function I of v = df / (df + x^2) with the parameters
df / 2 and 1/2. That function is worked out by its continued fraction; the point is found by halving an interval of
ln v, so that very few degrees of freedom, where v underflows, are no special case.
Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.5.8 and 26.7.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from broker.domain.arrays import Floats

_FRACTION_TERMS = 300
_HALVINGS = 100
_TINY = 1e-300


def upper_point(probability: float, degrees: Floats) -> Floats:
    """(N,): ``x`` so that t with ``degrees`` (N,) degrees of freedom is below ``x`` with ``probability``.

    Relative error below 1e-8 up to 1e7 degrees. Infinite where the point is beyond what a float can hold; NaN for
    degrees that are not above 0.

    Raises:
        ValueError: the probability is not between one half and one.
    """
    if not 0.5 < probability < 1.0:
        raise ValueError(f"probability {probability} is not between 0.5 and 1")
    degrees = np.asarray(degrees, dtype=np.float64)
    known = np.isfinite(degrees) & (degrees > 0)
    half = np.where(known, degrees, 1.0) / 2.0
    target = 2.0 * (1.0 - probability)
    low = np.full(half.shape, -1.0)
    while np.any(above := _incomplete_beta(half, low) > target):
        low = np.where(above, 2.0 * low, low)
    high = np.zeros(half.shape)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        above = _incomplete_beta(half, middle) > target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    with np.errstate(over="ignore"):
        points = np.sqrt(2.0 * half * np.expm1(-(low + high) / 2.0))
    return np.where(known, points, np.nan)


def _incomplete_beta(half: Floats, log_v: Floats) -> Floats:
    """(N,): I_v(half, 1/2) for v = exp(log_v) below 1."""
    v, rest = np.exp(log_v), -np.expm1(log_v)
    log_beta = _each(math.lgamma, half) + math.lgamma(0.5) - _each(math.lgamma, half + 0.5)
    front = np.exp(half * log_v + 0.5 * np.log(rest) - log_beta)
    # each side converges fast only where its argument is small
    direct = v < (half + 1.0) / (half + 2.5)
    fraction = _fraction(np.where(direct, half, 0.5), np.where(direct, 0.5, half), np.where(direct, v, rest))
    return np.where(direct, front * fraction / half, 1.0 - front * fraction / 0.5)


def _fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """The continued fraction of the incomplete beta function, by the method of Lentz."""
    c = np.ones(x.shape)
    d = 1.0 / _kept_from_zero(1.0 - (a + b) * x / (a + 1.0))
    result = d.copy()
    for term in range(1, _FRACTION_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        step = np.ones(x.shape)
        for numerator in (even, odd):
            d = 1.0 / _kept_from_zero(1.0 + numerator * d)
            c = _kept_from_zero(1.0 + numerator / c)
            step = c * d
            result = result * step
        if np.all(np.abs(step - 1.0) < 1e-15):
            break
    return result


def _kept_from_zero(values: Floats) -> Floats:
    return np.where(np.abs(values) < _TINY, _TINY, values)


def _each(function: Callable[[float], float], values: Floats) -> Floats:
    return np.array([function(value) for value in values.ravel().tolist()]).reshape(values.shape)
