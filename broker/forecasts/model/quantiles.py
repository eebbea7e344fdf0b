"""What weighted cases are worth, and the loss of quantiles. Pure."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Floats


def effective_number(weights: Floats) -> float:
    """How many equal observations weighted ones are worth (Kish); 0 without any."""
    total = float(weights.sum())
    return 0.0 if total <= 0 else total * total / float((weights * weights).sum())


def pinball(actual: Floats, forecast: Floats, level: float) -> Floats:
    """The pinball loss of forecasts of a quantile, in the unit of the values."""
    error = actual - forecast
    return np.maximum(level * error, (level - 1.0) * error)
