"""What a rule or a throttle compared, in words."""

from __future__ import annotations

from broker.domain.decisions import Observation
from broker.domain.words import number, with_unit
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
