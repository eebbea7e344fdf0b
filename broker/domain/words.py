"""Values with their units, durations and counted things, in words."""

from __future__ import annotations

import math
from datetime import datetime

from broker.domain.instants import length

Figure = float | int | str | bool | None
"""A value that a rule has compared."""
_PLURALS = {"nucleus": "nuclei"}
_KIB = 1024.0
_PREFIXES = ("B", "kB", "MB", "GB", "TB", "PB")


def number(value: Figure) -> str:
    """A value in readable form: thousands separators, few decimal places, ``nothing`` for None."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "no limit" if value > 0 else str(value)
        return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"
    return str(value)


def with_unit(value: Figure, unit: str) -> str:
    """A value with its unit: seconds as hours or days, bytes in suitable multiples."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return number(value)
    if unit == "s":
        return length(float(value))
    if unit == "B":
        return size(float(value))
    return number(value) if unit in ("", "-") else f"{number(value)} {unit}"


def size(value: float) -> str:
    """Bytes in binary multiples, as PanDA counts them."""
    for prefix in _PREFIXES[:-1]:
        if abs(value) < _KIB:
            return f"{value:.3g} {prefix}"
        value /= _KIB
    return f"{value:.3g} {_PREFIXES[-1]}"


def several(one: str) -> str:
    """The plural of a counted thing: ``queues``, ``nuclei``."""
    return _PLURALS.get(one, f"{one}s")


def many(count: int, one: str) -> str:
    """``1 queue``, ``3 queues``."""
    return f"{count:,} {one if count == 1 else several(one)}"


def moment(at: datetime) -> str:
    """``05:20 UTC``; with the date where a list of events needs it, use :func:`day_and_moment`."""
    return f"{at:%H:%M} UTC"


def day_and_moment(at: datetime) -> str:
    """Format a time in UTC, such as ``2026-11-22 05:20 UTC``."""
    return f"{at:%Y-%m-%d %H:%M} UTC"
