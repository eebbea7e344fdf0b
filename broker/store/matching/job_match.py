"""Giving a job to a pilot: exactly one activated job, or the reason why there is none.

What a matcher remembers between two calls (which task queues there are, which pools are mapped to a queue) only says
what to try. It is read again after some seconds, and before a pilot gets nothing. Whether a job may go is decided by
the statement that takes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
from psycopg.rows import tuple_row

from broker.domain.arrays import Floats, Ints, Texts
from broker.pilots.job_request import JobConditions
from broker.pools.matcher import (
    CPUTIME_CLASSES_S,
    FIELDS,
    MATCHES,
    TAKEN_BY_OTHERS,
    Pilot,
    TaskQueueTable,
    draw,
    match_task_queues,
    no_match,
)
from broker.pools.shares import real_priorities
from broker.store.connection.names import Names
from broker.store.matching.take_sql import take_statement

VIEW_LASTS = timedelta(seconds=20)
#: Task queues and priorities that are tried for one pilot. Source: DIRAC's matcher, candidates and tries.
MOST_TRIES = 30
#: The time of use of a pool is not written more often than this.
USE_NOTED_EVERY = timedelta(seconds=60)

_READ_PLACE = """
SELECT number, coalesce(panda_queue, queue) FROM broker.resource_queues
WHERE site = %(site)s AND ce = %(ce)s AND queue = %(queue)s"""
_READ_POOLS_OF_PLACE = """
SELECT pool.pool_id FROM broker.submit_pool_links AS link JOIN broker.submit_pools AS pool ON pool.number = link.pool
WHERE link.queue = %(place)s AND (%(vo)s::text IS NULL OR pool.vo = lower(%(vo)s))"""
_READ_TASK_QUEUES = """
SELECT queue.id, queue.vo, queue.owner, queue.owner_group, queue.panda_queue, queue.resource_type,
    nullif(queue.sites, '[]'), nullif(queue.banned_sites, '[]'), nullif(queue.platforms, '[]'),
    queue.cputime_class_s, queue.pool_id, queue.weight,
    array_agg(level.priority ORDER BY level.priority), array_agg(level.first_position ORDER BY level.priority)
FROM broker.task_queues AS queue JOIN broker.task_queue_levels AS level ON level.task_queue = queue.id
WHERE {where} AND EXISTS (
    SELECT FROM broker.waiting_jobs AS job WHERE job.task_queue = queue.id AND job.priority = level.priority
      AND job.position >= level.first_position)
GROUP BY queue.id ORDER BY queue.id"""
_HERE = _READ_TASK_QUEUES.format(where="(queue.panda_queue = %(panda_queue)s OR queue.panda_queue IS NULL)")
_EVERYWHERE = _READ_TASK_QUEUES.format(where="true")
_READ_EARLIER_MATCHES = """
SELECT earlier.pilot, earlier.request_number, earlier.pandaid, earlier.jeditaskid, earlier.task_queue,
    earlier.panda_queue, earlier.pool
FROM unnest(%(pilots)s::text[], %(numbers)s::bigint[]) AS asked (pilot, request_number)
JOIN broker.matched_requests AS earlier USING (pilot, request_number)"""

NumberedRequest = tuple[str, int]
"""A pilot by name, and the number of its request."""
Asked = tuple[Pilot, NumberedRequest | None]
"""A pilot that wants a job, and its request where that has a number."""


@dataclass(frozen=True)
class Match:
    """A job that was given to the pilot: its status is ``sent``.

    Attributes:
        pandaid: the job.
        jeditaskid: its task.
        task_queue: where it waited.
        panda_queue: of the pilot.
        pool: SubmitPool of the job; None without.
    """

    pandaid: int
    jeditaskid: int | None
    task_queue: int
    panda_queue: str
    pool: str | None


@dataclass(frozen=True)
class NoMatch:
    """Why a pilot got no job.

    Attributes:
        panda_queue: of the pilot.
        reason: the field nearest to a match, ``nothing_waits`` or ``taken_by_others``.
        rejected: task queues that failed, by the first field that did not fit.
    """

    panda_queue: str
    reason: str
    rejected: dict[str, int]


MatchFound = Match | NoMatch


@dataclass
class _View:
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

    def forget(self, queue: int, priority: int) -> None:
        """Nobody finds more of this priority in a task queue."""
        self.levels[queue].pop(priority, None)
        self._drawn.pop(queue, None)


class Views(dict[tuple[str, str, str, str | None], _View]):
    """What is known of task queues, by what a pilot presents. One matcher at a time may use it."""


class Matcher:
    """Gives jobs to pilots over one connection in autocommit mode.

    Args:
        connection: each statement is a transaction of its own.
        names: of the schemas.
        generator: of the draw.
        views: what is remembered between calls; another matcher may go on with it later. None: nothing yet.
        conditions: on single jobs; None: none.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        names: Names,
        generator: np.random.Generator,
        views: Views | None = None,
        conditions: JobConditions | None = None,
    ) -> None:
        self._cursor = connection.cursor(row_factory=tuple_row)
        self._generator = generator
        self._conditions = _values_of(conditions)
        self._names = names
        self._statements: dict[tuple[bool, bool, bool], str] = {}
        self._views = Views() if views is None else views
        self._request: NumberedRequest | None = None

    def match_together(self, asked: Sequence[Asked], now: datetime) -> list[tuple[MatchFound, bool]]:
        """As :meth:`match_numbered` for several pilots, in one transaction: one commit for all of them.

        Where that fails (the same request came twice at once, or another transaction was in the way), nothing of it
        was kept, and each is matched alone.

        Raises:
            psycopg.OperationalError: the connection is lost. A commit that was under way may have been made: its jobs
                are ``sent``, and requests with a number find them again.
        """
        if len(asked) == 1:
            return [self._match_one(*asked[0], now)]
        try:
            with self._cursor.connection.transaction():
                earlier = self._earlier_of([request for _, request in asked if request is not None])
                return [
                    (earlier[request], True) if request in earlier else self._match_in_group(pilot, request, now)
                    for pilot, request in asked
                ]
        except (psycopg.errors.UniqueViolation, psycopg.errors.TransactionRollback):
            self._views.clear()  # they count jobs as taken that are not
            return [self._match_one(pilot, request, now) for pilot, request in asked]

    def _match_in_group(self, pilot: Pilot, request: NumberedRequest | None, now: datetime) -> tuple[MatchFound, bool]:
        self._request = request
        try:
            found = self.match(pilot, now)
        finally:
            self._request = None
        earlier = None if request is None or isinstance(found, Match) else self._earlier(request)
        return (found, False) if earlier is None else (earlier, True)

    def _match_one(self, pilot: Pilot, request: NumberedRequest | None, now: datetime) -> tuple[MatchFound, bool]:
        return (self.match(pilot, now), False) if request is None else self.match_numbered(pilot, now, request)

    def match_numbered(self, pilot: Pilot, now: datetime, request: NumberedRequest) -> tuple[MatchFound, bool]:
        """As :meth:`match`, but a request that got a job gets the same one again, and no other.

        Returns:
            What was found, and whether it was found by an earlier request of the same pilot and number.
        """
        try:
            return self._match_in_group(pilot, request, now)
        except psycopg.errors.UniqueViolation:
            # the statement that took another job was undone as a whole
            earlier = self._earlier(request)
            return (NoMatch(pilot.queue, TAKEN_BY_OTHERS, {}), False) if earlier is None else (earlier, True)

    def _earlier(self, request: NumberedRequest) -> Match | None:
        """What the same request got before; None for nothing."""
        return self._earlier_of([request]).get(request)

    def _earlier_of(self, requests: Sequence[NumberedRequest]) -> dict[NumberedRequest | None, Match]:
        """What the same requests got before."""
        if not requests:
            return {}
        values = {"pilots": [pilot for pilot, _ in requests], "numbers": [number for _, number in requests]}
        rows = self._cursor.execute(_READ_EARLIER_MATCHES, values, prepare=True).fetchall()
        return {(pilot, number): Match(*match) for pilot, number, *match in rows}

    def match(self, pilot: Pilot, now: datetime) -> MatchFound:
        """One job for a pilot at ``now`` (aware)."""
        key = (pilot.site, pilot.ce, pilot.queue, pilot.vo)
        view = self._views.get(key)
        if view is not None and timedelta(0) <= now - view.read_at < VIEW_LASTS:
            found = self._try(view, pilot, now)
            if found is not None:
                return found
        view = self._views[key] = self._read(pilot, now, _HERE)
        return self._try(view, pilot, now) or self._why_nothing(view, pilot)

    def explain(self, pilot: Pilot, now: datetime) -> NoMatch:
        """Why the task queues, those of all other queues too, do not fit; nothing is taken."""
        return self._why_nothing(self._read(pilot, now, _EVERYWHERE), pilot)

    def pools_of(self, pilot: Pilot, now: datetime) -> Collection[str]:
        """The pools that are mapped to the pilot's queue now."""
        return self._read(pilot, now, _HERE).pools

    def _why_nothing(self, view: _View, pilot: Pilot) -> NoMatch:
        """The reasons of the task queues, which held jobs when the view was read."""
        reasons = match_task_queues(view.queues, pilot, view.panda_queue, view.pools)
        # the pilot has enough for some jobs of the class, but those that are left need more; the last has no upper end
        classes_s = view.queues.cputime_class_s
        open_ended = classes_s == CPUTIME_CLASSES_S[-1]
        too_long = (reasons == MATCHES) & (open_ended | (classes_s > (pilot.cputime_s or 0)))
        reasons[too_long] = FIELDS.index("cpu_time")
        return NoMatch(view.panda_queue, *no_match(reasons))

    def _try(self, view: _View, pilot: Pilot, now: datetime) -> Match | None:
        fitting, weights = view.fitting(pilot)
        tries = 0
        for queue in fitting[draw(weights, self._generator)].tolist():
            priorities, of_priorities = view.priorities(queue)
            for position in draw(of_priorities, self._generator).tolist():
                if tries == MOST_TRIES:
                    return None
                tries += 1
                found = self._take_one(view, queue, priorities[position], pilot, now)
                if found is not None:
                    return found
        return None

    def _take_one(self, view: _View, queue: int, priority: int, pilot: Pilot, now: datetime) -> Match | None:
        """A job of one task queue and priority; None when there is none that this pilot could run."""
        is_timed, levels = bool(view.queues.cputime_class_s[queue]), view.levels[queue]
        level = levels.get(priority)
        if level is None:
            return None
        values = self._values(view, queue, pilot, now)
        statement = self._statement(values["pool"] is not None, is_timed)
        values |= {"priority": priority, "first": level}
        while True:
            row = self._cursor.execute(statement, values, prepare=True).fetchone()
            if row is None:
                # nobody finds more there than this pilot
                if not is_timed and not self._conditions:
                    view.forget(queue, priority)
                return None
            pandaid, first, jeditaskid, is_sent = row
            # rows that come before were taken, so the next search need not begin among them
            values["first"] = first
            if not is_timed and not self._conditions:
                levels[priority] = first
            if is_sent:
                return Match(pandaid, jeditaskid, values["queue"], view.panda_queue, values["pool"])

    def _values(self, view: _View, queue: int, pilot: Pilot, now: datetime) -> dict[str, Any]:
        values = {
            "queue": int(view.queues.id[queue]),
            "pool": view.queues.pool[queue],
            "place": view.place,
            "cputime_s": pilot.cputime_s or 0,
            "now": now.astimezone(UTC).replace(tzinfo=None),
            "aware_now": now,
            "noted_before": now - USE_NOTED_EVERY,
            **self._conditions,
        }
        if self._request is not None:
            values |= {
                "panda_queue": view.panda_queue,
                "pilot": self._request[0],
                "request_number": self._request[1],
            }
        return values

    def _statement(self, pooled: bool, timed: bool) -> str:
        case = (pooled, timed, self._request is not None)
        found = self._statements.get(case)
        if found is None:
            found = self._statements[case] = take_statement(
                self._names, pooled=pooled, timed=timed, numbered=case[2], conditions=bool(self._conditions)
            )
        return found

    def _read(self, pilot: Pilot, now: datetime, statement: str) -> _View:
        place = {"site": pilot.site, "ce": pilot.ce, "queue": pilot.queue}
        found = self._cursor.execute(_READ_PLACE, place, prepare=True).fetchone()
        number, panda_queue = found if found is not None else (None, pilot.queue)
        pools = self._cursor.execute(_READ_POOLS_OF_PLACE, {"place": number, "vo": pilot.vo}, prepare=True).fetchall()
        rows = self._cursor.execute(statement, {"panda_queue": panda_queue}, prepare=True).fetchall()
        levels = [dict(zip(row[12], row[13], strict=True)) for row in rows]
        return _View(now, number, panda_queue, frozenset(row[0] for row in pools), _table(rows), levels)


def _values_of(conditions: JobConditions | None) -> dict[str, Any]:
    """The parameters of the conditions; none where nothing is asked."""
    if conditions is None or conditions == JobConditions():
        return {}
    lists = {
        name: None if value is None else list(value)
        for name, value in (("labels", conditions.labels), ("job_labels", conditions.job_labels))
    }
    return asdict(conditions) | lists


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

    weight: Floats = np.array([row[11] for row in rows], dtype=np.float64)
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
        weight=np.maximum(weight, np.finfo(np.float64).tiny),
    )
