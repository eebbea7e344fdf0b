"""The last decision of each brokerage about each task and chunk: what waits, since when, why, and until when.

Lists are built from these rows, one per chunk, and never from the decisions themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from broker.store.connection.database import Database

#: A chunk without a decision for this long after it was due is gone: its task ended, or is no longer brokered.
GONE_AFTER = timedelta(hours=1)
#: Number of changes of a chunk whose instants are kept.
MOST_CHANGES = 32
_NOTHING: Mapping[str, int] = MappingProxyType({})

_COLUMNS = """
    brokerage, jeditaskid, datasetid, ramcount, decision, decided_at, outcome, reason, outcome_since, waiting_since,
    last_seen_at, last_agent_run, decisions, seen_again, pending_until, candidate_count, jobs, assigned, main_reason"""
#: Whether a chunk still exists at ``:now``.
STILL_THERE = "greatest(last_seen_at, pending_until) >= CAST(:now AS timestamptz) - CAST(:gone_after AS interval)"

_READ_STATES = sa.text(f"""
    SELECT {_COLUMNS} FROM broker.chunk_states
    WHERE (CAST(:tasks AS bigint[]) IS NULL OR jeditaskid = ANY(:tasks))
      AND (CAST(:brokerages AS text[]) IS NULL OR brokerage = ANY(:brokerages))
      AND (CAST(:outcomes AS text[]) IS NULL OR outcome = ANY(:outcomes))
      AND (CAST(:reasons AS text[]) IS NULL OR reason = ANY(:reasons) OR main_reason = ANY(:reasons))
      AND (CAST(:queue AS text) IS NULL OR assigned ? :queue)
      AND (CAST(:changed_since AS timestamptz) IS NULL OR outcome_since >= :changed_since)
      AND (CAST(:seen_since AS timestamptz) IS NULL OR last_seen_at > :seen_since)
      AND (CAST(:waiting AS boolean) IS NULL OR (waiting_since IS NOT NULL) = :waiting)
      AND (CAST(:now AS timestamptz) IS NULL OR {STILL_THERE})
    ORDER BY coalesce(waiting_since, outcome_since), jeditaskid, brokerage, datasetid, ramcount
    LIMIT :most""")  # noqa: S608 - constants of this module

_COUNT_WAITING = sa.text(f"""
    SELECT brokerage, outcome, reason, main_reason, count(*) AS chunks, count(DISTINCT jeditaskid) AS tasks,
        min(waiting_since) AS oldest, min(pending_until) AS next_try
    FROM broker.chunk_states
    WHERE waiting_since IS NOT NULL AND {STILL_THERE}
      AND (CAST(:brokerages AS text[]) IS NULL OR brokerage = ANY(:brokerages))
    GROUP BY brokerage, outcome, reason, main_reason
    ORDER BY chunks DESC, brokerage, outcome, reason, main_reason""")  # noqa: S608 - as above

# Only the changes in the span, of states that changed in it.
_READ_CHANGES = sa.text("""
    SELECT brokerage, jeditaskid, datasetid, count(*)::int AS changes, min(moment) AS first_at
    FROM broker.chunk_states, unnest(changed_at) AS moment
    WHERE outcome_since > :since AND cardinality(changed_at) >= :least AND moment > :since AND moment <= :until
    GROUP BY brokerage, jeditaskid, datasetid, ramcount
    HAVING count(*) >= :least
    ORDER BY changes DESC, jeditaskid""")


@dataclass(frozen=True)
class Change:
    """How often outcome or reason of a chunk changed since ``first_at``; at most the last 32 changes are known."""

    brokerage: str
    jeditaskid: int
    datasetid: int | None
    changes: int
    first_at: datetime


@dataclass(frozen=True)
class DecidedState:
    """The last decision about a task or chunk, now or at an instant of the past.

    Attributes:
        brokerage: the brokerage that decided.
        jeditaskid: the task.
        datasetid: of the chunk's input; None for a task.
        ramcount: of the chunk; None for a task, and for a chunk without one.
        decision: id of the stored decision.
        decided_at: the instant for which it was made; equal decisions since then have no row of their own.
        outcome: ``brokered``, ``pending``, ``throttled`` or ``skipped``.
        reason: of the outcome; empty if it is brokered.
        waiting_since: since when nothing was brokered; None if the last outcome is ``brokered``.
        pending_until: the next attempt; None if it does not wait for one.
    """

    brokerage: str
    jeditaskid: int
    datasetid: int | None
    ramcount: float | None
    decision: int
    decided_at: datetime
    outcome: str
    reason: str
    waiting_since: datetime | None
    pending_until: datetime | None


@dataclass(frozen=True)
class LastDecision(DecidedState):
    """The last decision about a task or chunk, with the fields that are both read and written.

    Attributes:
        outcome_since: since when outcome and reason have been these.
        last_seen_at: instant of the last cycle that decided about it.
        last_agent_run: the run of that cycle.
        decisions: number of cycles with this outcome and reason since ``outcome_since``.
        seen_again: how many of them were recorded on the row of ``decision``.
        candidate_count: number of candidates of the last decision.
        jobs: number of assigned jobs (one for a task that got its nucleus).
    """

    outcome_since: datetime
    last_seen_at: datetime
    last_agent_run: int | None
    decisions: int
    seen_again: int
    candidate_count: int
    jobs: int


@dataclass(frozen=True)
class ChunkState(LastDecision):
    """The last decision about a task or chunk, with its result.

    Attributes:
        assigned: number of jobs by queue or nucleus.
        main_reason: the code that rejected most queues if rules left none, else ``reason``.
    """

    assigned: Mapping[str, int]
    main_reason: str


@dataclass(frozen=True)
class Waiting:
    """The work that waits for one reason.

    Attributes:
        brokerage: the brokerage that decided.
        outcome: ``pending``, ``throttled`` or ``skipped``.
        reason: of the outcome.
        main_reason: the code that rejected most queues if rules left none, else ``reason``.
        chunks: number of chunks, or of tasks for a brokerage of tasks.
        tasks: number of tasks that they belong to.
        oldest: since when the first of them has been waiting.
        next_try: the first instant at which one of them is brokered again; None if none waits for an instant.
    """

    brokerage: str
    outcome: str
    reason: str
    main_reason: str
    chunks: int
    tasks: int
    oldest: datetime
    next_try: datetime | None


def read_states(
    connection: sa.Connection,
    *,
    tasks: Sequence[int] | None = None,
    brokerages: Sequence[str] | None = None,
    outcomes: Sequence[str] | None = None,
    reasons: Sequence[str] | None = None,
    queue: str | None = None,
    changed_since: datetime | None = None,
    seen_since: datetime | None = None,
    waiting: bool | None = None,
    now: datetime | None = None,
    most: int | None = None,
) -> list[ChunkState]:
    """The states that match all filters, longest waiting first; a filter of None matches every state.

    Args:
        connection: the connection to read from.
        tasks: only states of these tasks.
        brokerages: only states of these brokerages.
        outcomes: only states with one of these outcomes.
        reasons: only states with one of these as reason or main reason.
        queue: only chunks with jobs assigned to this queue.
        changed_since: only states whose outcome or reason changed at this instant or later.
        seen_since: only states that a cycle after this instant decided about.
        waiting: True: only waiting states; False: only brokered ones.
        now: only states that still exist at this instant; see :data:`GONE_AFTER`.
        most: the largest number of states to return.
    """
    values = {
        "tasks": None if tasks is None else list(tasks),
        "brokerages": None if brokerages is None else list(brokerages),
        "outcomes": None if outcomes is None else list(outcomes),
        "reasons": None if reasons is None else list(reasons),
        "queue": queue,
        "changed_since": changed_since,
        "seen_since": seen_since,
        "waiting": waiting,
        "now": now,
        "gone_after": GONE_AFTER,
        "most": most,
    }
    return [ChunkState(**row._mapping) for row in connection.execute(_READ_STATES, values)]


@dataclass(frozen=True)
class ListedState(DecidedState):
    """The part of the last decision about a task or chunk that lists show; see :class:`LastDecision`.

    Attributes:
        assigned: number of jobs by queue or nucleus.
    """

    last_seen_at: datetime
    decisions: int
    main_reason: str
    assigned: Mapping[str, int]


#: Columns of the rows that :func:`listed_state` takes.
LISTED = ", ".join(field.name for field in fields(ListedState) if field.name != "assigned") + ", assigned::text"
_LIST_STATES = f"""
    SELECT {LISTED} FROM broker.chunk_states
    WHERE last_seen_at > %(seen_since)s
      AND (%(brokerages)s::text[] IS NULL OR brokerage = ANY(%(brokerages)s))
      AND (%(tasks)s::bigint[] IS NULL OR jeditaskid = ANY(%(tasks)s))
      AND (NOT %(waiting)s OR waiting_since IS NOT NULL)
      AND (%(waiting_before)s::timestamptz IS NULL OR waiting_since < %(waiting_before)s)
      AND (%(code)s::text IS NULL OR (waiting_since IS NOT NULL AND %(code)s IN (reason, main_reason)))
    ORDER BY brokerage COLLATE "C", jeditaskid, coalesce(datasetid, -1), coalesce(ramcount, -1)"""  # noqa: S608 - as above


def list_states(
    connection: sa.Connection,
    *,
    seen_since: datetime,
    brokerages: Sequence[str] | None = None,
    tasks: Sequence[int] | None = None,
    waiting: bool = False,
    waiting_before: datetime | None = None,
    code: str | None = None,
) -> list[ListedState]:
    """The states that a cycle after an instant decided about, ordered by brokerage, task and chunk.

    There may be many, so only the columns that lists need are read, bypassing layers that look up columns by name.

    Args:
        connection: the connection to read from.
        seen_since: the instant (aware).
        brokerages: only states of these brokerages.
        tasks: only states of these tasks.
        waiting: only waiting states.
        waiting_before: only states that have been waiting since before this instant (aware).
        code: only waiting states with this reason or main reason.
    """
    names = None if brokerages is None else list(brokerages)
    numbers = None if tasks is None else list(tasks)
    wanted = {"seen_since": seen_since, "brokerages": names, "tasks": numbers, "waiting": waiting}
    values = {**wanted, "waiting_before": waiting_before, "code": code}
    with Database.raw(connection).cursor(binary=True) as cursor:
        rows = cursor.execute(_LIST_STATES, values).fetchall()
    return [listed_state(row) for row in rows]


def listed_state(row: Sequence[Any]) -> ListedState:
    """Convert a row with the columns :data:`LISTED`."""
    *rest, text = row
    return ListedState(*(*rest, _NOTHING if text == "{}" else json.loads(text)))


_BROKERED = """
    SELECT brokerage, jeditaskid, max(last_seen_at) FROM broker.chunk_states
    WHERE last_seen_at > %s AND outcome = 'brokered' AND assigned::text <> '{}' GROUP BY 1, 2"""
_WAITING_CODES = """
    SELECT brokerage, reason, main_reason, count(*) FROM broker.chunk_states
    WHERE last_seen_at > %s AND waiting_since IS NOT NULL GROUP BY 1, 2, 3"""


def brokered_tasks(connection: sa.Connection, seen_since: datetime) -> list[tuple[str, int, datetime]]:
    """Brokerage and task, and when the task was last brokered with jobs or a nucleus, for times after an instant."""
    with Database.raw(connection).cursor(binary=True) as cursor:
        return cursor.execute(_BROKERED, [seen_since]).fetchall()


def count_waiting(connection: sa.Connection, seen_since: datetime) -> dict[tuple[str, str, str], int]:
    """The number of waiting states of :func:`list_states` by brokerage, reason and main reason."""
    with Database.raw(connection).cursor(binary=True) as cursor:
        rows = cursor.execute(_WAITING_CODES, [seen_since]).fetchall()
    return {(brokerage, reason, main): number for brokerage, reason, main, number in rows}


_COUNT_LISTED = """
    SELECT brokerage, count(*), max(last_seen_at) FROM broker.chunk_states WHERE last_seen_at > %s GROUP BY brokerage"""
_SINCE_BY_TASK = """
    SELECT DISTINCT ON (jeditaskid) jeditaskid, min(waiting_since) FROM broker.chunk_states
    WHERE last_seen_at > %s GROUP BY jeditaskid, brokerage
    ORDER BY jeditaskid, max(last_seen_at) DESC, brokerage COLLATE "C" ASC"""


def waiting_since_by_task(connection: sa.Connection, seen_since: datetime) -> dict[int, datetime | None]:
    """Since when each task waits that a cycle after an instant decided about, at the brokerage that did so last."""
    with Database.raw(connection).cursor(binary=True) as cursor:
        return dict(cursor.execute(_SINCE_BY_TASK, [seen_since]).fetchall())


def count_listed(connection: sa.Connection, seen_since: datetime) -> tuple[dict[str, int], datetime | None]:
    """The number of states of :func:`list_states` by brokerage, and when a cycle last decided about one of them."""
    with Database.raw(connection).cursor(binary=True) as cursor:
        rows = cursor.execute(_COUNT_LISTED, [seen_since]).fetchall()
    return {name: number for name, number, _ in rows}, max((last for _, _, last in rows), default=None)


def waiting_by_reason(
    connection: sa.Connection, now: datetime, brokerages: Sequence[str] | None = None
) -> list[Waiting]:
    """The work that waits at ``now`` by brokerage, outcome, reason and main reason, most chunks first."""
    names = None if brokerages is None else list(brokerages)
    values = {"now": now, "gone_after": GONE_AFTER, "brokerages": names}
    return [Waiting(**row._mapping) for row in connection.execute(_COUNT_WAITING, values)]


def decided_after(connection: sa.Connection, moment: datetime) -> bool:
    """Whether a cycle for a later instant has updated the states, so that they no longer describe ``moment``."""
    statement = sa.text("SELECT EXISTS (SELECT FROM broker.chunk_states WHERE last_seen_at > :moment)")
    return bool(connection.execute(statement, {"moment": moment}).scalar_one())


def outcome_changes(connection: sa.Connection, since: datetime, until: datetime, least: int = 1) -> list[Change]:
    """The chunks whose outcome or reason changed at least ``least`` times between two instants (aware), most first."""
    rows = connection.execute(_READ_CHANGES, {"since": since, "until": until, "least": least})
    return [Change(**row._mapping) for row in rows]
