"""What a queue would get if one of its limits were another: chunks that it was rejected for, evaluated again."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from broker.brokerages.job.brokerage import JobBrokerage
from broker.brokerages.registry import brokerage as brokerage_of
from broker.decisions.answers.decision_model import Figure
from broker.decisions.answers.rules_in_force import rules_in_force
from broker.decisions.answers.stored_chunks import Group, groups_of
from broker.domain.decisions import Observation
from broker.engine.job.why_not import why_not
from broker.grid.answers.models import NearMiss
from broker.history.answers.stored_states import ChunkState
from broker.rules.contract import Filter
from broker.snapshot.snapshot import Snapshot
from broker.store.query_context import Asking, Evaluation, Proceed

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


def needed_value(seen: Observation) -> Figure:
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


def with_field(snapshot: Snapshot, name: str, key: str, seen: Observation) -> tuple[Snapshot, Figure] | None:
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


#: At most so many chunks are evaluated for one code; those that wait come first.
MOST_CHUNKS = 60
MOST_VALUES = 3
SUCH_AS = 4


def misses_at_queue(
    asking: Asking, brokerage: str, queue: str, rejected: Mapping[str, Sequence[ChunkState]]
) -> Evaluation[tuple[NearMiss, ...]]:
    """For each limit of the queue that rejected chunks, what it would get with another value, the most jobs first.

    The chunks are read here; what is returned evaluates them.
    """
    kind = brokerage_of(brokerage)
    if not isinstance(kind, JobBrokerage):
        return lambda proceed: ()
    rules = rules_in_force(brokerage, asking.config)
    by_queue = {rule.code for rule in rules.chain if isinstance(rule, Filter)}
    read: list[tuple[str, list[Group]]] = []
    for code, states in rejected.items():
        if code not in by_queue:
            continue
        waiting_first = sorted(states, key=lambda state: (state.outcome == "brokered", -state.decision))
        decisions = [state.decision for state in waiting_first[:MOST_CHUNKS]]
        read.append((code, list(groups_of(asking, kind, rules, decisions))))

    def evaluated(proceed: Proceed) -> tuple[NearMiss, ...]:
        return tuple(_best([miss for code, groups in read for miss in _misses(code, queue, groups, proceed)]))

    return evaluated


def _misses(code: str, queue: str, groups: Sequence[Group], proceed: Proceed) -> Iterator[NearMiss]:
    """The near misses for one code: for each pseudo-queue and field, the values that let chunks in."""
    wanted: defaultdict[tuple[str, str, str], dict[float | str, Observation]] = defaultdict(dict)
    for group in groups:
        for name, seen in _seen(group, queue, code, proceed):
            value = needed_value(seen)
            if seen.key in COLUMNS and isinstance(value, float | str):
                wanted[name, seen.key, seen.unit][value] = seen
    for (name, field, unit), values in wanted.items():
        for value in _some(list(values)):
            chunks, jobs, tasks = _gained(groups, name, field, value, proceed)
            if chunks:
                yield NearMiss(
                    code=code,
                    field=field,
                    pseudo_queue=name,
                    now=values[value].limit,
                    to=value,
                    unit=unit,
                    chunks=chunks,
                    jobs=jobs,
                    such_as=tuple(sorted(tasks)[:SUCH_AS]),
                )


def _best(found: Sequence[NearMiss]) -> list[NearMiss]:
    """Of pseudo-queues with the same value the one that would gain most, of equals that with the nearest limit."""
    best: dict[tuple[str, str, object], NearMiss] = {}
    for miss in sorted(found, key=lambda one: (-one.jobs, -one.chunks, _distance(one), one.pseudo_queue)):
        best.setdefault((miss.code, miss.field, miss.to), miss)
    return list(best.values())


def _distance(miss: NearMiss) -> float:
    if isinstance(miss.to, str) or isinstance(miss.now, str) or miss.to is None or miss.now is None:
        return 0.0
    return abs(float(miss.to) - float(miss.now))


def _some(values: list[float | str]) -> list[float | str]:
    """The nearest value, the median and the farthest."""
    ordered = sorted(values, key=lambda value: (isinstance(value, str), value if isinstance(value, float) else 0.0))
    places = sorted({0, len(ordered) // 2, len(ordered) - 1})
    return [ordered[place] for place in places][:MOST_VALUES]


def _seen(group: Group, queue: str, code: str, proceed: Proceed) -> Iterator[tuple[str, Observation]]:
    """What the rule of this code saw at each pseudo-queue of the queue that it rejected."""
    cycle = group.cycle(group.snapshot)
    for result in cycle.results():
        proceed()
        for answer in why_not(cycle, result, queue):
            seen = answer.observation
            if answer.code == code and seen is not None:
                yield answer.queue, seen


def _gained(
    groups: Sequence[Group], name: str, field: str, value: float | str, proceed: Proceed
) -> tuple[int, int, set[int]]:
    """Chunks that would have the pseudo-queue among their candidates, the jobs that they make, and their tasks."""
    chunks, jobs, tasks = 0, 0, set[int]()
    for group in groups:
        snapshot = with_value(group.snapshot, name, field, value)
        if snapshot is None:
            continue
        position = int(np.flatnonzero(snapshot.queues.name == name)[0])
        for result in group.cycle(snapshot).results():
            proceed()
            if position in result.chosen:
                chunks, jobs = chunks + 1, jobs + int(group.jobs[result.row])
                tasks.add(int(group.batch.jeditaskid[result.row]))
    return chunks, jobs, tasks
