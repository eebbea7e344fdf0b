"""Fields of queues in a snapshot at other values: what a queue would get if one of its limits were another."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from broker.decisions.answers.parts import Compared, Figure
from broker.snapshot.snapshot import Snapshot

#: Columns of the table of queues by the name under which a rule says what set its limit.
COLUMNS: Mapping[str, str] = {
    "queue.maxrss": "maxrss_mb",
    "queue.minrss": "minrss_mb",
    "queue.maxtime": "maxtime_s",
    "queue.mintime": "mintime_s",
    "queue.maxwdir": "maxwdir_mb",
    "queue.max_io_intensity": "max_io_intensity",
    "queue.transferringlimit": "transferringlimit",
    "queue.maxdiskio": "maxdiskio_kbps",
    "queue.minEventsForJumbo": "min_events_for_jumbo",
    "queue.status": "status",
}
#: Round figures, so that no answer names 31,774 MB.
STEPS = {"MB": 1000.0, "s": 3600.0, "kB/s": 100.0, "jobs": 100.0, "events": 100.0}


def needed_value(seen: Compared) -> Figure:
    """The round value of a limit with which the value that a rule saw would pass; None where that is no number."""
    if seen.key == "queue.status":
        return "online"
    if isinstance(seen.value, bool) or not isinstance(seen.value, int | float):
        return None
    step = STEPS.get(seen.unit, 1.0)
    value = float(seen.value)
    if seen.operator in ("<=", "<"):
        above = math.floor(value / step) + 1 if seen.operator == "<" else math.ceil(value / step)
        return above * step
    if seen.operator in (">=", ">"):
        below = math.ceil(value / step) - 1 if seen.operator == ">" else math.floor(value / step)
        return max(0.0, below * step)
    return None


def with_field(snapshot: Snapshot, name: str, key: str, seen: Compared) -> tuple[Snapshot, Figure] | None:
    """The snapshot with one field of a candidate at the value that is needed, and that value; None if there is none."""
    value = needed_value(seen)
    if value is None:
        return None
    changed = with_value(snapshot, name, key, value)
    return None if changed is None else (changed, value)


def with_value(snapshot: Snapshot, name: str, key: str, value: Figure) -> Snapshot | None:
    """The snapshot with one field of a pseudo-queue, or of all those of a queue, at ``value``."""
    column = COLUMNS.get(key)
    if column is None:
        return None
    queues = snapshot.queues
    at = (queues.name == name) | (queues.unified_name == name)
    values = np.where(at, np.array(value, dtype=getattr(queues, column).dtype), getattr(queues, column))
    return dataclasses.replace(snapshot, queues=dataclasses.replace(queues, **{column: values}))
