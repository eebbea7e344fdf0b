"""Everything on record about a task: decisions, tuning versions, status, actions on its jobs, and queues left."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.codec.packed_candidates import CandidatesCorruptError, unpack_names
from broker.domain.chosen_candidates import Legend
from broker.domain.decisions import StoredDecision
from broker.domain.instants import naive
from broker.store.connection.database import Database
from broker.store.connection.tables import Names, TableCatalogue
from broker.store.decisions import legends
from broker.store.decisions.decision_rows import COLUMNS, TABLE, decisions_of, unreadable, with_live_counts
from broker.store.gdpconfig_rows import TuningEvent, TuningStore

# there may be thousands: read without the bulk of a row, bypassing the layers that look up columns by name
_READ_LINES = f"""
    SELECT id, decided_at, brokerage, datasetid, ramcount, outcome, reason, legend, candidates, named_candidates,
        assigned::text, tuning, engine, pending_until, seen_again, last_seen_at
    FROM {TABLE}
    WHERE jeditaskid = %(task)s AND decided_at >= coalesce(%(since)s, '-infinity'::timestamptz)
    ORDER BY decided_at, id"""  # noqa: S608 - constants
_READ_LAST_SEEN = """
    SELECT decision, seen_again, last_seen_at FROM broker.chunk_states WHERE jeditaskid = %(task)s AND seen_again > 0"""

# without the work, which is the bulk of a row
_READ_DECISIONS = sa.text(f"""
    SELECT {COLUMNS.replace("work,", "NULL::bytea AS work,")} FROM {TABLE}
    WHERE jeditaskid = ANY(:tasks) AND decided_at > :since AND decided_at <= :until
    ORDER BY decided_at, id""")  # noqa: S608 - constants

_READ_ACTIONS = sa.text("""
    SELECT acted_at, agent, action, rule, queue, old_status, new_status, count(*) AS jobs,
           min(pandaid) AS first_pandaid, max(value_s) AS value_s, max(limit_s) AS limit_s,
           (array_agg(pandaid ORDER BY pandaid))[1:1000] AS pandaids
    FROM broker.job_actions WHERE jeditaskid = :task AND acted_at >= coalesce(:since, '-infinity'::timestamptz)
    GROUP BY acted_at, agent, action, rule, queue, old_status, new_status
    ORDER BY acted_at, min(id)""")

_READ_QUEUES_LEFT = sa.text("""
    SELECT rebrokered_at, datasetid, queue FROM broker.rebrokered_from
    WHERE jeditaskid = :task AND rebrokered_at >= coalesce(:since, '-infinity'::timestamptz)
    ORDER BY rebrokered_at, datasetid, queue""")

#: Number of items of the tuning history that are read, newest first.
MOST_CHANGES = 10_000


@dataclass(frozen=True)
class DecisionLine:
    """A decision, in short; see ``broker.decisions`` for the columns.

    ``seen_again`` later cycles of the same day had the same result, the last of them at ``last_seen_at``.
    """

    id: int
    decided_at: datetime
    brokerage: str
    datasetid: int | None
    ramcount: float | None
    outcome: str
    reason: str
    candidates: tuple[str, ...]
    assigned: Mapping[str, int]
    tuning: int
    engine: str
    pending_until: datetime | None
    seen_again: int = 0
    last_seen_at: datetime | None = None


@dataclass(frozen=True)
class StatusLine:
    """A status that the task entered, and why."""

    at: datetime
    status: str | None
    reason: str | None


@dataclass(frozen=True)
class ActionLine:
    """An action taken at once, and by the same rule, on jobs at a queue. ``value_s`` and ``limit_s`` are the largest.

    ``pandaids`` holds the first thousand jobs.
    """

    at: datetime
    agent: str
    action: str
    rule: str
    queue: str | None
    old_status: str | None
    new_status: str | None
    jobs: int
    first_pandaid: int
    value_s: float | None
    limit_s: float | None
    pandaids: Sequence[int] = ()


@dataclass(frozen=True)
class LeftLine:
    """A queue that gets no jobs of a dataset for a while, since it lost some."""

    at: datetime
    datasetid: int
    queue: str


@dataclass(frozen=True)
class TaskRecord:
    """Everything on record about a task.

    ``versions`` are the changes behind each tuning version that its decisions used, and those in between.
    """

    decisions: Sequence[DecisionLine]
    statuses: Sequence[StatusLine]
    actions: Sequence[ActionLine]
    left: Sequence[LeftLine]
    versions: Sequence[TuningEvent]


def read_record(connection: sa.Connection, names: Names, task: int, since: datetime | None = None) -> TaskRecord:
    """Read everything on record about a task from ``since`` on."""
    parameters: dict[str, Any] = {"task": task, "since": since}
    decisions = _lines(connection, parameters)
    actions = [ActionLine(*row) for row in connection.execute(_READ_ACTIONS, parameters)]
    queues_left = [LeftLine(*row) for row in connection.execute(_READ_QUEUES_LEFT, parameters)]
    versions_used = [decision.tuning for decision in decisions]
    history = TuningStore(names).history(connection, limit=MOST_CHANGES) if versions_used else []
    versions = [item for item in reversed(history) if min(versions_used) <= item.version <= max(versions_used)]
    return TaskRecord(decisions, _statuses(connection, names, task, since), actions, queues_left, versions)


def decisions_between(
    connection: sa.Connection, tasks: Sequence[int], since: datetime, until: datetime
) -> list[StoredDecision]:
    """Return the decisions about tasks made after ``since`` up to ``until``, oldest first, without their work."""
    parameters: dict[str, Any] = {"tasks": list(tasks), "since": since, "until": until}
    rows = (dict(row._mapping) for row in connection.execute(_READ_DECISIONS, parameters))
    return with_live_counts(connection, decisions_of(connection, rows))


def _lines(connection: sa.Connection, parameters: Mapping[str, Any]) -> list[DecisionLine]:
    """Return the decisions about a task; the state of a chunk holds how often its last decision was seen again."""
    with Database.raw(connection).cursor(binary=True) as cursor:
        rows = cursor.execute(_READ_LINES, parameters).fetchall()
        live = {row[0]: row[1:] for row in cursor.execute(_READ_LAST_SEEN, parameters).fetchall()}
    legends_by_id = legends.read(connection, [row[7] for row in rows if row[7] is not None])
    assigned: dict[str | None, Mapping[str, int]] = {None: {}}
    lines = []
    for row in rows:
        if row[10] not in assigned:
            assigned[row[10]] = json.loads(row[10])
        lines.append(_line(row, legends_by_id.get(row[7]), assigned[row[10]], live.get(row[0], row[14:])))
    return lines


def _line(
    row: Sequence[Any], legend: Legend | None, assigned: Mapping[str, int], repeats: tuple[int, datetime | None]
) -> DecisionLine:
    """Convert a row of the decisions about a task.

    Raises:
        DecisionUnreadable: the row is damaged.
    """
    number, decided_at, brokerage, datasetid, ramcount, outcome, reason, _, packed, named_candidates = row[:10]
    try:
        names = (
            unpack_names(legend, packed)
            if named_candidates is None
            else tuple(candidate["name"] for candidate in named_candidates)
        )
    except CandidatesCorruptError as error:
        raise unreadable(number, error) from error
    tuning, engine, pending_until = row[11:14]
    seen_again, last_seen_at = repeats
    if pending_until is not None and last_seen_at is not None:
        pending_until += last_seen_at - decided_at
    return DecisionLine(
        id=number,
        decided_at=decided_at,
        brokerage=brokerage,
        datasetid=datasetid,
        ramcount=ramcount,
        outcome=outcome,
        reason=reason or "",
        candidates=names,
        assigned=assigned,
        tuning=tuning or 0,
        engine=engine or "",
        pending_until=pending_until,
        seen_again=seen_again,
        last_seen_at=last_seen_at,
    )


def _statuses(connection: sa.Connection, names: Names, task: int, since: datetime | None) -> list[StatusLine]:
    columns = ("jeditaskid", "modificationtime", "status", "reason")
    source = TableCatalogue.read(connection, names).source("tasks_statuslog", columns)
    query = sa.text(
        f"SELECT modificationtime, status, reason FROM {source} AS log "  # noqa: S608 - quoted names
        "WHERE jeditaskid = :task AND modificationtime >= coalesce(:since, '-infinity'::timestamp) ORDER BY 1"
    )
    start = None if since is None else naive(since)
    rows = connection.execute(query, {"task": task, "since": start})
    return [StatusLine(row[0].replace(tzinfo=UTC), row[1], row[2]) for row in rows]
