"""Content of the overview besides service, reasons and alarms: outcomes over time, changes, rejections."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa

from broker.gdpconfig.publish import FIRST_READING
from broker.grid.answers.grid import day_counts, totals_of_the_day
from broker.service.answers.flow import DAY, OUTCOME_STEPS, decided_in_a_day, first_counted
from broker.service.statements import overview_reads
from broker.service.statements.overview_reads import StoredChanges
from broker.store.query_context import OverTime, QueryContext, ResponseModel
from broker.store.summaries.reason_counts import outcome_counts

SHOWN = DAY
SHORT_RANGES_H = (1.0, 6.0)
SHORTEST_STEP_S = 300.0
"""Length of the buckets in which decisions are counted, in seconds."""


class OutcomeStep(ResponseModel):
    """Approximate number of chunks decided, by outcome, in one step of time that begins at ``at``."""

    at: datetime
    outcomes: dict[str, int]


class ChangeMark(ResponseModel):
    """A change: its kind, time, subject and author."""

    at: datetime
    kind: Literal["tuning", "queue", "source", "canary", "pin"]
    about: str
    detail: str
    editor: str | None = None
    version: int | None = None


class Activity(OverTime):
    """Decisions and changes in the 24 hours before ``now``, on one time axis."""

    steps: tuple[OutcomeStep, ...]
    changes: tuple[ChangeMark, ...]


class CycleTimes(ResponseModel):
    """Durations of the cycles of each agent in 24 h, in seconds, newest first."""

    now: datetime
    seconds: dict[str, tuple[float, ...]]


class QueueRejections(ResponseModel):
    """Number of decisions in 24 hours in which each rule rejected a queue, and in which it was chosen."""

    queue: str
    chosen: int
    rejected: dict[str, int]


class RejectionMap(ResponseModel):
    """All queues against all codes that rejected any, most frequent code first."""

    now: datetime
    codes: tuple[str, ...]
    queues: tuple[QueueRejections, ...]


def hours_known(query: QueryContext) -> float:
    """Return how many hours back a plot goes by default: as far as data exists, at most a day."""
    first = first_counted(query)
    known_h = SHOWN / timedelta(hours=1) if first is None else (query.now - first) / timedelta(hours=1)
    return next((hours for hours in SHORT_RANGES_H if known_h <= hours), SHOWN / timedelta(hours=1))


def activity(query: QueryContext, span: timedelta = SHOWN) -> Activity:
    """Return what was decided and what changed in the last 24 hours, or in another span."""
    since = query.now - span
    step_s = step_of(span)
    by_step: defaultdict[datetime, dict[str, int]] = defaultdict(dict)
    if span == DAY:
        counts = decided_in_a_day(query).outcomes
    else:
        counts = outcome_counts(query.connection, since, query.now, step_s)
    for at, outcome, chunks in counts:
        by_step[at][outcome] = chunks
    steps = tuple(OutcomeStep(at=at, outcomes=outcomes) for at, outcomes in by_step.items())
    changes = changes_between(query.connection, since, query.now)
    return Activity(now=query.now, since=since, step_s=step_s, steps=steps, changes=tuple(changes))


def step_of(span: timedelta) -> float:
    """Return the step length in seconds: about ``OUTCOME_STEPS`` steps, none shorter than a counting bucket."""
    return max(SHORTEST_STEP_S, SHORTEST_STEP_S * round(span.total_seconds() / OUTCOME_STEPS / SHORTEST_STEP_S))


def changes_between(connection: sa.Connection, since: datetime, until: datetime) -> list[ChangeMark]:
    """Return the changes of the tuning and the grid in a span of time, newest first."""
    stored_changes = overview_reads.changes(connection, since, until)
    return sorted(_change_marks(stored_changes), key=lambda mark: mark.at, reverse=True)


def cycle_times(query: QueryContext) -> CycleTimes:
    """Return how long cycles took in the last 24 hours."""
    by_agent: defaultdict[str, list[float]] = defaultdict(list)
    for agent, seconds in overview_reads.cycle_seconds(query.connection, query.now - SHOWN, query.now):
        by_agent[agent].append(seconds)
    return CycleTimes(now=query.now, seconds={agent: tuple(by_agent[agent]) for agent in sorted(by_agent)})


def rejection_map(query: QueryContext) -> RejectionMap:
    """Return how often each rule rejected each queue in the last 24 hours."""
    counts = day_counts(one for some in totals_of_the_day(query).values() for one in some)
    total: Counter[str] = Counter()
    for one in counts.values():
        total += one.rejected
    return RejectionMap(
        now=query.now,
        codes=tuple(sorted(total, key=lambda code: (-total[code], code))),
        queues=tuple(
            QueueRejections(queue=name, chosen=one.chosen, rejected=dict(sorted(one.rejected.items())))
            for name, one in sorted(counts.items())
        ),
    )


def _change_marks(stored_changes: StoredChanges) -> Iterator[ChangeMark]:
    first = [row for row in stored_changes.versions if row["reason"] == FIRST_READING]
    for row in first[:1]:
        about = f"{len(first)} {'key' if len(first) == 1 else 'keys'}"
        yield ChangeMark(at=row["published_at"], kind="source", about=about, detail=FIRST_READING)
    for row in [version for version in stored_changes.versions if version["reason"] != FIRST_READING]:
        yield ChangeMark(
            at=row["published_at"],
            kind="tuning",
            about=row["key"] or f"version {row['version']}",
            detail=row["reason"] or "",
            editor=row["editor"],
            version=row["version"],
        )
    for row in stored_changes.queues:
        before, after = (_short(value) for value in row["fields"]["status"])
        yield ChangeMark(at=row["changed_at"], kind="queue", about=row["queue"], detail=f"status {before} -> {after}")
    for row in stored_changes.feeds:
        if row["outcome"] != "done":
            yield ChangeMark(at=row["started_at"], kind="source", about=row["feed"], detail=row["outcome"])
    for row in stored_changes.pins:
        detail = f"{row['field']} held at {_short(row['value'])}: {row['reason']}"
        yield ChangeMark(at=row["set_at"], kind="pin", about=row["queue"], detail=detail, editor=row["editor"])
    for row in stored_changes.canaries:
        about = f"canary {row['id']}"
        yield ChangeMark(at=row["started_at"], kind="canary", about=about, detail=row["reason"], editor=row["editor"])


def _short(value: object) -> str:
    return "nothing" if value is None else str(value)[:100]
