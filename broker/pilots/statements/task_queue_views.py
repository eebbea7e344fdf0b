"""What a matcher knows at a place: the place itself, its pools and limits, and the task queues that hold jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np
import psycopg

from broker.domain.arrays import Bools, Ints
from broker.pilots.model.group_fields import PilotRequest
from broker.pilots.model.matcher import Pilot, TaskQueueTable
from broker.pilots.model.waiting_groups import MatchingTaskQueues, WaitingGroups
from broker.pilots.statements.limit_tokens import LimitTokens, Pair
from broker.pilots.statements.waiting_group_reads import LASTS, SharedGroups, read_groups

PLACE_LASTS = timedelta(seconds=20)
PLACES_A_PART = 50
"""Number of places that are reread at a time."""

_READ_PLACES = """
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest(%(sites)s::text[], %(ces)s::text[], %(queues)s::text[], %(vos)s::text[]) WITH ORDINALITY
        AS asked (site, ce, queue, vo, number)
), named AS MATERIALIZED (
    SELECT asked.number, asked.vo, place.number AS place, place.tags,
        coalesce(place.panda_queue, asked.queue) AS panda_queue
    FROM asked LEFT JOIN broker.resource_queues AS place USING (site, ce, queue)
), limited AS MATERIALIZED (
    SELECT named.*, coalesce((SELECT site FROM broker.queue_sites AS known
                              WHERE known.panda_queue = named.panda_queue), panda_queue) AS site FROM named
)
SELECT place, panda_queue, tags,
    ARRAY(SELECT pool.pool_id
          FROM broker.submit_pool_links AS link JOIN broker.submit_pools AS pool ON pool.number = link.pool
          WHERE link.queue = limited.place AND (limited.vo IS NULL OR pool.vo = lower(limited.vo))),
    site, ARRAY(SELECT job_type FROM broker.running_limits AS limits WHERE limits.site = limited.site),
    ARRAY(SELECT node FROM broker.held_nodes AS held
          WHERE held.queue = limited.panda_queue AND held.held_until > %(now)s),
    ARRAY(SELECT DISTINCT node FROM broker.held_jobs AS held
          WHERE held.queue IN (limited.panda_queue, '') AND held.held_until > %(now)s)
FROM limited ORDER BY number"""


@dataclass(frozen=True)
class Place:
    """What is declared of a place, and the limits there.

    Attributes:
        read_at: when it was read (aware).
        number: number of the place; None: nobody declared it.
        panda_queue: PanDA queue that it belongs to.
        pools: pools that are mapped to it.
        site: site of its limits.
        limited: types of jobs with a limit there.
        tags: tags that its nodes have.
        held: nodes whose pilots are given no jobs for a while.
        spared: nodes whose pilots are not given some jobs for a while, because their input failed there.
    """

    read_at: datetime
    number: int | None
    panda_queue: str
    pools: frozenset[str]
    site: str
    limited: frozenset[str]
    tags: frozenset[str]
    held: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()


@dataclass(frozen=True)
class View:
    """A place and the task queues, as they were read."""

    at: Place
    groups: WaitingGroups

    @property
    def place(self) -> int | None:
        """The number of the place."""
        return self.at.number

    @property
    def panda_queue(self) -> str:
        """The PanDA queue of the place."""
        return self.at.panda_queue

    @property
    def pools(self) -> frozenset[str]:
        """The pools that are mapped to the place."""
        return self.at.pools

    @property
    def site(self) -> str:
        """The site of the limits."""
        return self.at.site

    @property
    def tags(self) -> frozenset[str]:
        """The tags of the place."""
        return self.at.tags

    @property
    def queues(self) -> TaskQueueTable:
        """The task queues, in the order of positions."""
        return self.groups.queues

    @property
    def levels(self) -> list[dict[int, int]]:
        """The levels of each task queue, see :class:`WaitingGroups`."""
        return self.groups.levels

    def limits_for(self, pilot: Pilot) -> tuple[Pair, ...]:
        """The limits on any job that a pilot may take."""
        if not self.at.limited or self.avoids(pilot):
            return ()
        types = self.groups.index.types(self.fitting(pilot))
        return tuple((self.at.site, kind) for kind in sorted(self.at.limited.intersection(types)))

    def avoids(self, pilot: Pilot) -> bool:
        """Whether the node of a pilot is held, so that the pilot gets no jobs."""
        return pilot.host in self.at.held

    def spares(self, pilot: Pilot) -> bool:
        """Whether some jobs are held from the node of a pilot: others find the jobs that it skips."""
        return pilot.host in self.at.spared

    def fitting(self, pilot: Pilot) -> MatchingTaskQueues:
        """The task queues that a pilot may take from."""
        return self.groups.index.fitting(self._request(pilot))

    def reasons(self, pilot: Pilot) -> Ints:
        """For each task queue MATCHES, or the index in FIELDS of the first field that does not fit."""
        return self.groups.index.reasons(self._request(pilot))

    def conditions(self, pilot: Pilot) -> dict[str, Bools]:
        """(K,) by field but the limit, for each task queue whether the pilot meets the condition."""
        return self.groups.index.conditions(self._request(pilot))

    def here(self, pilot: Pilot) -> Bools:
        """(K,) the task queues that held jobs and belong to the place, or to none."""
        return self.groups.holding & self.groups.index.holds("queue", self._request(pilot))

    def pair_of(self, queue: int) -> Pair | None:
        """The limit for the jobs of a task queue; None: there is none. Jobs of no PanDA queue run at no site."""
        kind = self.queues.job_type[queue]
        has = kind in self.at.limited and self.queues.panda_queue[queue] is not None
        return (self.at.site, kind) if has else None

    def candidates(self, pilot: Pilot, generator: np.random.Generator) -> Iterator[tuple[int, int]]:
        """Task queues (positions) and priorities, in the order of their tiers, drawn at random by their weights."""
        return iter(()) if self.avoids(pilot) else self.groups.candidates(self.fitting(pilot), generator)

    def forget(self, queue: int, priority: int) -> None:
        """Record that a task queue has no more jobs of this priority."""
        self.groups.forget(queue, priority)

    def note_too_short(self, pilot: Pilot, queue: int, priority: int, now: datetime) -> None:
        """Record that the jobs of this priority left in a task queue need more CPU time than a pilot has."""
        self.groups.note_too_short(queue, priority, pilot.cputime_s or 0, now + LASTS)

    def is_too_short(self, pilot: Pilot, queue: int, priority: int, now: datetime) -> bool:
        """Whether :meth:`note_too_short` recently recorded this for a pilot with as much CPU time."""
        return self.groups.is_too_short(queue, priority, pilot.cputime_s or 0, now)

    def _request(self, pilot: Pilot) -> PilotRequest:
        node = pilot.node
        if node is not None and not self.at.tags <= node.tags:
            node = node.with_changes({"tags": node.tags | self.at.tags})
        return PilotRequest(pilot, self.at.panda_queue, self.at.pools, node)


PlaceKey = tuple[str, str, str, str | None]
"""Key of a place: site, CE, queue and VO."""


class Views(dict[PlaceKey, Place]):
    """The known places, by what a pilot presents, and the task queues.

    It only suggests what to try, so that matchers of several threads may share it: at worst one tries in vain.

    Args:
        groups: the task queues, if they are shared with others.

    Attributes:
        groups: the task queues.
        tokens: tokens of running limits.
        requested_since_read: places at which pilots asked for jobs since they were read.
    """

    def __init__(self, groups: SharedGroups | None = None) -> None:
        super().__init__()
        self.groups = SharedGroups() if groups is None else groups
        self.tokens = LimitTokens()
        self.requested_since_read: set[PlaceKey] = set()

    def of(self, pilot: Pilot, now: datetime) -> View | None:
        """The view at the place of a pilot; None where it is not known, or too old."""
        self.groups.has_requests = True
        key = place_of(pilot)
        self.requested_since_read.add(key)
        place, groups = self.get(key), self.groups.known(now)
        is_known = place is not None and timedelta(0) <= now - place.read_at < PLACE_LASTS
        return View(place, groups) if is_known and place is not None and groups is not None else None

    def look(self, cursor: psycopg.Cursor[Any], pilot: Pilot, now: datetime) -> View:
        """The view at the place of a pilot, read now where it is not known, or too old."""
        view = self.of(pilot, now)
        return self._read(cursor, pilot, now, self.groups.read(cursor, now)) if view is None else view

    def look_again(self, cursor: psycopg.Cursor[Any], pilot: Pilot, now: datetime) -> View:
        """Reread the place of a pilot that got nothing, and the task queues if they are few."""
        return self._read(cursor, pilot, now, self.groups.read_again(cursor, now))

    def refresh(self, cursor: psycopg.Cursor[Any], now: datetime) -> bool:
        """Reread some of the places at which pilots asked, before they are too old. Returns whether any were due."""
        old = (
            key
            for key in list(self.requested_since_read)
            if (known := self.get(key)) and now - known.read_at > PLACE_LASTS / 2
        )
        due = list(islice(old, PLACES_A_PART))
        self.requested_since_read.difference_update(due)
        for key, place in zip(due, _read_places(cursor, due, now) if due else (), strict=True):
            self[key] = place
        return bool(due)

    def _read(self, cursor: psycopg.Cursor[Any], pilot: Pilot, now: datetime, groups: WaitingGroups) -> View:
        place = self[place_of(pilot)] = read_place(cursor, pilot, now)
        return View(place, groups)


def place_of(pilot: Pilot) -> PlaceKey:
    """The key of the place of a pilot."""
    return pilot.site, pilot.ce, pilot.queue, pilot.vo


def read_place(cursor: psycopg.Cursor[Any], pilot: Pilot, now: datetime) -> Place:
    """Read the place of a pilot at ``now`` (aware); ``cursor``: with tuple rows."""
    return _read_places(cursor, [place_of(pilot)], now)[0]


def _read_places(cursor: psycopg.Cursor[Any], keys: Sequence[PlaceKey], now: datetime) -> list[Place]:
    columns = zip(("sites", "ces", "queues", "vos"), map(list, zip(*keys, strict=True)), strict=True)
    rows = cursor.execute(_READ_PLACES, {**dict(columns), "now": now}, prepare=True)
    return [
        Place(
            now,
            number,
            panda_queue,
            frozenset(pools),
            site,
            frozenset(limited),
            frozenset(tags or ()),
            frozenset(held),
            frozenset(spared),
        )
        for number, panda_queue, tags, pools, site, limited, held, spared in rows
    ]


def read_view(cursor: psycopg.Cursor[Any], pilot: Pilot, now: datetime, *, everywhere: bool = False) -> View:
    """Read a view at the place of a pilot at ``now`` (aware), which nobody shares.

    Args:
        cursor: cursor with tuple rows.
        pilot: pilot whose place it is.
        now: when it is read.
        everywhere: include the task queues of other places.
    """
    place = read_place(cursor, pilot, now)
    return View(place, read_groups(cursor, None if everywhere else place.panda_queue))
