"""All task queues in which jobs wait, in memory: which of them fit a pilot, and in which order they are tried.

A task queue is drawn among all of its type, whether it fits or not, and drawn again where it does not fit: this
preserves the chances of those that fit. Each drawn task queue is checked on its own. After too many draws, those that
fit are found together, as a bit set shared by pilots that no condition tells apart, and put in order. What is drawn
does not depend on what is known already.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.bounded_cache import BoundedCache
from broker.matching.specs.condition import unpacked
from broker.pilots.model.group_fields import Field, PilotRequest, fields_of
from broker.pilots.model.match_order import LAST_TIER, draw
from broker.pilots.model.matcher import FIELDS, MATCHES, TaskQueueTable
from broker.pilots.model.task_queue_shares import real_priorities

CACHE_BYTES = 256 << 20
"""Size of the cached answers for pilots; when it is reached, all are forgotten at once."""
MOST_DRAWS = 64
"""Draws among all of a type, before those that fit are put in order."""
FIRST_DRAWS = 8
"""Draws that are looked up at first."""
FEW = 256
"""Up to this many that fit, of a type, are stored as positions."""


@dataclass(frozen=True)
class Run:
    """Adjacent task queues that are drawn together: those of a type that has a tier, or all others."""

    tier: int
    start: int
    end: int


@dataclass
class EligibleTaskQueues:
    """All task queues that pilots of one kind may take from.

    Attributes:
        octets: a bit for each task queue.
        runs: numbers of the runs with any that fit.
        few: positions of those that fit, for runs with few of them.
    """

    octets: bytes
    runs: frozenset[int]
    few: dict[int, Ints]
    types: frozenset[str | None] | None = None


class MatchingTaskQueues:
    """The task queues that a pilot may take from. Each is checked on its own, until all are requested.

    Args:
        index: index of the task queues.
        request: the pilot.
    """

    def __init__(self, index: GroupIndex, request: PilotRequest) -> None:
        self._index, self._request = index, request
        self._whole: EligibleTaskQueues | None = None
        self._checks = [
            (condition.fits, presented)
            for condition in index.telling
            if ((presented := condition.presented(request)) is not None or not condition.none_fits)
            and (condition.values != 1 or not condition.fits(presented, 0))  # required by all task queues, and met
        ]

    def has(self, position: int) -> bool:
        """Whether a task queue fits."""
        if self._whole is not None:
            return bool(self._whole.octets[position >> 3] >> (position & 7) & 1)
        for fits, presented in self._checks:  # noqa: SIM110 - a generator takes twice as long
            if not fits(presented, position):
                return False
        return True

    @property
    def whole(self) -> EligibleTaskQueues:
        """Return all task queues that the pilot may take from, checked once."""
        if self._whole is None:
            self._whole = self._index.whole(self._request)
        return self._whole


class GroupIndex:
    """Which of some task queues fit, however many jobs they have.

    Args:
        queues: the task queues; they are sorted by tier, type and number.

    Attributes:
        queues: the task queues in this order.
        runs: task queues that are drawn together.
        tiers: for each tier, in order, the numbers of its runs.
        position: position of each task queue by its number.
    """

    def __init__(self, queues: TaskQueueTable) -> None:
        kinds = kinds_of(queues)
        order = np.lexsort((queues.id, kinds, queues.tier))
        self.queues, kinds = queues.at(order), kinds[order]
        self.position = {number: place for place, number in enumerate(self.queues.id.tolist())}
        changes = (np.diff(self.queues.tier) != 0) | (np.diff(kinds) != 0)
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(queues)]
        tiers = self.queues.tier.tolist()
        self.runs = tuple(Run(tiers[start], start, end) for start, end in pairwise(bounds) if start < end)
        numbers = range(len(self.runs))
        self.tiers = tuple(tuple(of_tier) for _, of_tier in groupby(numbers, lambda number: self.runs[number].tier))
        self._starts: Ints = np.array([run.start for run in self.runs], dtype=np.int64)
        self._cache = BoundedCache[EligibleTaskQueues](CACHE_BYTES)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The conditions, in the order of FIELDS."""
        return tuple(fields_of(self.queues).values())

    @cached_property
    def telling(self) -> tuple[Field, ...]:
        """The conditions, those first that tell most task queues apart; the node takes longest and comes last."""
        *others, node = self.fields
        return (*sorted(others, key=lambda one: -one.values), node)

    def fitting(self, request: PilotRequest) -> MatchingTaskQueues:
        """The task queues that a pilot may take from."""
        return MatchingTaskQueues(self, request)

    def whole(self, request: PilotRequest) -> EligibleTaskQueues:
        """All task queues that a pilot may take from; shared by pilots that no condition tells apart."""
        parts = tuple(one.part(request) for one in self.fields)
        whole = self._cache.get(parts)
        if whole is None:
            whole = self._cache.keep(parts, self._look(request, parts), len(self.queues) // 8 + 1500)
        return whole

    def holds(self, name: str, request: PilotRequest) -> Bools:
        """(K,) for each task queue whether the condition on one field holds."""
        one = self.fields[FIELDS.index(name)]
        return unpacked(one.bits(request, one.part(request)), len(self.queues))

    def conditions(self, request: PilotRequest) -> dict[str, Bools]:
        """(K,) by field but the limit, in their order, for each task queue whether the condition holds."""
        return {name: self.holds(name, request) for name, _ in zip(FIELDS, self.fields, strict=False)}

    def reasons(self, request: PilotRequest) -> Ints:
        """For each task queue MATCHES, or the index in FIELDS of the first field that does not fit."""
        reasons = np.full(len(self.queues), MATCHES, dtype=np.int64)
        for number in range(len(self.fields) - 1, -1, -1):
            one = self.fields[number]
            reasons[~unpacked(one.bits(request, one.part(request)), len(reasons))] = number
        return reasons

    def _look(self, request: PilotRequest, parts: tuple[Hashable, ...]) -> EligibleTaskQueues:
        if not self.runs:
            return EligibleTaskQueues(b"", frozenset(), {})
        bits = np.bitwise_and.reduce([one.bits(request, part) for one, part in zip(self.fields, parts, strict=True)])
        flags = unpacked(bits, len(self.queues))
        counts = np.add.reduceat(flags, self._starts, dtype=np.int64).tolist()
        few = {
            number: run.start + np.flatnonzero(flags[run.start : run.end])
            for number, (run, count) in enumerate(zip(self.runs, counts, strict=True))
            if 0 < count <= FEW
        }
        return EligibleTaskQueues(
            bits.tobytes(), frozenset(number for number, count in enumerate(counts) if count), few
        )

    def positions(self, whole: EligibleTaskQueues, number: int) -> Ints:
        """The positions of a run that fit."""
        if number not in whole.runs:
            return np.zeros(0, dtype=np.int64)
        few = whole.few.get(number)
        if few is not None:
            return few
        run = self.runs[number]
        flags = unpacked(np.frombuffer(whole.octets, dtype=np.uint64), len(self.queues))
        return run.start + np.flatnonzero(flags[run.start : run.end])

    def types(self, fitting: MatchingTaskQueues) -> frozenset[str | None]:
        """The types of the jobs that fit and count at a site: those that are bound to a PanDA queue."""
        whole = fitting.whole
        if whole.types is None:
            flags = unpacked(np.frombuffer(whole.octets, dtype=np.uint64), len(self.queues))
            whole.types = frozenset(self.queues.job_type[flags & self._bound].tolist())
        return whole.types

    @cached_property
    def _bound(self) -> Bools:
        return np.array([name is not None for name in self.queues.panda_queue.tolist()], dtype=np.bool_)


def kinds_of(queues: TaskQueueTable) -> Ints:
    """(K,) the types that are drawn before the task queues; those without a tier are drawn together, as 0."""
    number: dict[str | None, int] = {None: 0}
    types = zip(queues.job_type.tolist(), queues.tier.tolist(), strict=True)
    kinds = [number.setdefault(kind if tier < LAST_TIER else None, len(number)) for kind, tier in types]
    return np.array(kinds, dtype=np.int64)


@dataclass
class WaitingGroups:
    """Task queues with their weights, and where the first job of each waits.

    It only suggests what to try: threads share it, and at worst one tries in vain.

    Attributes:
        index: index of which fit.
        weight: (K,) weights of the draw within a run; positive.
        type_weight: (K,) weights of the types.
        levels: for each task queue its priorities, and where to look for the first job of each: those before have been
            taken, as far as is known.
        holding: (K,) which of them held jobs when they were read.
    """

    index: GroupIndex
    weight: Floats
    type_weight: Floats
    levels: list[dict[int, int]]
    holding: Bools = field(init=False)
    _left: Floats = field(init=False)
    _up_to: Floats = field(init=False)
    _drawn: dict[int, tuple[list[int], Floats]] = field(default_factory=dict)
    _too_short: dict[tuple[int, int], tuple[int, datetime]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.holding = np.array([bool(one) for one in self.levels], dtype=np.bool_)
        self._left = np.where(self.holding, self.weight, 0.0)
        self._sum()

    def _sum(self) -> None:
        """Restrict the draw to task queues that hold jobs."""
        self._up_to = np.concatenate(([0.0], np.cumsum(self._left)))
        self._is_summed = True

    @property
    def queues(self) -> TaskQueueTable:
        """Return the table of task queues, one row each."""
        return self.index.queues

    @classmethod
    def of(cls, queues: TaskQueueTable, levels: Sequence[Mapping[int, int]]) -> WaitingGroups:
        """Build the groups of a table, each with its levels."""
        by_number = dict(zip(queues.id.tolist(), levels, strict=True))
        index = GroupIndex(queues)
        ordered = [dict(by_number[number]) for number in index.queues.id.tolist()]
        return cls(index, index.queues.weight, index.queues.type_weight, ordered)

    def changed(
        self,
        updates: Mapping[int, tuple[float, float, dict[int, int]]],
        emptied: Collection[int] = (),
        *,
        jobs_came: bool,
    ) -> WaitingGroups:
        """The same task queues, updated with the weight, type weight and levels of some.

        Args:
            updates: weight, type weight and levels by number.
            emptied: numbers of those that hold no job.
            jobs_came: whether jobs came to those in ``updates``, so that some may need less CPU time than those that
                were tried.
        """
        weight, type_weight = self.weight.copy(), self.type_weight.copy()
        too_short, levels = dict(self._too_short), list(self.levels)
        for number in emptied:
            levels[self.index.position[number]] = {}
        for number, (weighs, of_type, has) in updates.items():
            place = self.index.position[number]
            weight[place], type_weight[place], levels[place] = weighs, of_type, has
            for priority in has if jobs_came else ():
                too_short.pop((place, priority), None)
        return replace(self, weight=weight, type_weight=type_weight, levels=levels, _drawn={}, _too_short=too_short)

    def numbers_within(self, after: int, last: int, besides: Container[int]) -> list[int]:
        """Numbers of the task queues that are above ``after`` and up to ``last``, without those in ``besides``."""
        numbers = self.queues.id
        within = numbers[(numbers > after) & (numbers <= last)]
        return [number for number in within.tolist() if number not in besides]

    def at(self, place: int) -> tuple[float, float, dict[int, int]]:
        """Weight, weight of the type, and levels of the task queue at a position."""
        return float(self.weight[place]), float(self.type_weight[place]), self.levels[place]

    def forget(self, queue: int, priority: int) -> None:
        """Record that a task queue has no more jobs of this priority."""
        self.levels[queue].pop(priority, None)
        self._drawn.pop(queue, None)
        if not self.levels[queue]:
            self._left[queue] = 0.0
            self._is_summed = False

    def note_too_short(self, queue: int, priority: int, cputime_s: int, until: datetime) -> None:
        """Record that, ``until`` then (aware), nobody with this CPU time finds such a job in a task queue."""
        self._too_short[queue, priority] = cputime_s, until

    def is_too_short(self, queue: int, priority: int, cputime_s: int, now: datetime) -> bool:
        """Whether somebody with as much CPU time recently found no job of this priority in a task queue."""
        record = self._too_short.get((queue, priority))
        return record is not None and cputime_s <= record[0] and now < record[1]

    def forget_too_short(self) -> None:
        """Forget what is too short, as jobs may have come anywhere."""
        self._too_short.clear()

    def candidates(self, fitting: MatchingTaskQueues, generator: np.random.Generator) -> Iterator[tuple[int, int]]:
        """Task queues (positions) and priorities, in the order of their tiers, drawn at random by their weights."""
        if not self._is_summed:
            self._sum()
        for tier in self.index.tiers:
            for run in self._types_in_order(tier, generator):
                for queue in self._queues_in_order(fitting, run, generator):
                    for priority in self._priorities_in_order(queue, generator):
                        yield queue, priority

    def _types_in_order(self, runs: tuple[int, ...], generator: np.random.Generator) -> Iterator[int]:
        if len(runs) == 1:
            yield runs[0]
            return
        weights = np.array([self.type_weight[self.index.runs[run].start] for run in runs])
        for place in draw(weights, generator).tolist():
            yield runs[place]

    def _queues_in_order(
        self, fitting: MatchingTaskQueues, number: int, generator: np.random.Generator
    ) -> Iterator[int]:
        run = self.index.runs[number]
        tried: set[int] = set()
        low, high = float(self._up_to[run.start]), float(self._up_to[run.end])
        if low < high:
            at = low + generator.random(MOST_DRAWS) * (high - low)
            for start, end in pairwise((0, FIRST_DRAWS, MOST_DRAWS)):  # most pilots need few of them
                for place in self._up_to.searchsorted(at[start:end], "right").tolist():
                    queue = min(max(place - 1, run.start), run.end - 1)
                    if queue in tried:
                        continue
                    tried.add(queue)
                    if self._left[queue] > 0 and fitting.has(queue):
                        yield queue
        positions = self.index.positions(fitting.whole, number)
        chosen = positions[self._left[positions] > 0]
        for queue in chosen[draw(self.weight[chosen], generator)].tolist():
            if queue not in tried:
                yield queue

    def _priorities_in_order(self, queue: int, generator: np.random.Generator) -> list[int]:
        levels = self.levels[queue]
        if len(levels) < 2:
            return list(levels)
        drawn = self._drawn.get(queue)
        if drawn is None:
            priorities = list(levels)
            drawn = self._drawn[queue] = (priorities, real_priorities(np.array(priorities, dtype=np.int64)))
        return [drawn[0][place] for place in draw(drawn[1], generator).tolist()]
