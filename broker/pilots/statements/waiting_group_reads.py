"""Reading the task queues that hold jobs, for all matchers of a process: all, in parts one after another, or some."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Set
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import psycopg

from broker.domain.arrays import Floats, Texts
from broker.pilots.model.matcher import TaskQueueTable
from broker.pilots.model.waiting_groups import WaitingGroups

LASTS = timedelta(seconds=20)
"""Task queues are reread after this time, whether or not anybody notifies of changes."""
FEW = 1000
"""Up to this many task queues are reread at once for a pilot that gets nothing."""
PART = 200
"""Task queues read at a time while pilots are served: reading all at once takes half a second in which pilots wait."""
BEGINS_AGAIN_AFTER = LASTS / 4
"""Time between two beginnings of reading in parts, so that it ends long before the known state is too old."""
MOST_EMPTY = 0.5
"""Empty task queues are forgotten where they are a larger part of the known ones."""

# Where the first job of each priority waits. Levels without a job left are skipped.
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
    "part": "queue.id > %(after)s AND queue.id <= %(last)s",
    "here": "(queue.panda_queue = %(panda_queue)s OR queue.panda_queue IS NULL)",
}
_LAST_OF_PART = """
SELECT max(id), count(*)
FROM (SELECT id FROM broker.task_queues WHERE id > %(after)s ORDER BY id LIMIT %(most)s) AS part"""
_READ_QUEUES = """
SELECT id, vo, owner, owner_group, panda_queue, resource_type, nullif(sites, '[]'), nullif(banned_sites, '[]'),
    nullif(platforms, '[]'), cputime_class_s, pool_id, specs, job_type
FROM broker.task_queues WHERE id = ANY(%(queues)s)"""

_Levels = dict[int, tuple[float, float, dict[int, int]]]
_Order = dict[int, tuple[int, str | None]]


_LAST = 2**63 - 1


class _Read(NamedTuple):
    """What was read, by task queue: levels with weights, tier and type, and the digest of all that groups its jobs."""

    levels: _Levels
    order: _Order
    identities: dict[int, str]


class SharedGroups:
    """The task queues that the matchers of a process know.

    Args:
        part: task queues that are read at a time while pilots are served.

    Attributes:
        current: the state that was read last; None: none yet.
        part: task queues that are read at a time.
        has_requests: whether a pilot asked for a job since the last reading in parts began.
    """

    def __init__(self, part: int = PART) -> None:
        self.part = part
        self.current: WaitingGroups | None = None
        self.has_requests = False
        self._identities: dict[int, str] = {}
        self._read_at: datetime | None = None
        self._part_after = 0
        self._parts_began: datetime | None = None
        self._reading = threading.Lock()

    def known(self, now: datetime, lasts: timedelta = LASTS) -> WaitingGroups | None:
        """The known task queues at ``now`` (aware); None where they are too old, or not known."""
        read_at, groups = self._read_at, self.current
        return groups if read_at is not None and timedelta(0) <= now - read_at < lasts else None

    def read(self, cursor: psycopg.Cursor[Any], now: datetime, lasts: timedelta = LASTS) -> WaitingGroups:
        """The known task queues, read now where they are too old; ``cursor``: with tuple rows."""
        with self._reading:
            if not lasts and self.current is not None:
                self.current.forget_too_short()
            groups = self.known(now, lasts)
            if groups is None:
                groups = self._join(cursor, _read_levels(cursor, "all"), (0, _LAST), jobs_came=False)
                self._read_at, self._parts_began = now, None
            return groups

    def read_again(self, cursor: psycopg.Cursor[Any], now: datetime) -> WaitingGroups:
        """Read for a pilot that got nothing: once more where the known task queues are few, else as :meth:`read`."""
        few = self.current is None or len(self.current.levels) <= FEW
        return self.read(cursor, now, timedelta(0) if few else LASTS)

    def is_part_due(self, now: datetime) -> bool:
        """Whether a part is to be read at ``now`` (aware): reading has begun, or pilots ask and the state grows old."""
        if self._parts_began is not None:
            return True
        grows_old = self._read_at is None or now - self._read_at >= BEGINS_AGAIN_AFTER
        return self.current is not None and self.has_requests and grows_old

    def read_part(self, cursor: psycopg.Cursor[Any], now: datetime) -> None:
        """Read the next task queues in the order of their numbers; the last part completes the renewal."""
        with self._reading:
            if self.current is None:
                return
            if self._parts_began is None:
                self._part_after, self._parts_began, self.has_requests = 0, now, False
            after = self._part_after
            last, count = cursor.execute(_LAST_OF_PART, {"after": after, "most": self.part}, prepare=True).fetchall()[0]
            is_last = count < self.part
            part = (after, _LAST if is_last else last)
            read = _read_levels(cursor, "part", after=part[0], last=part[1])
            groups = self._join(cursor, read, part, jobs_came=False)
            self._part_after = part[1]
            if is_last:
                self._read_at, self._parts_began = self._parts_began, None
                self.current = _without_empty(groups)

    def read_some(self, cursor: psycopg.Cursor[Any], queues: Collection[int]) -> None:
        """Read these task queues, to which jobs came, in addition to the known ones."""
        with self._reading:
            if self.current is not None and queues:
                self._join(cursor, _read_levels(cursor, "some", queues=sorted(queues)), None, jobs_came=True)

    def _join(
        self, cursor: psycopg.Cursor[Any], read: _Read, part: tuple[int, int] | None, *, jobs_came: bool
    ) -> WaitingGroups:
        known, identities = self.current, self._identities
        if any(identities.get(number, identity) != identity for number, identity in read.identities.items()):
            # the numbers of another database: it was restored, or emptied
            known = self._read_at = self._parts_began = None
        groups = self.current = _joined(cursor, known, read, part, jobs_came=jobs_came)
        self._identities = read.identities if known is None else identities | read.identities
        return groups


def read_groups(cursor: psycopg.Cursor[Any], panda_queue: str | None) -> WaitingGroups:
    """The task queues from which pilots at a PanDA queue may get jobs, as they are now; for None all of them."""
    read = _read_levels(cursor, "all" if panda_queue is None else "here", panda_queue=panda_queue)
    return _joined(cursor, None, read, (0, _LAST), jobs_came=False)


def _read_levels(cursor: psycopg.Cursor[Any], which: str, **values: Any) -> _Read:
    read = _Read({}, {}, {})
    for row in cursor.execute(_READ_LEVELS.format(where=_WHERE[which]), values, prepare=True):
        number, identity, weight, type_weight, tier, kind, priorities, positions = row
        positive = max(weight, sys.float_info.min)
        read.levels[number] = (positive, type_weight, dict(zip(priorities, positions, strict=True)))
        read.order[number] = (tier, kind)
        read.identities[number] = identity
    return read


def _joined(
    cursor: psycopg.Cursor[Any],
    known: WaitingGroups | None,
    read: _Read,
    part: tuple[int, int] | None,
    *,
    jobs_came: bool,
) -> WaitingGroups:
    """The known task queues, updated with what was read; the rows of new ones are read.

    Args:
        cursor: cursor with tuple rows.
        known: task queues known before; None: none.
        read: levels that were read.
        part: those with numbers above the first and up to the second of these that were not found hold no job; None:
            only those that were found were checked.
        jobs_came: whether jobs came to those that were found.
    """
    levels, order = read.levels, read.order
    emptied = [] if known is None or part is None else known.numbers_within(*part, besides=levels)
    if known is not None and _same_order(known, order):
        changed = known.changed(levels, emptied, jobs_came=jobs_came)
        return _without_empty(changed) if part == (0, _LAST) else changed
    positions = {} if known is None else _holding(known, besides=frozenset(emptied), also=levels)
    fresh = [number for number in levels if number not in positions]
    rows = cursor.execute(_READ_QUEUES, {"queues": fresh}, prepare=True).fetchall() if fresh else []
    return _built(known, positions, {row[0]: row for row in rows}, levels, order)


def _holding(known: WaitingGroups, besides: Set[int], also: Collection[int]) -> dict[int, int]:
    """Positions by number of the task queues that are known to hold jobs, and of those in ``also``."""
    places = known.index.position.items()
    return {
        number: place for number, place in places if number in also or (known.levels[place] and number not in besides)
    }


def _without_empty(known: WaitingGroups) -> WaitingGroups:
    """The known task queues, without the empty ones where these are many."""
    if known.holding.sum() >= len(known.queues) * (1 - MOST_EMPTY):
        return known
    return _built(known, _holding(known, besides=frozenset(), also=()), {}, {}, {})


def _same_order(known: WaitingGroups, order: _Order) -> bool:
    index, queues = known.index, known.queues
    for number, (tier, kind) in order.items():
        place = index.position.get(number)
        if place is None or queues.tier[place] != tier or queues.job_type[place] != kind:
            return False
    return True


def _built(
    known: WaitingGroups | None,
    positions: dict[int, int],
    rows: dict[int, tuple[Any, ...]],
    levels: _Levels,
    order: _Order,
) -> WaitingGroups:
    """Combine the known task queues, with the levels just read where there are any, and the new ones."""
    tables, has = [], []
    if known is not None and positions:
        current = {number: levels.get(number) or known.at(place) for number, place in positions.items()}
        tables.append(_with_order(known.queues.at(np.array(list(positions.values()))), current, order))
        has += [level[2] for level in current.values()]
    new = [number for number in rows if number in levels]
    tables.append(_table([rows[number] for number in new], levels, order))
    has += [levels[number][2] for number in new]
    return WaitingGroups.of(TaskQueueTable.joined(tables), has)


def _with_order(table: TaskQueueTable, levels: _Levels, order: _Order) -> TaskQueueTable:
    tiers = zip(levels, table.tier.tolist(), strict=True)
    return replace(
        table,
        weight=np.array([weight for weight, _, _ in levels.values()], dtype=np.float64),
        tier=np.array([order[number][0] if number in order else tier for number, tier in tiers], dtype=np.int64),
        type_weight=np.array([of_type for _, of_type, _ in levels.values()], dtype=np.float64),
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
