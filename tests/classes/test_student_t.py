"""The upper points of Student's t distribution against tables, closed forms, and the integral of the density."""

from __future__ import annotations

import math

import numpy as np
import pytest

from broker.classes.site_classes import upper_point

# Published values of t at 0.95 by degrees of freedom.
TABLE = {
    1: 6.3137515147,
    2: 2.9199855804,
    3: 2.3533634348,
    4: 2.1318467863,
    5: 2.0150483733,
    10: 1.8124611228,
    30: 1.6972608866,
    120: 1.6576508994,
    1000: 1.6463788173,
}


def test_points_match_the_tables() -> None:
    points = upper_point(0.95, np.array(list(TABLE), dtype=np.float64))
    assert points == pytest.approx(list(TABLE.values()), rel=1e-9)


@pytest.mark.parametrize("probability", [0.6, 0.9, 0.975, 0.9995])
def test_points_match_the_closed_forms(probability: float) -> None:
    of_one_degree, of_two_degrees = upper_point(probability, np.array([1.0, 2.0]))
    off = 2 * probability - 1
    assert of_one_degree == pytest.approx(math.tan(math.pi * off / 2), rel=1e-9)
    assert of_two_degrees == pytest.approx(off * math.sqrt(2 / (1 - off**2)), rel=1e-9)


def probability_above(point: float, degrees: float) -> float:
    """Integrate the density above ``point`` by the midpoint rule over y = v^(degrees / 2)."""
    half, steps = degrees / 2, 20_000
    end = (degrees / (degrees + point**2)) ** half
    middles = (np.arange(steps) + 0.5) * end / steps
    beta = math.exp(math.lgamma(half) + math.lgamma(0.5) - math.lgamma(half + 0.5))
    return float(np.mean((1 - middles ** (1 / half)) ** -0.5)) * end / (2 * half * beta)


@pytest.mark.parametrize("degrees", [0.05, 0.3, 0.7, 1.5, 7.25])
def test_fractional_degrees_of_freedom(degrees: float) -> None:
    (point,) = upper_point(0.95, np.array([degrees]))
    assert probability_above(point, degrees) == pytest.approx(0.05, rel=1e-6)


def test_extreme_degrees_of_freedom() -> None:
    points = upper_point(0.95, np.array([1e7, 1e-3, 1e-30, 0.0, -1.0, math.nan]))
    assert points[0] == pytest.approx(1.6448536270, rel=1e-6)  # the normal distribution
    assert np.isposinf(points[1:3]).all()
    assert np.isnan(points[3:]).all()
    assert len(upper_point(0.95, np.zeros(0))) == 0


@pytest.mark.parametrize("probability", [0.5, 1.0, 0.0, math.nan])
def test_only_probabilities_of_the_upper_half_are_accepted(probability: float) -> None:
    with pytest.raises(ValueError, match="between"):
        upper_point(probability, np.ones(1))
