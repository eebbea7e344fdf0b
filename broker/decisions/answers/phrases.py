"""Values with their units, durations and counted things, in words."""

from __future__ import annotations

import math
from datetime import datetime

from broker.decisions.answers.decision_model import Figure
from broker.domain.decisions import Observation
from broker.domain.instants import length
from broker.engine.analysis.throttle import Throttle

# a value may equal the limit, unless stated otherwise
_LIMITS = {"<=": "", "<": "below ", ">=": "at least ", ">": "above "}
_OPERATORS = {
    "==": "equal to",
    "!=": "other than",
    "in": "one of",
    "not in": "none of",
    "matches": "matching",
}
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


def comparison(seen: Observation) -> str:
    """``requires 288,900 MB, limit 48,000 MB (queue.maxrss)``; unordered values ``paused, must be online (...)``.

    If the limit is a field of the queue, the value is what the work requires; otherwise it is the observed value. What
    rejected the parts of a candidate is added: ``0 queues, limit above 0 queues (rule), rejected cpucore 2``.
    """
    rejected = seen.inputs.get("rejected")
    return _comparison(seen) if not rejected else f"{_comparison(seen)}, rejected: {rejected}"


def _comparison(seen: Observation) -> str:
    value, limit = with_unit(seen.value, seen.unit), with_unit(seen.limit, seen.unit)
    if seen.operator not in _LIMITS:
        return f"{value}, must be {_OPERATORS.get(seen.operator, seen.operator)} {limit} ({seen.key})"
    requires = "requires " if seen.key.startswith("queue.") else ""
    return f"{requires}{value}, limit {_LIMITS[seen.operator]}{limit} ({seen.key})"


_THROTTLES = {
    "running_jobs": "jobs that run",
    "queued_jobs": "jobs that wait",
    "running_cores": "cores in use",
    "queued_cores": "cores waited for",
    "share_usage": "usage of the share",
    "global_quota": "disk space used",
    "near_global_quota": "disk space used",
}


def throttle(state: Throttle) -> str:
    """``225 jobs that run, cap 150 (CAP_RUNNING_USER_JOBS)``."""
    if state.condition == "quota_unknown":
        return "the quota cannot be read, and until it can no jobs are made"
    what = _THROTTLES.get(state.condition, state.condition.replace("_", " "))
    if state.unit in ("jobs", "cores"):
        return f"{number(state.figure)} {what}, cap {number(state.cap)} ({state.key})"
    return f"{what} {with_unit(state.figure, state.unit)}, cap {with_unit(state.cap, state.unit)} ({state.key})"
