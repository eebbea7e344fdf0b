"""What a matcher knows of the task queues at a place: which there are, and where the first job of each waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import psycopg

from broker.domain.arrays import Floats, Ints, Texts
from broker.pilots.model.matcher import MATCHES, Pilot, TaskQueueTable, draw, match_task_queues
from broker.pilots.model.task_queue_shares import real_priorities

VIEW_LASTS = timedelta(seconds=20)

_READ_PLACE = """
SELECT number, coalesce(panda_queue, queue) FROM broker.resource_queues
WHERE site = %(site)s AND ce = %(ce)s AND queue = %(queue)s"""
_READ_POOLS_OF_PLACE = """
SELECT pool.pool_id FROM broker.submit_pool_links AS link JOIN broker.submit_pools AS pool ON pool.number = link.pool
WHERE link.queue = %(place)s AND (%(vo)s::text IS NULL OR pool.vo = lower(%(vo)s))"""
_READ_TASK_QUEUES = """
SELECT queue.id, queue.vo, queue.owner, queue.owner_group, queue.panda_queue, queue.resource_type,
    nullif(queue.sites, '[]'), nullif(queue.banned_sites, '[]'), nullif(queue.platforms, '[]'),
    queue.cputime_class_s, queue.pool_id, queue.specs, queue.weight,
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
    _fitting: dict[Pilot, tuple[Ints, Floats]] = field(default_factory=dict)
    _drawn: dict[int, tuple[list[int], Floats]] = field(default_factory=dict)

    def fitting(self, pilot: Pilot) -> tuple[Ints, Floats]:
        """The task queues that a pilot may take from, and their weights."""
        found = self._fitting.get(pilot)
        if found is None:
            positions = np.flatnonzero(match_task_queues(self.queues, pilot, self.panda_queue, self.pools) == MATCHES)
            found = self._fitting[pilot] = (positions, self.queues.weight[positions])
        return found

    def priorities(self, queue: int) -> tuple[list[int], Floats]:
        """The priorities that there are in a task queue, and their weights."""
        found = self._drawn.get(queue)
        if found is None:
            priorities = list(self.levels[queue])
            found = self._drawn[queue] = (priorities, real_priorities(np.array(priorities, dtype=np.int64)))
        return found

    def candidates(self, pilot: Pilot, generator: np.random.Generator) -> Iterator[tuple[int, int]]:
        """Task queues (positions) and priorities, in an order drawn at random by their weights."""
        fitting, weights = self.fitting(pilot)
        for queue in fitting[draw(weights, generator)].tolist():
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
    """

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
    number, panda_queue = found if found is not None else (None, pilot.queue)
    pools = cursor.execute(_READ_POOLS_OF_PLACE, {"place": number, "vo": pilot.vo}, prepare=True).fetchall()
    statement = _EVERYWHERE if everywhere else _HERE
    rows = cursor.execute(statement, {"panda_queue": panda_queue}, prepare=True).fetchall()
    levels = [dict(zip(row[13], row[14], strict=True)) for row in rows]
    return View(now, number, panda_queue, frozenset(row[0] for row in pools), _table(rows), levels)


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

    weight: Floats = np.array([row[12] for row in rows], dtype=np.float64)
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
        weight=np.maximum(weight, np.finfo(np.float64).tiny),
    )
