"""Of the last decisions about tasks and chunks the newest of each brokerage, and what waits by reason.

What is read grows with what is shown: of the others only the outcome is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import sqlalchemy as sa

from broker.domain.arrays import Ints
from broker.store.connection.database import Database
from broker.store.summaries.chunk_states import LISTED, ListedState, listed_state

_NEWEST = f"""
    WITH counted AS MATERIALIZED (
        SELECT brokerage, outcome = 'brokered' AS is_brokered, count(*) AS states, max(last_seen_at) AS last_seen_at
        FROM broker.chunk_states WHERE last_seen_at > %(seen_since)s
        GROUP BY 1, 2
    )
    SELECT counted.*, newest.* FROM counted LEFT JOIN LATERAL (
        SELECT {LISTED} FROM broker.chunk_states AS s
        WHERE s.brokerage = counted.brokerage AND (s.outcome = 'brokered') = counted.is_brokered
          AND s.last_seen_at > %(seen_since)s AND (%(brokered)s OR NOT counted.is_brokered)
        ORDER BY s.decision DESC LIMIT %(most)s) AS newest ON true"""  # noqa: S608 - constants


@dataclass(frozen=True)
class NewestStates:
    """The states of one brokerage that wait, or of those that are brokered.

    Attributes:
        brokerage: that decided.
        is_brokered: which.
        states: how many there are.
        last_seen_at: instant of the last cycle that decided about one of them.
        newest: those with the highest numbers of decisions, the newest first.
    """

    brokerage: str
    is_brokered: bool
    states: int
    last_seen_at: datetime
    newest: Sequence[ListedState]


def newest_states(connection: sa.Connection, seen_since: datetime, most: int, *, brokered: bool) -> list[NewestStates]:
    """The states which a cycle after an instant decided about.

    Args:
        connection: to read from.
        seen_since: an aware instant.
        most: so many of each brokerage that wait, and so many that are brokered.
        brokered: whether to read those that are brokered; they are counted in any case.
    """
    values = {"seen_since": seen_since, "most": most, "brokered": brokered}
    with Database.raw(connection).cursor(binary=True) as cursor:
        rows = cursor.execute(_NEWEST, values).fetchall()
    found: dict[tuple[str, bool, int, datetime], list[ListedState]] = {}
    for row in rows:
        some = found.setdefault(row[:4], [])
        if row[-1] is not None:
            some.append(listed_state(row[4:]))
    return [NewestStates(*key, sorted(some, key=lambda one: -one.decision)) for key, some in found.items()]


# Grouped by three texts once only: the tasks of a reason are told apart and sorted as arrays of numbers. What is
# counted of all states comes with it, since each look at them takes longer than what is made of it.
_SUMS = """
    SELECT brokerage, reason, main_reason, states, last_seen_at, most_changes, waiting, oldest,
        array_send(numbers), array_send(sinces)
    FROM (
        SELECT brokerage, reason, main_reason, count(*) AS states, max(last_seen_at) AS last_seen_at,
            max(cardinality(changed_at)) AS most_changes, count(waiting_since) AS waiting, min(waiting_since) AS oldest,
            array_agg(jeditaskid) FILTER (WHERE waiting_since IS NOT NULL) AS numbers,
            array_agg(waiting_since) FILTER (WHERE waiting_since IS NOT NULL) AS sinces
        FROM broker.chunk_states WHERE last_seen_at > %s GROUP BY 1, 2, 3
    ) AS grouped
    ORDER BY brokerage COLLATE "C", reason, main_reason"""
# PostgreSQL, array_send: of one dimension a head of 20 bytes, then the length and the bytes of each element
_HEAD_BYTES = 20
_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i8")])


WaitingRow = tuple[str, str, str, int, int, datetime, Sequence[int]]
"""Brokerage, reason, main reason, chunks that wait for it, their tasks, since when the first waits, and some tasks."""


@dataclass(frozen=True)
class StateSums:
    """The states which a cycle after an instant decided about, added up.

    Attributes:
        waiting: what waits for each reason.
        states: how many there are, by brokerage.
        last_seen_at: when a cycle last decided about one of them; None where there is none.
        waiting_since: since when the first of those waits that wait; None where none does.
        most_changes: how often that one changed which did so most often.
    """

    waiting: Sequence[WaitingRow]
    states: Mapping[str, int]
    last_seen_at: datetime | None
    waiting_since: datetime | None
    most_changes: int


def state_sums(connection: sa.Connection, seen_since: datetime, such_as: int) -> StateSums:
    """The states which a cycle after an instant (aware) decided about, added up.

    The tasks of a reason are ``such_as`` at most, those that have waited longest first.
    """
    with Database.raw(connection).cursor(binary=True) as cursor:
        rows = cursor.execute(_SUMS, [seen_since]).fetchall()
    states: Counter[str] = Counter()
    waiting: list[WaitingRow] = []
    for brokerage, reason, main_reason, number, _, _, chunks, oldest, numbers, sinces in rows:
        states[brokerage] += number
        if chunks:
            tasks, first = tasks_of(_values(numbers), _values(sinces), such_as)
            waiting.append((brokerage, reason, main_reason, chunks, tasks, oldest, first))
    return StateSums(
        waiting,
        dict(states),
        max((row[4] for row in rows), default=None),
        min((row[5] for row in waiting), default=None),
        max((row[5] for row in rows), default=0),
    )


def _values(array: bytes) -> Ints:
    """The elements of an array of numbers of 8 bytes without NULL; of instants microseconds."""
    return np.frombuffer(array, _ELEMENT, offset=_HEAD_BYTES)["value"].astype(np.int64)


def tasks_of(tasks: Ints, since: Ints, most: int) -> tuple[int, list[int]]:
    """How many tasks chunks are of, and those that have waited longest, of equals the lower numbers. Pure.

    Args:
        tasks: of each chunk.
        since: when each began to wait; of a task the first counts.
        most: so many tasks at most.
    """
    order = np.lexsort((tasks, since))
    first: dict[int, None] = {}
    # a few chunks at a time, since most often the first ones are of as many tasks
    for start in range(0, len(order), 4 * most):
        first.update(dict.fromkeys(tasks[order[start : start + 4 * most]].tolist()))
        if len(first) >= most:
            break
    return len(np.unique(tasks)), list(first)[:most]
