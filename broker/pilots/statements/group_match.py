"""Matching several pilots with one statement: what to try for each, and who gets which job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np

from broker.domain.instants import naive
from broker.pilots.model.match_order import seed_of
from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.limit_tokens import Pair
from broker.pilots.statements.matches import Match, MatchRequest, NumberedRequest
from broker.pilots.statements.task_queue_views import View, Views
from broker.store.connection.tables import Names
from broker.store.writes.job_row_sql import note_status

_PICKED = """
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[],
        $7::bigint[], $8::text[], $9::text[], $10::bigint[]) WITH ORDINALITY
        AS asked (queue, priority, first, jobs, cputime_s, pool, place, site, job_type, lease, number)
), leased AS MATERIALIZED (
    SELECT id FROM broker.limit_leases WHERE id = ANY($10::bigint[]) FOR KEY SHARE
), picked AS MATERIALIZED (
    SELECT asked.number, job.place, job.pandaid, job.position FROM asked CROSS JOIN LATERAL (
        SELECT waiting.ctid AS place, waiting.pandaid, waiting.position FROM broker.waiting_jobs AS waiting
        WHERE waiting.task_queue = asked.queue AND waiting.priority = asked.priority
          AND waiting.position >= asked.first AND waiting.cputime_s <= asked.cputime_s
          AND CASE WHEN asked.lease IS NULL
              THEN NOT EXISTS (SELECT FROM broker.running_limits AS known
                               WHERE known.site = asked.site AND known.job_type = asked.job_type)
              ELSE asked.lease IN (SELECT id FROM leased) END"""
_MAPPED_POOL = """
          AND (asked.pool IS NULL OR EXISTS (
            SELECT FROM broker.submit_pool_links AS link JOIN broker.submit_pools AS known ON known.number = link.pool
            WHERE link.queue = asked.place AND known.pool_id = asked.pool))"""
# Looked up by key for each row that is checked, as in take_statement.py. A job that is held from one of the pilots is
# left to the next statement, so that this one need not know which of them gets it.
_NOT_HELD = """
          AND (SELECT held.pandaid FROM broker.held_jobs AS held WHERE held.pandaid = waiting.pandaid
                 AND held.node = ANY($18::text[]) AND held.held_until > $12::timestamptz LIMIT 1) IS NULL"""
_SENT = """
        ORDER BY waiting.position LIMIT asked.jobs FOR UPDATE SKIP LOCKED) AS job
), gone AS (
    DELETE FROM broker.waiting_jobs WHERE ctid = ANY(ARRAY(SELECT place FROM picked))
), sent AS (
    UPDATE {panda}.jobsactive4 AS job
    SET jobstatus = 'sent', statechangetime = $11::timestamp, modificationtime = $11::timestamp
    WHERE job.pandaid = ANY(ARRAY(SELECT pandaid FROM picked)) AND job.jobstatus = 'activated'
    RETURNING job.pandaid, job.jeditaskid, job.jobstatus, job.prodsourcelabel, job.cloud, job.computingsite
), logged AS (NOTE_STATUS), given AS MATERIALIZED (
    SELECT picked.number, row_number() OVER (PARTITION BY picked.number ORDER BY picked.position) AS slot,
        sent.pandaid, sent.jeditaskid
    FROM picked JOIN sent USING (pandaid)
)""".replace("NOTE_STATUS", note_status("sent", "$11::timestamp"))
# In the order of their names, so that two groups with the same requests never wait for each other.
_NOTE_REQUESTS = """, noted AS (
    INSERT INTO broker.matched_requests
        (pilot, request_number, pandaid, jeditaskid, task_queue, panda_queue, pool, matched_at)
    SELECT request.pilot, request.request_number, given.pandaid, given.jeditaskid, asked.queue, request.panda_queue,
        asked.pool, $12::timestamptz
    FROM unnest($13::text[], $14::bigint[], $15::text[], $16::bigint[], $17::bigint[])
        AS request (pilot, request_number, panda_queue, number, slot)
    JOIN given USING (number, slot) JOIN asked USING (number)
    ORDER BY request.pilot, request.request_number
)"""
# Does not wait for another transaction that notes the use of the same pools: its time serves as well.
_NOTE_USE = """, used AS (
    UPDATE broker.submit_pools SET last_used_at = $12::timestamptz WHERE number IN (
        SELECT number FROM broker.submit_pools
        WHERE pool_id = ANY(ARRAY(SELECT pool FROM asked WHERE number IN (SELECT number FROM picked)))
          AND last_used_at < $19::timestamptz FOR NO KEY UPDATE SKIP LOCKED)
)"""
_RESULT = """
SELECT picked.number, given.slot, picked.pandaid, given.jeditaskid, picked.position
FROM picked LEFT JOIN given USING (number, pandaid)"""


def group_statement(names: Names, *, pooled: bool) -> str:
    """Return the statement; its rows are ask number, slot, job, task and position.

    Args:
        names: names of the schemas.
        pooled: whether some of the jobs require a SubmitPool, to which the place of their pilot must be mapped.
    """
    parts = (
        _PICKED,
        _MAPPED_POOL if pooled else "",
        _NOT_HELD,
        _SENT,
        _NOTE_REQUESTS,
        _NOTE_USE if pooled else "",
        _RESULT,
    )
    return names.sql("".join(parts))


#: Shortest time between two writes of a pool's time of use.
USE_NOTED_EVERY = timedelta(seconds=60)
#: Most statements for one group; pilots without a job after these are matched alone.
MOST_ROUNDS = 3
_UNLIMITED = 2**62

_statement = lru_cache(maxsize=16)(group_statement)


@dataclass(frozen=True)
class Take:
    """A statement to run: parameters ``$1`` and on in the text form of PostgreSQL."""

    statement: str
    values: list[str]


@dataclass
class _Search:
    """A pilot without a job: its current draw with the lease of its token, and its next draws."""

    index: int
    pilot: Pilot
    request: NumberedRequest | None
    view: View
    candidates: Iterator[tuple[int, int]]
    candidate: tuple[int, int] | None = None
    pair: Pair | None = None
    lease: int | None = None


@dataclass
class _Ask:
    """A request for jobs of one task queue and priority, one for each of these pilots."""

    queue: int
    priority: int
    first: int
    cputime_s: int
    pool: str | None
    place: int | None
    site: str | None
    job_type: str | None
    lease: int | None
    pilots: list[_Search] = field(default_factory=list)

    @property
    def condition(self) -> tuple[int, str | None, int | None, int | None]:
        """The condition on its jobs: pilots of one statement that draw the same task queue must agree on it."""
        return self.cputime_s, self.pool, self.place, self.lease


class GroupMatch:
    """Several pilots, matched round by round: :meth:`next_take` returns what to run, :meth:`settle` takes the result.

    Attributes:
        matches: the job of each pilot; None: none yet, or it has to be matched alone, as when jobs are held from its
            node.

    Args:
        requests: the pilots and their requests.
        now: time of the match (aware).
        views: the known task queues; pilots whose place is not among them are skipped.
        generator: random generator of the draw.
        names: names of the schemas.
    """

    def __init__(
        self,
        requests: Sequence[MatchRequest],
        now: datetime,
        views: Views,
        generator: np.random.Generator,
        names: Names,
    ) -> None:
        self.matches: list[Match | None] = [None] * len(requests)
        self._now, self._names, self._rounds, self._tokens = now, names, 0, views.tokens
        self._asks: list[_Ask] = []
        self._searching = [
            _Search(index, pilot, request, view, view.candidates(pilot, generator_of(request, generator)))
            for index, (pilot, request) in enumerate(requests)
            if (view := views.of(pilot, now)) is not None and not view.spares(pilot)
        ]

    def next_take(self) -> Take | None:
        """The next statement; None when there is nothing more to try together."""
        if self._rounds == MOST_ROUNDS:
            self.put_back()
            return None
        self._rounds += 1
        asks: dict[tuple[int, int], _Ask] = {}
        for search in self._searching:
            ask = self._drawn(search)
            if ask is None:
                continue
            known = asks.setdefault((ask.queue, ask.priority), ask)
            if known.condition == ask.condition:
                known.pilots.append(search)  # else it waits for the next round
        self._asks = list(asks.values())
        return self._take() if self._asks else None

    def put_back(self) -> None:
        """Return the tokens of pilots without a job: the statement failed, or there is nothing more to try."""
        for search in self._searching:
            self._next_candidate(search)

    def _next_candidate(self, search: _Search) -> None:
        """Drop the current draw of a pilot, and return its token."""
        if search.pair is not None and search.lease is not None:
            self._tokens.put_back(search.pair, search.lease)
        search.candidate = search.pair = search.lease = None

    def settle(self, rows: Sequence[Sequence[Any]]) -> None:
        """Record what a statement took: rows of ask number, slot, job, task and position."""
        taken: dict[int, list[int]] = {}
        jobs: dict[tuple[int, int], tuple[int, int | None]] = {}
        for number, slot, pandaid, jeditaskid, position in rows:
            taken.setdefault(number, []).append(position)
            if slot is not None:
                jobs[number, slot] = (pandaid, jeditaskid)
        for number, ask in enumerate(self._asks, 1):
            positions = taken.get(number, [])
            for slot, search in enumerate(ask.pilots, 1):
                if (number, slot) in jobs:
                    specs = search.view.queues.specs[_position(search.view, ask.queue)]
                    self.matches[search.index] = Match(
                        *jobs[number, slot], ask.queue, search.view.panda_queue, ask.pool, specs, search.view.tags
                    )
                    search.pair = search.lease = None  # the token is spent
                elif len(positions) < len(ask.pilots):
                    self._next_candidate(search)  # nothing more is left there
            _remember(ask, positions, self._now)
        self._searching = [search for search in self._searching if self.matches[search.index] is None]

    def _drawn(self, search: _Search) -> _Ask | None:
        """The next ask to try for a pilot; None when nothing is left."""
        while True:
            if search.candidate is None:
                search.candidate = next(search.candidates, None)
                if search.candidate is None:
                    return None
            queue, priority = search.candidate
            first = search.view.levels[queue].get(priority)
            is_in_vain = search.view.is_too_short(search.pilot, queue, priority, self._now)
            if first is not None and not is_in_vain and self._has_room(search, queue):
                break
            self._next_candidate(search)  # another pilot found nothing there, or the limit is reached
        queues = search.view.queues
        pool = queues.pool[queue]
        return _Ask(
            int(queues.id[queue]),
            priority,
            first,
            (search.pilot.cputime_s or 0) if queues.cputime_class_s[queue] else _UNLIMITED,
            pool,
            None if pool is None else search.view.place,
            None if queues.panda_queue[queue] is None else search.view.site,
            queues.job_type[queue],
            search.lease,
        )

    def _has_room(self, search: _Search, queue: int) -> bool:
        """Whether the jobs of a task queue have no limit, or the pilot now has a token of it."""
        if search.lease is None:
            search.pair = search.view.pair_of(queue)
            if search.pair is not None:
                search.lease = self._tokens.reserve(search.pair, self._now)
        return search.pair is None or search.lease is not None

    def _take(self) -> Take:
        asks = self._asks
        noted = [
            (*search.request, search.view.panda_queue, number, slot)
            for number, ask in enumerate(asks, 1)
            for slot, search in enumerate(ask.pilots, 1)
            if search.request is not None
        ]
        pooled = any(ask.pool is not None for ask in asks)
        values = [
            _array([ask.queue for ask in asks]),
            _array([ask.priority for ask in asks]),
            _array([ask.first for ask in asks]),
            _array([len(ask.pilots) for ask in asks]),
            _array([ask.cputime_s for ask in asks]),
            _array([ask.pool for ask in asks]),
            _array([ask.place for ask in asks]),
            _array([ask.site for ask in asks]),
            _array([ask.job_type for ask in asks]),
            _array([ask.lease for ask in asks]),
            naive(self._now).isoformat(),
            self._now.isoformat(),
            *(_array([row[column] for row in noted]) for column in range(5)),
            _array(list({search.pilot.host for ask in asks for search in ask.pilots if search.pilot.host is not None})),
        ]
        if pooled:
            values.append((self._now - USE_NOTED_EVERY).isoformat())
        return Take(_statement(self._names, pooled=pooled), values)


def generator_of(request: NumberedRequest | None, generator: np.random.Generator) -> np.random.Generator:
    """The generator of a request's draw: seeded by its number, so that the draw can be repeated; else the given one."""
    return generator if request is None else np.random.default_rng(seed_of(*request))


def _remember(ask: _Ask, positions: list[int], now: datetime) -> None:
    """Note that rows before those that were taken are gone, so the next search need not begin among them."""
    if ask.cputime_s != _UNLIMITED:  # some may be left that need more than these pilots have
        if ask.pool is None and len(positions) < len(ask.pilots):
            for search in ask.pilots:
                search.view.note_too_short(search.pilot, _position(search.view, ask.queue), ask.priority, now)
        return
    for search in ask.pilots:
        levels, queue = search.view.levels, _position(search.view, ask.queue)
        if len(positions) < len(ask.pilots):
            search.view.forget(queue, ask.priority)
        elif ask.priority in levels[queue]:
            levels[queue][ask.priority] = max(levels[queue][ask.priority], *positions)


def _position(view: View, queue: int) -> int:
    return view.groups.index.position[queue]


def _array(values: Sequence[int | str | None]) -> str:
    """An array in the text form of PostgreSQL."""
    try:
        return "{" + ",".join([_TEXTS[type(value)](value) for value in values]) + "}"
    except KeyError:
        raise TypeError(f"no array of {values}") from None


@lru_cache(maxsize=4096)
def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


_TEXTS: dict[type, Callable[[Any], str]] = {type(None): lambda _: "NULL", int: str, str: _quoted}
