"""Weighted quantiles of waits of which some have not ended yet. Pure."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats


def censored_quantiles(values: Floats, is_known: Bools, weights: Floats, levels: Floats) -> Floats:
    """Quantiles of values of which some are only known to be larger than they are so far (weighted Kaplan-Meier).

    Leaving the unknown ones out would make every quantile too small: what waits long is known last.

    Args:
        values: (n,) what was seen, or so far.
        is_known: (n,) false where the value is only a lower bound.
        weights: (n,) positive.
        levels: (k,) between 0 and 1.

    Returns:
        (k,) values; infinite where the quantile lies above all that is known, NaN without any value.
    """
    if not len(values):
        return np.full(len(levels), np.nan)
    order = np.lexsort((~is_known, values))  # of equal ones the known first
    values, is_known, weights = values[order], is_known[order], weights[order]
    at_risk = np.cumsum(weights[::-1])[::-1]
    survival = np.cumprod(np.where(is_known, 1.0 - weights / at_risk, 1.0))
    reached = np.where(is_known, 1.0 - survival, -1.0)
    reached = np.maximum.accumulate(reached)
    places = np.searchsorted(reached, levels - 1e-12, side="left")
    return np.where(places < len(values), values[np.minimum(places, len(values) - 1)], np.inf)


def effective_number(weights: Floats) -> float:
    """How many equal observations weighted ones are worth (Kish); 0 without any."""
    total = float(weights.sum())
    return 0.0 if total <= 0 else total * total / float((weights * weights).sum())


def pinball(actual: Floats, forecast: Floats, level: float) -> Floats:
    """The pinball loss of forecasts of a quantile, in the unit of the values."""
    error = actual - forecast
    return np.maximum(level * error, (level - 1.0) * error)
