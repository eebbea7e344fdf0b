"""What a matcher knows of the task queues at a place: which there are, and where the first job of each waits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import psycopg

from broker.domain.arrays import Floats, Ints, Texts
from broker.pilots.model.match_order import LAST_TIER, draw, draw_in_tiers
from broker.pilots.model.matcher import MATCHES, Pilot, TaskQueueTable, match_task_queues
from broker.pilots.model.task_queue_shares import real_priorities
from broker.pilots.statements.limit_tokens import LimitTokens, Pair

VIEW_LASTS = timedelta(seconds=20)

_READ_PLACE = """
SELECT number, coalesce(panda_queue, queue), tags FROM broker.resource_queues
WHERE site = %(site)s AND ce = %(ce)s AND queue = %(queue)s"""
_READ_POOLS_OF_PLACE = """
SELECT pool.pool_id FROM broker.submit_pool_links AS link JOIN broker.submit_pools AS pool ON pool.number = link.pool
WHERE link.queue = %(place)s AND (%(vo)s::text IS NULL OR pool.vo = lower(%(vo)s))"""
# The site of limits, and the types that are limited there.
_READ_LIMITS = """
SELECT place.site, limits.job_type
FROM (SELECT coalesce(
    (SELECT site FROM broker.queue_sites WHERE panda_queue = %(panda_queue)s), %(panda_queue)s) AS site
) AS place LEFT JOIN broker.running_limits AS limits USING (site)"""
_READ_TASK_QUEUES = """
SELECT queue.id, queue.vo, queue.owner, queue.owner_group, queue.panda_queue, queue.resource_type,
    nullif(queue.sites, '[]'), nullif(queue.banned_sites, '[]'), nullif(queue.platforms, '[]'),
    queue.cputime_class_s, queue.pool_id, queue.specs, queue.weight, queue.job_type, queue.tier, queue.type_weight,
    array_agg(level.priority ORDER BY level.priority), array_agg(level.first_position ORDER BY level.priority)
FROM broker.task_queues AS queue JOIN broker.task_queue_levels AS level ON level.task_queue = queue.id
WHERE {where} AND EXISTS (
    SELECT FROM broker.waiting_jobs AS job WHERE job.task_queue = queue.id AND job.priority = level.priority
      AND job.position >= level.first_position)
GROUP BY queue.id ORDER BY queue.id"""
_HERE = _READ_TASK_QUEUES.format(where="(queue.panda_queue = %(panda_queue)s OR queue.panda_queue IS NULL)")
_EVERYWHERE = _READ_TASK_QUEUES.format(where="true")


@dataclass
class View:
    """What is known of the task queues at one place.

    ``levels``: for each task queue its priorities, and where to look for the first job of each: those before have been
    taken, as far as is known.
    """

    read_at: datetime
    place: int | None
    panda_queue: str
    pools: frozenset[str]
    queues: TaskQueueTable
    levels: list[dict[int, int]]
    site: str = ""
    limited: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    kinds: Ints = field(init=False)
    _fitting: dict[Pilot, tuple[Ints, Floats, tuple[Pair, ...]]] = field(default_factory=dict)
    _drawn: dict[int, tuple[list[int], Floats]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Number the types that are drawn before the task queues; those without a tier are drawn together, as 0."""
        number: dict[str | None, int] = {None: 0}
        types = zip(self.queues.job_type.tolist(), self.queues.tier.tolist(), strict=True)
        kinds = [number.setdefault(kind if tier < LAST_TIER else None, len(number)) for kind, tier in types]
        self.kinds = np.array(kinds, dtype=np.int64)

    def fitting(self, pilot: Pilot) -> tuple[Ints, Floats, tuple[Pair, ...]]:
        """The task queues that a pilot may take from, their weights, and the limits that there are for any of them."""
        found = self._fitting.get(pilot)
        if found is None:
            positions = np.flatnonzero(self.reasons(pilot) == MATCHES)
            pairs = dict.fromkeys(map(self.pair_of, positions.tolist())) if self.limited else {}
            limits = tuple(pair for pair in pairs if pair is not None)
            found = self._fitting[pilot] = (positions, self.queues.weight[positions], limits)
        return found

    def reasons(self, pilot: Pilot) -> Ints:
        """For each task queue MATCHES, or the index in FIELDS of the first field that does not fit."""
        node = pilot.node
        if node is not None and not self.tags <= node.tags:
            pilot = replace(pilot, node=replace(node, tags=node.tags | self.tags))
        return match_task_queues(self.queues, pilot, self.panda_queue, self.pools)

    def pair_of(self, queue: int) -> Pair | None:
        """The limit for the jobs of a task queue; None: there is none. Jobs of no PanDA queue run at no site."""
        kind = self.queues.job_type[queue]
        return (self.site, kind) if kind in self.limited and self.queues.panda_queue[queue] is not None else None

    def priorities(self, queue: int) -> tuple[list[int], Floats]:
        """The priorities that there are in a task queue, and their weights."""
        found = self._drawn.get(queue)
        if found is None:
            priorities = list(self.levels[queue])
            found = self._drawn[queue] = (priorities, real_priorities(np.array(priorities, dtype=np.int64)))
        return found

    def candidates(self, pilot: Pilot, generator: np.random.Generator) -> Iterator[tuple[int, int]]:
        """Task queues (positions) and priorities, in the order of their tiers, drawn at random by their weights."""
        fitting, weights, _ = self.fitting(pilot)
        queues = self.queues
        order = draw_in_tiers(
            queues.tier[fitting], self.kinds[fitting], queues.type_weight[fitting], weights, generator
        )
        for queue in fitting[order].tolist():
            priorities, of_priorities = self.priorities(queue)
            for position in draw(of_priorities, generator).tolist():
                yield queue, priorities[position]

    def forget(self, queue: int, priority: int) -> None:
        """Nobody finds more of this priority in a task queue."""
        self.levels[queue].pop(priority, None)
        self._drawn.pop(queue, None)


class Views(dict[tuple[str, str, str, str | None], View]):
    """What is known of task queues, by what a pilot presents.

    It only says what to try, so that matchers of several threads may share it: at worst one tries in vain.

    Attributes:
        tokens: of running limits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tokens = LimitTokens()

    def forget_places(self, panda_queues: Collection[str] | None) -> None:
        """Read again what there is at these PanDA queues, at the next request; None: at all."""
        for place, view in list(self.items()):
            if panda_queues is None or view.panda_queue in panda_queues:
                self.pop(place, None)

    def of(self, pilot: Pilot, now: datetime) -> View | None:
        """What is known at the place of a pilot; None where that is too old, or nothing."""
        view = self.get(place_of(pilot))
        return view if view is not None and timedelta(0) <= now - view.read_at < VIEW_LASTS else None


def place_of(pilot: Pilot) -> tuple[str, str, str, str | None]:
    """By what views are kept."""
    return pilot.site, pilot.ce, pilot.queue, pilot.vo


def read_view(cursor: psycopg.Cursor[Any], pilot: Pilot, now: datetime, *, everywhere: bool = False) -> View:
    """Read what there is at the place of a pilot at ``now`` (aware).

    Args:
        cursor: of rows that are tuples.
        pilot: whose place it is.
        now: when it is read.
        everywhere: the task queues of other places too.
    """
    place = {"site": pilot.site, "ce": pilot.ce, "queue": pilot.queue}
    found = cursor.execute(_READ_PLACE, place, prepare=True).fetchone()
    number, panda_queue, tags = found if found is not None else (None, pilot.queue, ())
    pools = cursor.execute(_READ_POOLS_OF_PLACE, {"place": number, "vo": pilot.vo}, prepare=True).fetchall()
    statement = _EVERYWHERE if everywhere else _HERE
    rows = cursor.execute(statement, {"panda_queue": panda_queue}, prepare=True).fetchall()
    levels = [dict(zip(row[16], row[17], strict=True)) for row in rows]
    limits = cursor.execute(_READ_LIMITS, {"panda_queue": panda_queue}, prepare=True).fetchall()
    limited = frozenset(kind for _, kind in limits if kind is not None)
    names = frozenset(row[0] for row in pools)
    return View(now, number, panda_queue, names, _table(rows), levels, limits[0][0], limited, frozenset(tags))


def _table(rows: list[tuple[Any, ...]]) -> TaskQueueTable:
    def column(position: int) -> Texts:
        values = np.empty(len(rows), dtype=np.object_)
        values[:] = [row[position] for row in rows]
        return values

    def lists(position: int) -> Texts:
        values = np.empty(len(rows), dtype=np.object_)
        values[:] = [tuple(row[position] or ()) for row in rows]
        return values

    def whole(position: int) -> Ints:
        return np.array([row[position] for row in rows], dtype=np.int64)

    def real(position: int) -> Floats:
        values = np.array([row[position] for row in rows], dtype=np.float64)
        return np.maximum(values, np.finfo(np.float64).tiny)

    return TaskQueueTable(
        id=whole(0),
        vo=column(1),
        owner=column(2),
        owner_group=column(3),
        panda_queue=column(4),
        resource_type=column(5),
        sites=lists(6),
        banned_sites=lists(7),
        platforms=lists(8),
        cputime_class_s=whole(9),
        pool=column(10),
        specs=column(11),
        weight=real(12),
        job_type=column(13),
        tier=whole(14),
        type_weight=real(15),
    )
