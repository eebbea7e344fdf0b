"""Forecasts of starts as phrases and sentences, for every interface. Pure."""

from __future__ import annotations

import math


def start_sentence(low_s: float, middle_s: float, high_s: float, horizon_s: float) -> str:
    """Put the quantiles of a start into words; infinite stands for later than the horizon.

    >>> start_sentence(60.0, 754.0, math.inf, 172_800.0)
    'starts in about 13 min; with 90 % not within 60 s, perhaps in more than 48 h from then'
    >>> start_sentence(60.0, math.inf, math.inf, 172_800.0)
    'starts in more than 48 h; with 90 % not within 60 s from then'
    """
    if math.isinf(low_s):
        return f"starts in more than {duration(horizon_s)}"
    if math.isinf(middle_s):
        return f"starts in more than {duration(horizon_s)}; with 90 % not within {duration(low_s)} from then"
    middle = f"starts in about {duration(middle_s)}"
    if math.isinf(high_s):
        return f"{middle}; with 90 % not within {duration(low_s)}, perhaps in more than {duration(horizon_s)} from then"
    return f"{middle}; with 80 % between {duration(low_s)} and {duration(high_s)} from then"


def duration(seconds: float) -> str:
    """A duration as people say it.

    >>> [duration(value) for value in (40.4, 754.0, 12_600.0, 400_000.0)]
    ['40 s', '13 min', '3.5 h', '4.6 d']
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 259_200:
        return f"{seconds / 3600:.3g} h"
    return f"{seconds / 86_400:.1f} d"
