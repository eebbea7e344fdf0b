"""Giving a job to a pilot: exactly one activated job, or the reason why there is none.

What a matcher remembers between two calls (which task queues there are, which pools are mapped to a queue) only says
what to try. It is read again after some seconds, and before a pilot gets nothing. Whether a job may go is decided by
the statement that takes it.
"""

from __future__ import annotations

from collections.abc import Collection
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
from broker.store.writes.status_log import note_status

VIEW_LASTS = timedelta(seconds=20)
#: Task queues and priorities that are tried for one pilot. Source: DIRAC's matcher, candidates and tries.
MOST_TRIES = 30
#: The time of use of a pool is not written more often than this.
USE_NOTED_EVERY = timedelta(seconds=60)
_ANY_CPUTIME_S = 2**62

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
# One statement, one transaction. A row that another matcher holds is passed over; one whose job is not activated any
# more is removed without a job. CONDITIONS are those on single jobs.
_TAKE = """
WITH picked AS MATERIALIZED (
    SELECT job.pandaid FROM broker.waiting_jobs AS job
    WHERE job.task_queue = %(queue)s AND job.priority = %(priority)s AND job.position >= %(first)s
      AND job.cputime_s <= %(cputime_s)s
      AND (%(pool)s::text IS NULL OR EXISTS (
            SELECT FROM broker.submit_pool_links AS link JOIN broker.submit_pools AS known ON known.number = link.pool
            WHERE link.queue = %(place)s AND known.pool_id = %(pool)s))
      CONDITIONS
    ORDER BY job.position LIMIT 1 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM broker.waiting_jobs AS job USING picked WHERE job.pandaid = picked.pandaid
    RETURNING job.pandaid, job.position
), sent AS (
    UPDATE {panda}.jobsactive4 AS job
    SET jobstatus = 'sent', statechangetime = %(now)s, modificationtime = %(now)s
    FROM gone WHERE job.pandaid = gone.pandaid AND job.jobstatus = 'activated'
    RETURNING job.pandaid, job.jeditaskid, job.jobstatus, job.prodsourcelabel, job.cloud, job.computingsite
), logged AS (NOTE_STATUS), noted AS (
    INSERT INTO broker.matched_requests
        (pilot, request_number, pandaid, jeditaskid, task_queue, panda_queue, pool, matched_at)
    SELECT %(pilot)s::text, %(request_number)s::bigint, sent.pandaid, sent.jeditaskid, %(queue)s::bigint,
        %(panda_queue)s::text, %(pool)s::text, %(aware_now)s::timestamptz
    FROM sent WHERE %(pilot)s::text IS NOT NULL
), used AS (
    UPDATE broker.submit_pools SET last_used_at = %(aware_now)s
    WHERE pool_id = %(pool)s AND last_used_at < %(noted_before)s AND EXISTS (SELECT FROM gone)
)
SELECT gone.pandaid, gone.position, sent.jeditaskid, sent.pandaid IS NOT NULL
FROM gone LEFT JOIN sent USING (pandaid)""".replace("NOTE_STATUS", note_status("sent", "%(now)s"))
# A row whose job is gone passes, so that it is removed.
_CONDITIONS = """AND NOT EXISTS (
    SELECT FROM {panda}.jobsactive4 AS active WHERE active.pandaid = job.pandaid AND (
        %(labels)s::text[] IS NOT NULL AND active.prodsourcelabel <> ALL(%(labels)s)
            AND (%(processing_type)s::text IS NULL OR active.processingtype IS DISTINCT FROM %(processing_type)s)
        OR coalesce(active.job_label, active.prodsourcelabel) <> ALL(%(job_labels)s::text[])
        OR active.minramcount > nullif(%(memory_mb)s::bigint, 0)
        OR active.maxdiskcount > nullif(%(disk_mb)s::bigint, 0)
        OR active.maxwalltime > nullif(%(walltime_s)s::bigint, 0)
        OR active.jeditaskid IS DISTINCT FROM coalesce(%(task)s::bigint, active.jeditaskid)
        OR active.produserid IS DISTINCT FROM coalesce(%(user)s::text, active.produserid)))"""


_READ_EARLIER_MATCH = """
SELECT pandaid, jeditaskid, task_queue, panda_queue, pool FROM broker.matched_requests
WHERE pilot = %(pilot)s AND request_number = %(request_number)s"""

NumberedRequest = tuple[str, int]
"""A pilot by name, and the number of its request."""


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


@dataclass(frozen=True)
class _Level:
    """The jobs of one priority in a task queue: those before ``first`` have been taken, as far as is known."""

    priority: int
    first: int


@dataclass
class _View:
    """What is known of the task queues at one place."""

    read_at: datetime
    place: int | None
    panda_queue: str
    pools: frozenset[str]
    queues: TaskQueueTable
    levels: list[dict[int, _Level]]
    _fitting: dict[Pilot, Ints] = field(default_factory=dict)

    def fitting(self, pilot: Pilot) -> Ints:
        """The task queues that a pilot may take from."""
        if pilot not in self._fitting:
            self._fitting[pilot] = np.flatnonzero(
                match_task_queues(self.queues, pilot, self.panda_queue, self.pools) == MATCHES
            )
        return self._fitting[pilot]


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
        self._take = names.sql(_TAKE.replace("CONDITIONS", _CONDITIONS if self._conditions else ""))
        self._views = Views() if views is None else views
        self._request: NumberedRequest | None = None

    def match_numbered(self, pilot: Pilot, now: datetime, request: NumberedRequest) -> tuple[MatchFound, bool]:
        """As :meth:`match`, but a request that got a job gets the same one again, and no other.

        Returns:
            What was found, and whether it was found by an earlier request of the same pilot and number.
        """
        self._request = request
        try:
            found = self.match(pilot, now)
        except psycopg.errors.UniqueViolation:
            # the statement that took another job was undone as a whole
            found = NoMatch(pilot.queue, TAKEN_BY_OTHERS, {})
        finally:
            self._request = None
        earlier = None if isinstance(found, Match) else self._earlier(request)
        return (found, False) if earlier is None else (earlier, True)

    def _earlier(self, request: NumberedRequest) -> Match | None:
        """What the same request got before; None for nothing."""
        values = {"pilot": request[0], "request_number": request[1]}
        row = self._cursor.execute(_READ_EARLIER_MATCH, values).fetchone()
        return None if row is None else Match(*row)

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
        fitting = view.fitting(pilot)
        order = fitting[draw(view.queues.weight[fitting], self._generator)]
        tries = 0
        for queue in order.tolist():
            levels = list(view.levels[queue].values())
            weights = real_priorities(np.array([level.priority for level in levels], dtype=np.int64))
            for position in draw(weights, self._generator).tolist():
                if tries == MOST_TRIES:
                    return None
                tries += 1
                found = self._take_one(view, queue, levels[position], pilot, now)
                if found is not None:
                    return found
        return None

    def _take_one(self, view: _View, queue: int, level: _Level, pilot: Pilot, now: datetime) -> Match | None:
        """A job of one task queue and priority; None when there is none that this pilot could run."""
        pool = view.queues.pool[queue]
        values = {
            "queue": int(view.queues.id[queue]),
            "priority": level.priority,
            "cputime_s": (pilot.cputime_s or 0) if view.queues.cputime_class_s[queue] else _ANY_CPUTIME_S,
            "pool": pool,
            "place": view.place,
            "now": now.astimezone(UTC).replace(tzinfo=None),
            "aware_now": now,
            "noted_before": now - USE_NOTED_EVERY,
            **self._conditions,
            "panda_queue": view.panda_queue,
            "pilot": None if self._request is None else self._request[0],
            "request_number": None if self._request is None else self._request[1],
        }
        first = level.first
        while True:
            row = self._cursor.execute(self._take, {**values, "first": first}).fetchone()
            if row is None:
                # nobody finds more there than this pilot
                if not view.queues.cputime_class_s[queue] and not self._conditions:
                    del view.levels[queue][level.priority]
                return None
            pandaid, first, jeditaskid, is_sent = row
            # rows that come before were taken, so the next search need not begin among them
            if not self._conditions:
                view.levels[queue][level.priority] = _Level(level.priority, first)
            if is_sent:
                return Match(pandaid, jeditaskid, values["queue"], view.panda_queue, pool)

    def _read(self, pilot: Pilot, now: datetime, statement: str) -> _View:
        place = {"site": pilot.site, "ce": pilot.ce, "queue": pilot.queue}
        found = self._cursor.execute(_READ_PLACE, place).fetchone()
        number, panda_queue = found if found is not None else (None, pilot.queue)
        pools = self._cursor.execute(_READ_POOLS_OF_PLACE, {"place": number, "vo": pilot.vo}).fetchall()
        rows = self._cursor.execute(statement, {"panda_queue": panda_queue}).fetchall()
        levels = [{level: _Level(level, first) for level, first in zip(row[12], row[13], strict=True)} for row in rows]
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
