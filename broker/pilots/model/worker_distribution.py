"""How many workers PanDA's unified pilot streaming asks a Harvester instance for, by resource type of a queue.

Pure. The five steps are PanDA's with their oddities: limits are not lowered while workers are given to types, the
job that takes the last queued worker of its type counts as one without, and each type that lacks workers gets one more.
The broker's own demand (:mod:`broker.pilots.model.pilot_demand`) does none of it.
Source: PanDA server, ups_new_worker_distribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from broker.domain.arrays import Bools, Ints

BASIC_TYPE = "SCORE"
"""Type of the worker that keeps a queue awake where no job needs one."""
HIMEM = "HIMEM"
"""Name of the limit, in cores, on all types of high memory together."""
HIGH_MEMORY_MB = 2000
"""Types that allow more than this per core are of high memory."""
QUEUED_PART, LEAST_QUEUED, LEAST_NEW = 0.4, 75, 5
"""Cores that are to be queued: a part of those that run, at least so many slots; and slots that are always added."""
PUSHED = ("online", "brokeroff")
"""Statuses of queues whose ``ups_core_target`` counts."""


@dataclass(frozen=True)
class SlotType:
    """A resource type with its bounds; None is open. ``maxrampercore_mb`` counts per core."""

    mincore: int | None = None
    maxcore: int | None = None
    maxrampercore_mb: int | None = None

    @property
    def is_multi_core(self) -> bool:
        """Whether its workers have all cores of the slot."""
        return self.mincore is not None and self.mincore > 1

    def is_high_memory(self, threshold_mb: float = HIGH_MEMORY_MB) -> bool:
        """Whether its jobs may use more than ``threshold_mb`` per core."""
        return self.maxrampercore_mb is None or self.maxrampercore_mb > threshold_mb


@dataclass(frozen=True)
class Workers:
    """Workers of a resource type at a queue, by status."""

    running: int = 0
    submitted: int = 0
    ready: int = 0
    to_submit: int = 0

    @property
    def queued(self) -> int:
        """Workers that wait in the batch system."""
        return self.submitted + self.ready


@dataclass(frozen=True)
class StreamedQueue:
    """The settings of a queue.

    Attributes:
        status: status of the queue.
        cores: cores of a slot.
        maxrss_mb: memory of a slot; 0 when it is not known.
        per_core: whether ``maxrss_mb`` counts per core (``catchall`` says so).
        meanrss_mb: most memory per core, on average over all workers; 0: any.
        core_target: ``ups_core_target``: cores that count as running at least; 0: none.
        limits: most running workers by resource type; under HIMEM most running cores of types of high memory.
        ignores_meanrss: whether the mean memory is currently ignored (``IGNORE_MEANRSS``).
    """

    status: str | None = "online"
    cores: int = 1
    maxrss_mb: float = 0.0
    per_core: bool = False
    meanrss_mb: float = 0.0
    core_target: int = 0
    limits: Mapping[str, int] = field(default_factory=dict)
    ignores_meanrss: bool = False


def new_workers(
    queue: StreamedQueue, types: Mapping[str, SlotType], workers: Mapping[str, Workers], jobs: Sequence[str]
) -> dict[str, int]:
    """New workers by resource type.

    Args:
        queue: settings of the queue.
        types: the resource types on record.
        workers: those that the queue's instance has reported, by resource type.
        jobs: resource types of the activated jobs, share by share (the one furthest below its target first), in each
            by priority.
    """
    cores = {name: cores_of(types.get(name), queue.cores) for name in {*workers, *jobs}}
    running = sum(one.running * cores[name] for name, one in workers.items())
    queued = sum(one.queued * cores[name] for name, one in workers.items())
    if queue.status in PUSHED:
        running = max(running, queue.core_target)
    to_queue = max(int(running * QUEUED_PART), LEAST_QUEUED * queue.cores)
    to_submit = max(to_queue - queued, LEAST_NEW * queue.cores)
    names, codes = _open_jobs(queue, types, workers, jobs, cores)
    waiting = np.array([workers.get(name, Workers()).queued for name in names], dtype=np.int64)
    taken = _taken(codes, waiting, np.array([cores[name] for name in names], dtype=np.int64), to_submit)
    left = {name: one.queued for name, one in workers.items()}
    left |= {name: int(waiting[code] - taken[code]) for code, name in enumerate(names)}
    counts = {name: 0 if rest >= 0 else -rest + 1 for name, rest in left.items()}
    return counts if any(counts.values()) else {BASIC_TYPE: 1}


def cores_of(kind: SlotType | None, cores: int) -> int:
    """Cores of a worker of a type at a queue whose slots have ``cores`` cores."""
    return cores if kind is not None and kind.is_multi_core else 1


def mean_memory_mb(
    queue: StreamedQueue,
    types: Mapping[str, SlotType],
    workers: Mapping[str, Workers],
    statuses: Sequence[str],
) -> float:
    """MB per core, on average over the workers in these statuses; 0 without any."""
    slot_mb = queue.maxrss_mb if queue.per_core else queue.maxrss_mb / max(queue.cores, 1)
    memory = total = 0.0
    for name, one in workers.items():
        kind = types.get(name)
        if kind is None:
            continue
        number = sum(getattr(one, status) for status in statuses) * (kind.maxcore or queue.cores or 1)
        memory += number * (slot_mb if kind.maxrampercore_mb is None else kind.maxrampercore_mb)
        total += number
    return memory / total if total else 0.0


def _open_jobs(
    queue: StreamedQueue,
    types: Mapping[str, SlotType],
    workers: Mapping[str, Workers],
    jobs: Sequence[str],
    cores: Mapping[str, int],
) -> tuple[list[str], Ints]:
    """The types whose workers may be submitted, and their jobs, in order, as positions in that list."""
    under = _under_mean(queue, types, workers)
    himem = queue.limits.get(HIMEM)
    if himem is not None:
        high = [name for name in workers if name in types and types[name].is_high_memory()]
        himem -= sum(workers[name].running * cores[name] for name in high)
    names = sorted({name for name in jobs if name in under} if under is not None else set(jobs))
    names = [name for name in names if not _at_limit(queue, types, workers, name, himem)]
    known = {name: code for code, name in enumerate(names)}
    return names, np.array([known[name] for name in jobs if name in known], dtype=np.int64)


def _under_mean(queue: StreamedQueue, types: Mapping[str, SlotType], workers: Mapping[str, Workers]) -> set[str] | None:
    """The types that remain where the workers use more than the mean memory; None: all.

    Where no type is under the mean, PanDA filters nothing.
    """
    if queue.ignores_meanrss or queue.meanrss_mb <= 0:
        return None
    now_mb = max(
        mean_memory_mb(queue, types, workers, ("running", "submitted", "to_submit")),
        mean_memory_mb(queue, types, workers, ("running",)),
    )
    if queue.meanrss_mb >= now_mb:
        return None
    return {name for name, one in types.items() if not one.is_high_memory(queue.meanrss_mb)} or None


def _at_limit(
    queue: StreamedQueue,
    types: Mapping[str, SlotType],
    workers: Mapping[str, Workers],
    name: str,
    himem: int | None,
) -> bool:
    limit = queue.limits.get(name)
    if limit is not None and limit - workers.get(name, Workers()).running <= 0:
        return True
    return himem is not None and himem <= 0 and name in types and types[name].is_high_memory()


def _taken(codes: Ints, waiting: Ints, cores: Ints, to_submit: int) -> Ints:
    """How many jobs of each type are considered before the cores that are to be submitted are used up.

    Args:
        codes: types of the jobs in their order (length J), as positions.
        waiting: queued workers by type (length K).
        cores: cores of a worker by type (length K).
        to_submit: cores that are to be submitted.
    """
    places = np.zeros(len(codes), dtype=np.int64)
    for code in range(len(waiting)):
        of_type: Bools = codes == code
        places[of_type] = np.arange(1, int(of_type.sum()) + 1)
    used = np.cumsum(np.where(places >= waiting[codes], cores[codes], 0)) if len(codes) else places
    last = int(np.searchsorted(used, to_submit)) + 1
    return np.bincount(codes[:last], minlength=len(waiting))
