"""The CPU architecture level that a task would rather run on.

Source: PanDA production brokerage, architecture preference (JSON format of the task's architecture, key ``cpu_pref``).
"""

from __future__ import annotations

import json

from broker.json_depth import is_too_deep

#: An architecture string longer than this is no architecture string.
MAX_CHARACTERS = 20_000


def preferred_cpu_level(architecture: str | None) -> str | None:
    """The preferred level, as ``x86-64-v3``; None for a task without one, or whose architecture is no JSON object."""
    if architecture is None or not architecture.lstrip().startswith("{") or len(architecture) > MAX_CHARACTERS:
        return None
    if is_too_deep(architecture):
        return None
    try:
        document = json.loads(architecture)
    except (ValueError, RecursionError):
        return None  # the software and hardware rule reports what is wrong with it
    preference = document.get("cpu_pref") if isinstance(document, dict) else None
    level = preference.get("preferred_architecture_level") if isinstance(preference, dict) else None
    return level if isinstance(level, str) and level else None
