"""What a queue would get with another value of a limit: the chunks that it was rejected for are evaluated again."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from broker.brokerages.job.brokerage import JobBrokerage
from broker.brokerages.registry import brokerage as brokerage_of
from broker.decisions.answers.rules_in_force import rules_in_force
from broker.decisions.answers.stored_chunks import Group, groups_of
from broker.domain.decisions import Observation
from broker.domain.words import Figure
from broker.engine.job.why_not import why_not
from broker.grid.answers.models import NearMiss
from broker.history.answers.stored_states import ChunkState
from broker.rules.contract import Filter
from broker.snapshot.snapshot import Snapshot
from broker.store.query_context import Evaluation, Proceed, QueryContext

#: Columns of the table of queues, by the name that a rule gives for the source of its limit.
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
#: Steps for round figures, so that no answer names 31,774 MB.
STEPS = {"MB": 1000.0, "s": 3600.0, "kB/s": 100.0, "jobs": 100.0, "events": 100.0}


def needed_value(seen: Observation) -> Figure:
    """The round value of a limit with which an observed value would pass; None if the value is no number."""
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
    """The snapshot with one field of a candidate at the needed value, and that value; None if there is none."""
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
    rows = (queues.name == name) | (queues.unified_name == name)
    values = np.where(rows, np.array(value, dtype=getattr(queues, column).dtype), getattr(queues, column))
    return dataclasses.replace(snapshot, queues=dataclasses.replace(queues, **{column: values}))


#: Maximum number of chunks evaluated for one code; those that wait come first.
MOST_CHUNKS = 60
MOST_VALUES = 3
SUCH_AS = 4


def misses_at_queue(
    query: QueryContext, brokerage: str, queue: str, rejected: Mapping[str, Sequence[ChunkState]]
) -> Evaluation[tuple[NearMiss, ...]]:
    """For each limit that rejected chunks, what the queue would get with another value, the most jobs first.

    Reads the chunks here; the returned function evaluates them.
    """
    kind = brokerage_of(brokerage)
    if not isinstance(kind, JobBrokerage):
        return lambda proceed: ()
    rules = rules_in_force(brokerage, query.config)
    by_queue = {rule.code for rule in rules.chain if isinstance(rule, Filter)}
    groups_by_code: list[tuple[str, list[Group]]] = []
    for code, states in rejected.items():
        if code not in by_queue:
            continue
        waiting_first = sorted(states, key=lambda state: (state.outcome == "brokered", -state.decision))
        decisions = [state.decision for state in waiting_first[:MOST_CHUNKS]]
        groups_by_code.append((code, list(groups_of(query, kind, rules, decisions))))

    def evaluated(proceed: Proceed) -> tuple[NearMiss, ...]:
        return tuple(_best([miss for code, groups in groups_by_code for miss in _misses(code, queue, groups, proceed)]))

    return evaluated


def _misses(code: str, queue: str, groups: Sequence[Group], proceed: Proceed) -> Iterator[NearMiss]:
    """The near misses for one code: for each pseudo-queue and field, the values that let chunks in."""
    observations: defaultdict[tuple[str, str, str], dict[float | str, Observation]] = defaultdict(dict)
    for group in groups:
        for name, observation in _observations(group, queue, code, proceed):
            value = needed_value(observation)
            if observation.key in COLUMNS and isinstance(value, float | str):
                observations[name, observation.key, observation.unit][value] = observation
    for (name, field, unit), values in observations.items():
        for value in _spread(list(values)):
            chunks, jobs, tasks = _gain(groups, name, field, value, proceed)
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


def _best(misses: Sequence[NearMiss]) -> list[NearMiss]:
    """Of pseudo-queues with the same new value, the one that gains most; of equals, the one with the nearest limit."""
    best: dict[tuple[str, str, object], NearMiss] = {}
    for miss in sorted(misses, key=lambda miss: (-miss.jobs, -miss.chunks, _distance(miss), miss.pseudo_queue)):
        best.setdefault((miss.code, miss.field, miss.to), miss)
    return list(best.values())


def _distance(miss: NearMiss) -> float:
    if isinstance(miss.to, str) or isinstance(miss.now, str) or miss.to is None or miss.now is None:
        return 0.0
    return abs(float(miss.to) - float(miss.now))


def _spread(values: list[float | str]) -> list[float | str]:
    """The nearest value, the median and the farthest."""
    ordered = sorted(values, key=lambda value: (isinstance(value, str), value if isinstance(value, float) else 0.0))
    indices = sorted({0, len(ordered) // 2, len(ordered) - 1})
    return [ordered[index] for index in indices][:MOST_VALUES]


def _observations(group: Group, queue: str, code: str, proceed: Proceed) -> Iterator[tuple[str, Observation]]:
    """The observation of the rule of this code at each pseudo-queue that it rejected."""
    cycle = group.cycle(group.snapshot)
    for result in cycle.results():
        proceed()
        for answer in why_not(cycle, result, queue):
            observation = answer.observation
            if answer.code == code and observation is not None:
                yield answer.queue, observation


def _gain(
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
