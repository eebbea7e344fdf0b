"""How many pilots a queue could use now, by resource type, and what keeps the number down.

Pure. Only jobs that a new pilot of the queue would really get count: those that match it and fit into its slot. Pilots
that already wait cover them first; limits are used up as pilots are given to the jobs, share by share and by priority.
Source of the names of limits: Harvester, queue configuration (nQueueLimitWorker, maxWorkers, maxNewWorkersPerCycle);
PanDA, resource_type_limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from broker.domain.arrays import Ints, Texts
from broker.pilots.model.worker_distribution import HIMEM, SlotType, Workers, cores_of

CLOSED = ("offline",)
"""Statuses of queues that get no pilots; jobs at queues in brokeroff and test still get theirs."""
FITS = "fits"
SLOT_MISFITS = ("cores", "memory", "walltime", "disk")
"""Parts of a slot that may be too small for a job, in this order."""
#: Fewest starts of pilots from which their waiting time is estimated.
LEAST_STARTS = 20
STARTS_WINDOW = timedelta(hours=6)
"""Window of recent starts of pilots."""
#: Standard deviations above the mean at which 80 % of a normal distribution lie.
_P80 = 0.8416


@dataclass(frozen=True)
class WaitingJobs:
    """Activated jobs of a queue in groups of equal needs, as columns (length N).

    Attributes:
        resource_type: resource type of the jobs.
        share_rank: rank of their share: 0 is the one that is furthest below its target.
        priority: priority of the jobs.
        cores: cores that each job needs.
        memory_mb: memory that each needs; 0: any.
        walltime_s: walltime that each needs; 0: any.
        disk_mb: disk that each needs; 0: any.
        lacks: what a new pilot of the queue does not present: a field of the matcher, or the label; empty: nothing.
        number: number of jobs in the group.
    """

    resource_type: Texts
    share_rank: Ints
    priority: Ints
    cores: Ints
    memory_mb: Ints
    walltime_s: Ints
    disk_mb: Ints
    lacks: Texts
    number: Ints

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True)
class Slot:
    """What a pilot of a queue has; 0 is not known, and limits nothing."""

    cores: int = 0
    memory_mb: float = 0.0
    walltime_s: float = 0.0
    disk_mb: float = 0.0


class Limits(BaseModel):
    """Limits on the pilots of a queue; null: no limit.

    Attributes:
        most_waiting: maximum number waiting in the batch system (nQueueLimitWorker).
        most_pilots: maximum number waiting and running (maxWorkers).
        most_new: maximum number of new pilots in one cycle (maxNewWorkersPerCycle).
        by_type: maximum number waiting and running, by resource type; under HIMEM, cores of high-memory types.
        least_waiting: number that may always wait, regardless of their pace.
        kept_idle: pilots for a queue without pilots or work, to show that it is alive.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    most_waiting: int | None = Field(default=100, ge=0)
    most_pilots: int | None = Field(default=None, ge=0)
    most_new: int | None = Field(default=50, ge=0)
    by_type: Mapping[str, int] = {}
    least_waiting: int = Field(default=10, ge=0)
    kept_idle: int = Field(default=0, ge=0)


LIMITS = {
    "nQueueLimitWorker": "most_waiting",
    "maxWorkers": "most_pilots",
    "maxNewWorkersPerCycle": "most_new",
}
"""Limits that a queue has in ``params``."""


@dataclass(frozen=True)
class Starts:
    """Recent starts of pilots at a queue: their number in ``window_s``, and the p80 of the time they had waited."""

    number: int = 0
    window_s: float = 0.0
    delay_p80_s: float = 0.0


@dataclass(frozen=True)
class QueueNow:
    """A queue at one instant.

    Attributes:
        status: status of the queue.
        slot: slot of its pilots.
        limits: limits of its pilots.
        workers: workers by resource type; None: not known, since reports are too old.
        starts: recent starts of pilots.
        types: the resource types on record.
    """

    status: str | None
    slot: Slot
    limits: Limits
    workers: Mapping[str, Workers] | None
    starts: Starts
    types: Mapping[str, SlotType]


@dataclass(frozen=True)
class Demand:
    """Pilots of one resource type that a queue could use.

    Attributes:
        resource_type: resource type of the pilots.
        jobs: number of activated jobs.
        fitting: number of these that fit.
        misfits: number of jobs that do not fit, by reason.
        waiting: pilots in the batch system; null if unknown.
        running: running pilots; null if unknown.
        wanted: new pilots; null if the number of existing pilots is unknown.
        surplus: waiting pilots that no job needs.
        reason: code of the reason for the number, see :data:`SENTENCES`.
        limit: limit behind the reason, if it is one.
    """

    resource_type: str
    jobs: int
    fitting: int
    misfits: Mapping[str, int]
    waiting: int | None
    running: int | None
    wanted: int | None
    surplus: int
    reason: str
    limit: int | None = None


SENTENCES: Mapping[str, str] = {
    FITS: "one for each job that fits and has none",
    "covered": "enough pilots wait",
    "no_jobs": "no job is activated there",
    "none_fits": "no job fits a pilot of the queue",
    "most_waiting": "cap {limit}",
    "most_pilots": "cap {limit} of all pilots of the queue",
    "most_new": "at most {limit} new ones in a cycle",
    "resource_type_limit": "cap {limit} of the resource type",
    "himem_limit": "cap of {limit} cores of high memory",
    "pace": "no more than {limit} are to wait: as many as start there while one waits",
    "closed": "the queue is offline",
    "kept_idle": "keeps a queue without work awake",
    "workers_unknown": "what is there is not known: the last report of workers is too old",
    "panda": "as unified pilot streaming counts",
    "no_instance": "no Harvester instance of the queue has reported workers",
}
"""Each reason and its text; ``{limit}`` is the number of the demand."""


def sentence(one: Demand, queue: str) -> str:
    """A demand with its reason: ``12 wanted at KIT: 40 jobs fit, 20 pilots wait, cap 32``."""
    wanted = "not known how many are" if one.wanted is None else str(one.wanted)
    parts = [f"{one.fitting} {'job fits' if one.fitting == 1 else 'jobs fit'}"]
    parts += [f"{number} not for {what}" for what, number in sorted(one.misfits.items())]
    if one.waiting is not None:
        parts.append(f"{one.waiting} {'pilot waits' if one.waiting == 1 else 'pilots wait'}")
    parts.append(SENTENCES[one.reason].format(limit=one.limit))
    return f"{wanted} wanted at {queue}: {', '.join(parts)}"


def pilot_demand(queue: QueueNow, jobs: WaitingJobs) -> tuple[Demand, ...]:
    """The demand of a queue, by resource type: those with jobs in the order of their first one, then those with pilots.

    Args:
        queue: the queue as it is now.
        jobs: activated jobs there.
    """
    misfit = misfits_of(queue.slot, jobs)
    order = np.lexsort((-jobs.priority, jobs.share_rank))
    workers = queue.workers or {}
    names = list(dict.fromkeys([*jobs.resource_type[order].tolist(), *sorted(workers)]))
    allotment = _Allotment(queue, names)
    if queue.workers is not None and queue.status not in CLOSED:
        for group in order[misfit[order] == FITS].tolist():
            allotment.give(str(jobs.resource_type[group]), int(jobs.number[group]))
    demands = tuple(_demand(queue, jobs, misfit, name, allotment) for name in names)
    return demands if any(one.wanted or one.waiting or one.running for one in demands) else _awake(queue, demands)


def misfits_of(slot: Slot, jobs: WaitingJobs) -> Texts:
    """For each group FITS, or what a new pilot lacks: the matcher's field, or a part of its slot (length N)."""
    misfits = np.full(len(jobs), FITS, dtype=np.object_)
    needs = (jobs.cores, jobs.memory_mb, jobs.walltime_s, jobs.disk_mb)
    has = (slot.cores, slot.memory_mb, slot.walltime_s, slot.disk_mb)
    for name, need, most in reversed(list(zip(SLOT_MISFITS, needs, has, strict=True))):
        if most > 0:
            misfits[need > most] = name
    return np.where(jobs.lacks == "", misfits, jobs.lacks)


def paced(starts: Starts, least: int) -> int | None:
    """How many pilots may wait so that they start within the usual delay; None where too few have started.

    Twice the p80 of the starts expected within that delay, so that a rising demand is met, and ``least`` at least.
    """
    if starts.number < LEAST_STARTS or starts.window_s <= 0:
        return None
    expected = starts.number / starts.window_s * starts.delay_p80_s
    return max(least, 2 * math.ceil(expected + _P80 * math.sqrt(expected)))


class _Allotment:
    """Pilots allotted to jobs, and what is left of each limit."""

    def __init__(self, queue: QueueNow, names: Sequence[str]) -> None:
        workers = queue.workers or {}
        waiting = sum(one.queued for one in workers.values())
        running = sum(one.running for one in workers.values())
        self._queue, self._limits = queue, queue.limits
        self._covered = {name: workers.get(name, Workers()).queued for name in names}
        self.given = dict.fromkeys(names, 0)
        self.bound: dict[str, tuple[str, int]] = {}
        pace = paced(queue.starts, queue.limits.least_waiting)
        self._rooms: dict[str, tuple[int, int]] = {}
        for code, limit, used in (
            ("most_waiting", self._limits.most_waiting, waiting),
            ("most_pilots", self._limits.most_pilots, waiting + running),
            ("most_new", self._limits.most_new, 0),
            ("pace", pace, waiting),
        ):
            if limit is not None:
                self._rooms[code] = (limit, max(limit - used, 0))
        self._type_rooms = {
            name: max(self._limits.by_type[name] - _all(workers.get(name)), 0)
            for name in names
            if name in self._limits.by_type
        }
        self._himem_cores: int | None = None
        if HIMEM in self._limits.by_type:
            used = sum(_all(one) * self._cores(name) for name, one in workers.items() if self._is_high(name))
            self._himem_cores = max(self._limits.by_type[HIMEM] - used, 0)

    def give(self, name: str, jobs: int) -> None:
        """Allot pilots to further jobs of a type, as far as waiting ones do not cover them and limits allow."""
        covered = min(self._covered[name], jobs)
        self._covered[name] -= covered
        need = jobs - covered
        room, code, limit = min(self._rooms_of(name), key=lambda one: one[0], default=(need, FITS, 0))
        number = min(need, room)
        if number < need:
            self.bound[name] = (code, limit)
        self.given[name] += number
        self._rooms = {key: (limit, left - number) for key, (limit, left) in self._rooms.items()}
        if name in self._type_rooms:
            self._type_rooms[name] -= number
        if self._himem_cores is not None and self._is_high(name):
            self._himem_cores -= number * self._cores(name)

    def _rooms_of(self, name: str) -> list[tuple[int, str, int]]:
        """What is left of each limit that counts for a type, with its code and number."""
        rooms = [(left, code, limit) for code, (limit, left) in self._rooms.items()]
        if name in self._type_rooms:
            rooms.append((self._type_rooms[name], "resource_type_limit", self._limits.by_type[name]))
        if self._himem_cores is not None and self._is_high(name):
            rooms.append((self._himem_cores // self._cores(name), "himem_limit", self._limits.by_type[HIMEM]))
        return rooms

    def _cores(self, name: str) -> int:
        return cores_of(self._queue.types.get(name), max(self._queue.slot.cores, 1))

    def _is_high(self, name: str) -> bool:
        return name in self._queue.types and self._queue.types[name].is_high_memory()


def _all(workers: Workers | None) -> int:
    return 0 if workers is None else workers.queued + workers.running


def _demand(queue: QueueNow, jobs: WaitingJobs, misfit: Texts, name: str, allotment: _Allotment) -> Demand:
    of_type = jobs.resource_type == name
    numbers, reasons = jobs.number[of_type], misfit[of_type]
    fitting = int(numbers[reasons == FITS].sum())
    misfits = {what: int(numbers[reasons == what].sum()) for what in dict.fromkeys(reasons.tolist()) if what != FITS}
    total = int(numbers.sum())
    if queue.workers is None:
        return Demand(name, total, fitting, misfits, None, None, None, 0, "workers_unknown")
    workers = queue.workers.get(name, Workers())
    closed = queue.status in CLOSED
    wanted = allotment.given[name]
    surplus = workers.queued if closed else max(workers.queued - fitting, 0)
    reason, limit = _reason(closed, total, fitting, wanted, allotment.bound.get(name))
    return Demand(name, total, fitting, misfits, workers.queued, workers.running, wanted, surplus, reason, limit)


def _reason(
    closed: bool, jobs: int, fitting: int, wanted: int, bound: tuple[str, int] | None
) -> tuple[str, int | None]:
    """Code and number of what makes a demand what it is."""
    cases: Sequence[tuple[bool, Callable[[], tuple[str, int | None]]]] = (
        (closed, lambda: ("closed", None)),
        (not jobs, lambda: ("no_jobs", None)),
        (not fitting, lambda: ("none_fits", None)),
        (bound is not None, lambda: bound or (FITS, None)),
        (not wanted, lambda: ("covered", None)),
    )
    return next((give() for holds, give in cases if holds), (FITS, None))


def _awake(queue: QueueNow, demands: tuple[Demand, ...]) -> tuple[Demand, ...]:
    """Add a few pilots to the demand of a queue that has none at all, where it is to be kept awake."""
    number = queue.limits.kept_idle
    if not number or queue.workers is None or queue.status in CLOSED:
        return demands
    names = [one.resource_type for one in demands] or sorted(queue.types, key=lambda name: (name != "SCORE", name))
    if not names:
        return demands
    before = next((one for one in demands if one.resource_type == names[0]), None)
    jobs, misfits = (0, {}) if before is None else (before.jobs, dict(before.misfits))
    idle = Demand(names[0], jobs, 0, misfits, 0, 0, number, 0, "kept_idle")
    return (idle, *(one for one in demands if one.resource_type != names[0]))
