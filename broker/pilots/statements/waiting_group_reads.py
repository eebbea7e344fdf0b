"""Reading the task queues that hold jobs, for all matchers of a process: all of them, or those that were told of."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import psycopg

from broker.domain.arrays import Floats, Texts
from broker.pilots.model.matcher import TaskQueueTable
from broker.pilots.model.waiting_groups import WaitingGroups

LASTS = timedelta(seconds=20)
"""What is known of the task queues is read again after this time, whoever tells of changes."""
FEW = 1000
"""As many task queues are read again at once for a pilot that gets nothing."""
MOST_EMPTY = 0.5
"""A larger part of the known task queues that hold no job is forgotten."""

# Where the first job of each priority waits. Levels of which none is left are passed over.
_READ_LEVELS = """
SELECT queue.id, queue.identity, queue.weight, queue.type_weight, queue.tier, queue.job_type,
    array_agg(level.priority ORDER BY level.priority), array_agg(job.position ORDER BY level.priority)
FROM broker.task_queues AS queue JOIN broker.task_queue_levels AS level ON level.task_queue = queue.id
CROSS JOIN LATERAL (
    SELECT waiting.position FROM broker.waiting_jobs AS waiting
    WHERE waiting.task_queue = queue.id AND waiting.priority = level.priority
      AND waiting.position >= level.first_position
    ORDER BY waiting.position LIMIT 1) AS job
WHERE {where} GROUP BY queue.id"""
_WHERE = {
    "all": "true",
    "some": "queue.id = ANY(%(queues)s)",
    "here": "(queue.panda_queue = %(panda_queue)s OR queue.panda_queue IS NULL)",
}
_READ_QUEUES = """
SELECT id, vo, owner, owner_group, panda_queue, resource_type, nullif(sites, '[]'), nullif(banned_sites, '[]'),
    nullif(platforms, '[]'), cputime_class_s, pool_id, specs, job_type
FROM broker.task_queues WHERE id = ANY(%(queues)s)"""

_Levels = dict[int, tuple[float, float, dict[int, int]]]
_Order = dict[int, tuple[int, str | None]]


class _Read(NamedTuple):
    """What was read, by task queue: levels with weights, tier and type, and the digest of all that groups its jobs."""

    levels: _Levels
    order: _Order
    identities: dict[int, str]


class SharedGroups:
    """What the matchers of a process know of the task queues.

    Attributes:
        current: the last that was read; None: nothing yet.
        asked: whether a pilot asked since somebody set it to False.
    """

    def __init__(self) -> None:
        self.current: WaitingGroups | None = None
        self.asked = False
        self._identities: dict[int, str] = {}
        self._read_at: datetime | None = None
        self._reading = threading.Lock()

    def known(self, now: datetime, lasts: timedelta = LASTS) -> WaitingGroups | None:
        """What is known at ``now`` (aware); None where that is too old, or nothing."""
        read_at, found = self._read_at, self.current
        return found if read_at is not None and timedelta(0) <= now - read_at < lasts else None

    def read(self, cursor: psycopg.Cursor[Any], now: datetime, lasts: timedelta = LASTS) -> WaitingGroups:
        """What is known, read now where it is too old; ``cursor``: of rows that are tuples."""
        with self._reading:
            if not lasts and self.current is not None:
                self.current.forget_too_short()
            found = self.known(now, lasts)
            if found is None:
                found = self._join(cursor, _read_levels(cursor, "all"), all_known=True)
                self._read_at = now
            return found

    def read_again(self, cursor: psycopg.Cursor[Any], now: datetime) -> WaitingGroups:
        """For a pilot that got nothing: read what is known once more where it is little, else as :meth:`read`."""
        few = self.current is None or len(self.current.levels) <= FEW
        return self.read(cursor, now, timedelta(0) if few else LASTS)

    def read_some(self, cursor: psycopg.Cursor[Any], queues: Collection[int]) -> None:
        """Jobs came to these task queues: read them, beside what is known."""
        with self._reading:
            if self.current is not None and queues:
                self._join(cursor, _read_levels(cursor, "some", queues=sorted(queues)), all_known=False)

    def _join(self, cursor: psycopg.Cursor[Any], read: _Read, *, all_known: bool) -> WaitingGroups:
        known, identities = self.current, self._identities
        if any(identities.get(number, identity) != identity for number, identity in read.identities.items()):
            known = None  # the numbers of another database: it was restored, or emptied
        found = self.current = _joined(cursor, known, read, all_known=all_known)
        self._identities = read.identities if all_known else identities | read.identities
        return found


def read_groups(cursor: psycopg.Cursor[Any], panda_queue: str | None) -> WaitingGroups:
    """The task queues from which pilots at a PanDA queue may get jobs, as they are now; None: all."""
    read = _read_levels(cursor, "all" if panda_queue is None else "here", panda_queue=panda_queue)
    return _joined(cursor, None, read, all_known=True)


def _read_levels(cursor: psycopg.Cursor[Any], which: str, **values: Any) -> _Read:
    found = _Read({}, {}, {})
    for row in cursor.execute(_READ_LEVELS.format(where=_WHERE[which]), values, prepare=True):
        number, identity, weight, type_weight, tier, kind, priorities, positions = row
        positive = max(weight, float(np.finfo(np.float64).tiny))
        found.levels[number] = (positive, type_weight, dict(zip(priorities, positions, strict=True)))
        found.order[number] = (tier, kind)
        found.identities[number] = identity
    return found


def _joined(cursor: psycopg.Cursor[Any], known: WaitingGroups | None, read: _Read, *, all_known: bool) -> WaitingGroups:
    """What is known, with what was found; task queues that are new are read."""
    levels, order = read.levels, read.order
    if known is not None and _same_order(known, order, len(levels) if all_known else None):
        return known.changed(levels, all_known=all_known)
    places = {} if known is None else known.index.position
    kept = {
        number: place
        for number, place in places.items()
        if known is not None and (number in levels if all_known else known.levels[place])
    }
    fresh = [number for number in levels if number not in kept]
    rows = cursor.execute(_READ_QUEUES, {"queues": fresh}, prepare=True).fetchall() if fresh else []
    return _built(known, kept, {row[0]: row for row in rows}, levels, order)


def _same_order(known: WaitingGroups, order: _Order, count: int | None) -> bool:
    index, queues = known.index, known.queues
    for number, (tier, kind) in order.items():
        place = index.position.get(number)
        if place is None or queues.tier[place] != tier or queues.job_type[place] != kind:
            return False
    return count is None or count >= len(queues) * (1 - MOST_EMPTY)


def _built(
    known: WaitingGroups | None, kept: dict[int, int], rows: dict[int, tuple[Any, ...]], levels: _Levels, order: _Order
) -> WaitingGroups:
    """Task queues that were known, those of them that were found as they are now, and those that are new."""
    tables, has = [], []
    if known is not None and kept:
        found = {number: levels.get(number) or known.at(place) for number, place in kept.items()}
        tables.append(_with_order(known.queues.at(np.array(list(kept.values()))), found, order))
        has += [one[2] for one in found.values()]
    new = [number for number in rows if number in levels]
    tables.append(_table([rows[number] for number in new], levels, order))
    has += [levels[number][2] for number in new]
    return WaitingGroups.of(TaskQueueTable.joined(tables), has)


def _with_order(table: TaskQueueTable, found: _Levels, order: _Order) -> TaskQueueTable:
    tiers = zip(found, table.tier.tolist(), strict=True)
    return replace(
        table,
        weight=np.array([weight for weight, _, _ in found.values()], dtype=np.float64),
        tier=np.array([order[number][0] if number in order else tier for number, tier in tiers], dtype=np.int64),
        type_weight=np.array([of_type for _, of_type, _ in found.values()], dtype=np.float64),
    )


def _table(rows: list[tuple[Any, ...]], levels: _Levels, order: _Order) -> TaskQueueTable:
    def column(position: int) -> Texts:
        values = np.empty(len(rows), dtype=np.object_)
        values[:] = [row[position] for row in rows]
        return values

    def lists(position: int) -> Texts:
        values = np.empty(len(rows), dtype=np.object_)
        values[:] = [tuple(row[position] or ()) for row in rows]
        return values

    def real(place: int) -> Floats:
        return np.array([levels[row[0]][place] for row in rows], dtype=np.float64)

    return TaskQueueTable(
        id=np.array([row[0] for row in rows], dtype=np.int64),
        vo=column(1),
        owner=column(2),
        owner_group=column(3),
        panda_queue=column(4),
        resource_type=column(5),
        sites=lists(6),
        banned_sites=lists(7),
        platforms=lists(8),
        cputime_class_s=np.array([row[9] for row in rows], dtype=np.int64),
        pool=column(10),
        specs=column(11),
        weight=real(0),
        job_type=column(12),
        tier=np.array([order[row[0]][0] for row in rows], dtype=np.int64),
        type_weight=real(1),
    )
