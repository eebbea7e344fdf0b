"""All that is on record of a task: decisions, versions of the tuning, status, actions on its jobs, and queues left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.decisions import StoredDecision
from broker.domain.instants import naive
from broker.store.connection.tables import Names, TableCatalogue
from broker.store.decisions.decision_rows import COLUMNS, TABLE, as_last_seen, decisions_of, with_live_counts
from broker.tuning.statements.gdpconfig_rows import TuningEvent, TuningStore

_READ_DECISIONS = sa.text(f"""
    SELECT {COLUMNS} FROM {TABLE}
    WHERE jeditaskid = :task AND decided_at >= coalesce(:since, '-infinity'::timestamptz)
    ORDER BY decided_at, id""")  # noqa: S608 - constants

# without the work, which is most of a row
_READ_MADE = sa.text(f"""
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

#: Items of the history of the tuning that are looked at, newest first.
MOST_CHANGES = 10_000


@dataclass(frozen=True)
class DecisionLine:
    """One decision, in short; see ``broker.decisions`` for the columns.

    ``seen_again`` later cycles of the same day came to the same, the last of them for ``last_seen_at``.
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
    """A status that the task got, and why."""

    at: datetime
    status: str | None
    reason: str | None


@dataclass(frozen=True)
class ActionLine:
    """What was done at once, and by the same rule, to jobs at a queue. ``value_s`` and ``limit_s``: the largest.

    ``pandaids``: the first thousand of them.
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
    """A queue that is not given jobs of a dataset for a while, since it lost some."""

    at: datetime
    datasetid: int
    queue: str


@dataclass(frozen=True)
class TaskRecord:
    """What is on record about a task.

    ``versions`` are the changes that made each version of the tuning which its decisions used, or that came between.
    """

    decisions: Sequence[DecisionLine]
    statuses: Sequence[StatusLine]
    actions: Sequence[ActionLine]
    left: Sequence[LeftLine]
    versions: Sequence[TuningEvent]


def read_record(connection: sa.Connection, names: Names, task: int, since: datetime | None = None) -> TaskRecord:
    """All that is on record about a task from ``since`` on."""
    asked: dict[str, Any] = {"task": task, "since": since}
    rows = (dict(row._mapping) for row in connection.execute(_READ_DECISIONS, asked))
    decisions = [_line(one) for one in with_live_counts(connection, decisions_of(connection, rows))]
    actions = [ActionLine(*row) for row in connection.execute(_READ_ACTIONS, asked)]
    left = [LeftLine(*row) for row in connection.execute(_READ_QUEUES_LEFT, asked)]
    used = [one.tuning for one in decisions]
    history = TuningStore(names).history(connection, limit=MOST_CHANGES) if used else []
    versions = [item for item in reversed(history) if min(used) <= item.version <= max(used)]
    return TaskRecord(decisions, _statuses(connection, names, task, since), actions, left, versions)


def decisions_between(
    connection: sa.Connection, tasks: Sequence[int], since: datetime, until: datetime
) -> list[StoredDecision]:
    """The decisions about tasks that were made after ``since`` up to ``until``, oldest first, without their work."""
    asked: dict[str, Any] = {"tasks": list(tasks), "since": since, "until": until}
    rows = (dict(row._mapping) for row in connection.execute(_READ_MADE, asked))
    return with_live_counts(connection, decisions_of(connection, rows))


def _line(stored: StoredDecision) -> DecisionLine:
    record, origin = as_last_seen(stored).record, stored.origin
    return DecisionLine(
        id=stored.id,
        decided_at=origin.decided_at,
        brokerage=record.decision.brokerage,
        datasetid=record.decision.datasetid,
        ramcount=record.decision.ramcount,
        outcome=record.decision.outcome,
        reason=record.decision.reason,
        candidates=tuple(one.name for one in record.decision.candidates),
        assigned=record.assigned,
        tuning=origin.tuning,
        engine=origin.engine,
        pending_until=record.pending_until,
        seen_again=stored.seen_again,
        last_seen_at=stored.last_seen_at,
    )


def _statuses(connection: sa.Connection, names: Names, task: int, since: datetime | None) -> list[StatusLine]:
    columns = ("jeditaskid", "modificationtime", "status", "reason")
    source = TableCatalogue.read(connection, names).source("tasks_statuslog", columns)
    query = sa.text(
        f"SELECT modificationtime, status, reason FROM {source} AS log "  # noqa: S608 - quoted names
        "WHERE jeditaskid = :task AND modificationtime >= coalesce(:since, '-infinity'::timestamp) ORDER BY 1"
    )
    start = None if since is None else naive(since)
    found = connection.execute(query, {"task": task, "since": start})
    return [StatusLine(row[0].replace(tzinfo=UTC), row[1], row[2]) for row in found]
