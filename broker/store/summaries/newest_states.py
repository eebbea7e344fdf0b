"""The newest of the last decisions about tasks and chunks by brokerage, and the waiting work by reason.

The amount of data read grows with the amount shown: only the outcome of other decisions is read.
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
    """The waiting or the brokered states of one brokerage.

    Attributes:
        brokerage: the brokerage that decided.
        is_brokered: whether they are the brokered ones.
        states: number of states.
        last_seen_at: instant of the last cycle that decided about one of them.
        newest: the states with the highest decision ids, newest first.
    """

    brokerage: str
    is_brokered: bool
    states: int
    last_seen_at: datetime
    newest: Sequence[ListedState]


def newest_states(connection: sa.Connection, seen_since: datetime, most: int, *, brokered: bool) -> list[NewestStates]:
    """The newest states that a cycle after an instant decided about.

    Args:
        connection: the connection to read from.
        seen_since: the instant (aware).
        most: largest number of waiting states, and of brokered ones, to read of each brokerage.
        brokered: whether to read brokered states; they are counted in any case.
    """
    values = {"seen_since": seen_since, "most": most, "brokered": brokered}
    with Database.raw(connection).cursor(binary=True) as cursor:
        rows = cursor.execute(_NEWEST, values).fetchall()
    states_by_key: dict[tuple[str, bool, int, datetime], list[ListedState]] = {}
    for row in rows:
        newest = states_by_key.setdefault(row[:4], [])
        if row[-1] is not None:
            newest.append(listed_state(row[4:]))
    return [
        NewestStates(*key, sorted(newest, key=lambda state: -state.decision)) for key, newest in states_by_key.items()
    ]


# Grouped by three texts only once: the tasks of a reason are deduplicated and sorted as arrays of numbers. The counts
# of all states come along, because each scan of the states takes longer than the processing of its result.
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
# PostgreSQL, array_send: for one dimension a header of 20 bytes, then the length and the bytes of each element
_HEAD_BYTES = 20
_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i8")])


WaitingRow = tuple[str, str, str, int, int, datetime, Sequence[int]]
"""Brokerage, reason, main reason, numbers of waiting chunks and of their tasks, earliest wait, and some tasks."""


@dataclass(frozen=True)
class StateSums:
    """Sums over the states that a cycle after an instant decided about.

    Attributes:
        waiting: the waiting work by reason.
        states: number of states by brokerage.
        last_seen_at: when a cycle last decided about one of them; None if there are none.
        waiting_since: start of the earliest wait; None if no state waits.
        most_changes: largest number of changes of a state.
    """

    waiting: Sequence[WaitingRow]
    states: Mapping[str, int]
    last_seen_at: datetime | None
    waiting_since: datetime | None
    most_changes: int


def state_sums(connection: sa.Connection, seen_since: datetime, such_as: int) -> StateSums:
    """Sum up the states that a cycle after an instant (aware) decided about.

    At most ``such_as`` tasks are listed for a reason, longest waiting first.
    """
    with Database.raw(connection).cursor(binary=True) as cursor:
        rows = cursor.execute(_SUMS, [seen_since]).fetchall()
    states: Counter[str] = Counter()
    waiting: list[WaitingRow] = []
    for brokerage, reason, main_reason, count, _, _, chunks, oldest, numbers, sinces in rows:
        states[brokerage] += count
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
    """The elements of an array of 8-byte numbers without NULL; instants are in microseconds."""
    return np.frombuffer(array, _ELEMENT, offset=_HEAD_BYTES)["value"].astype(np.int64)


def tasks_of(tasks: Ints, since: Ints, most: int) -> tuple[int, list[int]]:
    """The number of distinct tasks of chunks, and the longest waiting tasks, ties by lower number. Pure.

    Args:
        tasks: the task of each chunk.
        since: when each chunk began to wait; the first chunk of a task counts.
        most: largest number of tasks to return.
    """
    order = np.lexsort((tasks, since))
    first: dict[int, None] = {}
    # a few chunks at a time, because the first ones usually cover enough tasks
    for start in range(0, len(order), 4 * most):
        first.update(dict.fromkeys(tasks[order[start : start + 4 * most]].tolist()))
        if len(first) >= most:
            break
    return len(np.unique(tasks)), list(first)[:most]
