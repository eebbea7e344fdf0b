"""Of the last decisions about tasks and chunks the newest of each brokerage, and what waits by reason.

What is read grows with what is shown: of the others only the outcome is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

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


# grouped by three texts once only: the tasks of a reason are then told apart and sorted by numbers
_WAITING = """
    SELECT brokerage, reason, main_reason, chunks, sums.tasks, sums.oldest, sums.such_as FROM (
        SELECT brokerage, reason, main_reason, count(*) AS chunks,
            array_agg(jeditaskid) AS numbers, array_agg(waiting_since) AS sinces
        FROM broker.chunk_states WHERE last_seen_at > %s AND waiting_since IS NOT NULL GROUP BY 1, 2, 3
    ) AS waiting, LATERAL (
        WITH tasks AS MATERIALIZED (
            SELECT number, min(since) AS oldest FROM unnest(numbers, sinces) AS chunk (number, since) GROUP BY 1)
        SELECT count(*) AS tasks, min(oldest) AS oldest,
            ARRAY(SELECT number FROM tasks ORDER BY oldest, number LIMIT %s) AS such_as
        FROM tasks
    ) AS sums
    ORDER BY brokerage COLLATE "C", reason, main_reason"""


WaitingRow = tuple[str, str, str, int, int, datetime, Sequence[int]]
"""Brokerage, reason, main reason, chunks that wait for it, their tasks, since when the first waits, and some tasks."""


def waiting_sums(connection: sa.Connection, seen_since: datetime, such_as: int) -> list[WaitingRow]:
    """What waits for each reason, of the states which a cycle after an instant (aware) decided about.

    The tasks are ``such_as`` at most, those that have waited longest first.
    """
    with Database.raw(connection).cursor(binary=True) as cursor:
        return cursor.execute(_WAITING, [seen_since, such_as]).fetchall()
