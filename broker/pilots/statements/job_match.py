"""Giving a job to a pilot: exactly one activated job, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import numpy as np
import psycopg
from psycopg.rows import tuple_row

from broker.domain.arrays import Bools
from broker.domain.instants import naive
from broker.pilots.model.job_request import JobConditions
from broker.pilots.model.matcher import (
    CPUTIME_CLASSES_S,
    FIELDS,
    MATCHES,
    TAKEN_BY_OTHERS,
    Pilot,
    no_match,
)
from broker.pilots.statements.group_match import USE_NOTED_EVERY, GroupMatch, Take, generator_of
from broker.pilots.statements.held_jobs import held_here
from broker.pilots.statements.matches import (
    AVOID_NODE,
    RETRY_ELSEWHERE,
    Match,
    MatchOutcome,
    MatchRequest,
    NoMatch,
    NumberedRequest,
)
from broker.pilots.statements.running_limits import refill
from broker.pilots.statements.take_statement import take_statement
from broker.pilots.statements.task_queue_views import View, Views, read_place, read_view
from broker.store.connection.tables import Names

#: Most task queues and priorities tried for one pilot. Source: DIRAC's matcher, candidates and tries.
MOST_TRIES = 30

_READ_EARLIER_MATCHES = """
SELECT earlier.pilot, earlier.request_number, earlier.pandaid, earlier.jeditaskid, earlier.task_queue,
    earlier.panda_queue, earlier.pool, queue.specs
FROM unnest(%(pilots)s::text[], %(numbers)s::bigint[]) AS asked (pilot, request_number)
JOIN broker.matched_requests AS earlier USING (pilot, request_number)
LEFT JOIN broker.task_queues AS queue ON queue.id = earlier.task_queue"""


class Matcher:
    """Gives jobs to pilots over one connection in autocommit mode.

    Args:
        connection: each statement is a transaction of its own.
        names: names of the schemas.
        generator: random generator of the draw.
        views: state kept between calls, which another matcher may reuse later; None: none yet.
        conditions: conditions on single jobs; None: none.
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
        self._statements: dict[tuple[bool, ...], str] = {}
        self._views = Views() if views is None else views
        self._request: NumberedRequest | None = None

    def match_together(self, requests: Sequence[MatchRequest], now: datetime) -> list[tuple[MatchOutcome, bool]]:
        """Match several pilots like :meth:`match_numbered`, where possible with one statement and one commit for all.

        If that fails (the same request came twice, or another transaction was in the way), nothing of it is kept, and
        each pilot is matched alone.

        Raises:
            psycopg.OperationalError: the connection is lost. A commit under way may have succeeded: its jobs are
                ``sent``, and requests with a number find them again.
        """
        self.look(requests, now)
        group = self.group(requests, now)
        try:
            while (take := group.next_take()) is not None:
                group.settle(self._take(take))
        except (psycopg.errors.UniqueViolation, psycopg.errors.TransactionRollback):
            group.put_back()  # each alone
        return [
            self.match_one(*one, now) if match is None else (match, False)
            for one, match in zip(requests, group.matches, strict=True)
        ]

    def group(self, requests: Sequence[MatchRequest], now: datetime) -> GroupMatch:
        """A group match at ``now`` (aware) of pilots whose places are known; its statements are not run here."""
        return GroupMatch(requests, now, self._views, self._generator, self._names)

    def unknown(self, requests: Sequence[MatchRequest], now: datetime) -> bool:
        """Whether something has to be read for one of these pilots first: task queues at its place, or tokens."""
        tokens = self._views.tokens
        for pilot, _ in requests:
            view = self._views.of(pilot, now)
            if view is None or tokens.wanting(view.limits_for(pilot), now):
                return True
        return False

    def look(self, requests: Sequence[MatchRequest], now: datetime) -> None:
        """Read the task queues at the places of these pilots, where the known ones are too old, and lease tokens."""
        for pilot, _ in requests:
            self._refill(self._views.look(self._cursor, pilot, now), pilot, now)

    def _refill(self, view: View, pilot: Pilot, now: datetime) -> None:
        """Lease tokens of the limits that hold for this pilot, where none are left."""
        pairs = view.limits_for(pilot)
        if pairs and self._views.tokens.wanting(pairs, now):
            refill(self._cursor.connection, self._names, self._views.tokens, pairs, now)

    def _take(self, take: Take) -> list[tuple[Any, ...]]:
        with psycopg.RawCursor(self._cursor.connection, row_factory=tuple_row) as cursor:
            return cursor.execute(take.statement, take.values, prepare=True).fetchall()

    def _match_in_group(
        self, pilot: Pilot, request: NumberedRequest | None, now: datetime
    ) -> tuple[MatchOutcome, bool]:
        self._request = request
        try:
            outcome = self.match(pilot, now)
        finally:
            self._request = None
        earlier = None if request is None or isinstance(outcome, Match) else self._earlier(request)
        return (outcome, False) if earlier is None else (earlier, True)

    def match_one(self, pilot: Pilot, request: NumberedRequest | None, now: datetime) -> tuple[MatchOutcome, bool]:
        """Match one pilot, with or without a numbered request; like :meth:`match_numbered`."""
        return (self.match(pilot, now), False) if request is None else self.match_numbered(pilot, now, request)

    def match_numbered(self, pilot: Pilot, now: datetime, request: NumberedRequest) -> tuple[MatchOutcome, bool]:
        """Match like :meth:`match`, but a request that got a job gets the same one again, and no other.

        Returns:
            The outcome, and whether an earlier request of the same pilot and number got it.
        """
        try:
            return self._match_in_group(pilot, request, now)
        except psycopg.errors.UniqueViolation:
            # the statement that took another job was undone as a whole
            earlier = self._earlier(request)
            return (NoMatch(pilot.queue, TAKEN_BY_OTHERS, {}), False) if earlier is None else (earlier, True)

    def _earlier(self, request: NumberedRequest) -> Match | None:
        """The job that the same request got before; None if it got none."""
        return self._earlier_of([request]).get(request)

    def _earlier_of(self, requests: Sequence[NumberedRequest]) -> dict[NumberedRequest | None, Match]:
        """The jobs that the same requests got before."""
        if not requests:
            return {}
        values = {"pilots": [pilot for pilot, _ in requests], "numbers": [number for _, number in requests]}
        rows = self._cursor.execute(_READ_EARLIER_MATCHES, values, prepare=True).fetchall()
        return {(pilot, number): Match(*match) for pilot, number, *match in rows}

    def match(self, pilot: Pilot, now: datetime) -> MatchOutcome:
        """Match a pilot at ``now`` (aware): take one job, or explain why there is none."""
        view = self._views.of(pilot, now)
        if view is not None:
            match = self._try(view, pilot, now)
            if match is not None:
                return match
        view = self._views.look_again(self._cursor, pilot, now)
        match = self._try(view, pilot, now)
        if match is not None:
            return match
        return self._why_nothing(view, pilot, now, view.here(pilot))

    def explain(self, pilot: Pilot, now: datetime) -> NoMatch:
        """Explain why the task queues, including those of all other queues, do not fit; no job is taken."""
        view = read_view(self._cursor, pilot, now, everywhere=True)
        return self._why_nothing(view, pilot, now, view.groups.holding)

    def pools_of(self, pilot: Pilot, now: datetime) -> Collection[str]:
        """The pools that are mapped to the pilot's queue now."""
        return read_place(self._cursor, pilot, now).pools

    def _why_nothing(self, view: View, pilot: Pilot, now: datetime, those: Bools) -> NoMatch:
        """Why some task queues gave nothing; ``those``: (K,) which, all of which held jobs when they were read."""
        if view.avoids(pilot):
            return NoMatch(view.panda_queue, AVOID_NODE, {})
        reasons = view.reasons(pilot)
        # the pilot has enough for some jobs of the class, but the jobs left need more; the last class has no upper end
        classes_s = view.queues.cputime_class_s
        open_ended = classes_s == CPUTIME_CLASSES_S[-1]
        too_long = (reasons == MATCHES) & (open_ended | (classes_s > (pilot.cputime_s or 0)))
        reasons[too_long] = FIELDS.index("cpu_time")
        for queue in np.flatnonzero(those & (reasons == MATCHES)).tolist():
            pair = view.pair_of(queue)
            if pair is not None and not self._views.tokens.has(pair, now):
                reasons[queue] = FIELDS.index("running_limit")
        reason, rejected = no_match(reasons[those])
        if reason == TAKEN_BY_OTHERS and pilot.host is not None and view.spares(pilot):
            held = held_here(self._cursor, self._names, pilot.host, view.panda_queue, now)
            if held is not None:
                return NoMatch(view.panda_queue, RETRY_ELSEWHERE, rejected, held.node, held.held_until)
        return NoMatch(view.panda_queue, reason, rejected)

    def _try(self, view: View, pilot: Pilot, now: datetime) -> Match | None:
        self._refill(view, pilot, now)
        tokens, tries = self._views.tokens, 0
        for queue, priority in view.candidates(pilot, generator_of(self._request, self._generator)):
            if view.is_too_short(pilot, queue, priority, now):
                continue
            pair = view.pair_of(queue)
            lease = None if pair is None else tokens.reserve(pair, now)
            if pair is not None and lease is None:
                continue  # the limit is reached
            match = self._take_one(view, queue, priority, pilot, now, lease)
            if match is not None:
                return match
            if pair is not None and lease is not None:
                tokens.put_back(pair, lease)
            tries += 1
            if tries == MOST_TRIES:
                break
        return None

    def _take_one(
        self, view: View, queue: int, priority: int, pilot: Pilot, now: datetime, lease: int | None
    ) -> Match | None:
        """A job of one task queue and priority; None when there is none that this pilot could run."""
        is_timed, levels = bool(view.queues.cputime_class_s[queue]), view.levels[queue]
        level = levels.get(priority)
        if level is None:
            return None
        values = self._values(view, queue, pilot, now)
        hosted = pilot.host is not None
        statement = self._statement(values["pool"] is not None, is_timed, limited=lease is not None, hosted=hosted)
        # others must find the jobs that this pilot skips because their input failed at its node
        remembers = not self._conditions and not view.spares(pilot)
        values |= {"priority": priority, "first": level, "lease": lease}
        while True:
            row = self._cursor.execute(statement, values, prepare=True).fetchone()
            if row is None:
                if remembers:
                    _note_nothing(view, queue, priority, pilot, now)
                return None
            pandaid, first, jeditaskid, is_sent = row
            # rows that come before were taken, so the next search need not begin among them
            values["first"] = first
            if remembers and not is_timed:
                levels[priority] = first
            if is_sent:
                specs = view.queues.specs[queue]
                return Match(pandaid, jeditaskid, values["queue"], view.panda_queue, values["pool"], specs, view.tags)

    def _values(self, view: View, queue: int, pilot: Pilot, now: datetime) -> dict[str, Any]:
        values = {
            "queue": int(view.queues.id[queue]),
            "pool": view.queues.pool[queue],
            "place": view.place,
            "cputime_s": pilot.cputime_s or 0,
            "host": pilot.host,
            "now": naive(now),
            "aware_now": now,
            "noted_before": now - USE_NOTED_EVERY,
            "limit_site": None if view.queues.panda_queue[queue] is None else view.site,
            "job_type": view.queues.job_type[queue],
            **self._conditions,
        }
        if self._request is not None:
            values |= {
                "panda_queue": view.panda_queue,
                "pilot": self._request[0],
                "request_number": self._request[1],
            }
        return values

    def _statement(self, pooled: bool, timed: bool, *, limited: bool, hosted: bool) -> str:
        case = (pooled, timed, self._request is not None, limited, hosted)
        statement = self._statements.get(case)
        if statement is None:
            statement = self._statements[case] = take_statement(
                self._names,
                pooled=pooled,
                timed=timed,
                numbered=case[2],
                conditions=bool(self._conditions),
                limited=limited,
                hosted=hosted,
            )
        return statement


def _note_nothing(view: View, queue: int, priority: int, pilot: Pilot, now: datetime) -> None:
    """Record that no pilot finds more there, or none with no more CPU time than this one."""
    if not view.queues.cputime_class_s[queue]:
        view.forget(queue, priority)
    elif view.queues.pool[queue] is None:
        view.note_too_short(pilot, queue, priority, now)


def _values_of(conditions: JobConditions | None) -> dict[str, Any]:
    """The parameters of the conditions; empty where there are none."""
    if conditions is None or conditions == JobConditions():
        return {}
    lists = {
        name: None if value is None else list(value)
        for name, value in (("labels", conditions.labels), ("job_labels", conditions.job_labels))
    }
    return asdict(conditions) | lists
