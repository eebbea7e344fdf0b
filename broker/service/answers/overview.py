"""What the overview shows besides service, reasons and alarms: outcomes over time, changes, rejections."""

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
from broker.service.statements.overview_reads import Found
from broker.store.query_context import Answer, Asking, OverTime
from broker.store.summaries.reason_counts import outcome_counts

SHOWN = DAY
SHORT_RANGES_H = (1.0, 6.0)
SHORTEST_STEP_S = 300.0
"""The length of the buckets in which decisions are counted."""


class OutcomeStep(Answer):
    """About how many chunks were decided, by outcome, in one step of time that begins at ``at``."""

    at: datetime
    outcomes: dict[str, int]


class ChangeMark(Answer):
    """Something that changed: of what kind, when, what, by whom."""

    at: datetime
    kind: Literal["tuning", "queue", "source", "canary", "pin"]
    about: str
    detail: str
    editor: str | None = None
    version: int | None = None


class Activity(OverTime):
    """What was decided and what changed in the 24 hours before ``now``, on one axis of time."""

    steps: tuple[OutcomeStep, ...]
    changes: tuple[ChangeMark, ...]


class CycleTimes(Answer):
    """How long the cycles of each agent took in 24 h, in seconds, the newest first."""

    now: datetime
    seconds: dict[str, tuple[float, ...]]


class QueueRejections(Answer):
    """In how many decisions of 24 hours each rule rejected a queue, and in how many it was chosen."""

    queue: str
    chosen: int
    rejected: dict[str, int]


class RejectionMap(Answer):
    """All queues against all codes that rejected any, the most frequent code first."""

    now: datetime
    codes: tuple[str, ...]
    queues: tuple[QueueRejections, ...]


def hours_known(asking: Asking) -> float:
    """How many hours back a plot goes where nobody chose: as far as something is known, a day at most."""
    first = first_counted(asking)
    known_h = SHOWN / timedelta(hours=1) if first is None else (asking.now - first) / timedelta(hours=1)
    return next((hours for hours in SHORT_RANGES_H if known_h <= hours), SHOWN / timedelta(hours=1))


def activity(asking: Asking, span: timedelta = SHOWN) -> Activity:
    """What was decided and what changed in the last 24 hours, or another span."""
    since = asking.now - span
    step_s = step_of(span)
    counted: defaultdict[datetime, dict[str, int]] = defaultdict(dict)
    if span == DAY:
        found = decided_in_a_day(asking).outcomes
    else:
        found = outcome_counts(asking.connection, since, asking.now, step_s)
    for at, outcome, chunks in found:
        counted[at][outcome] = chunks
    steps = tuple(OutcomeStep(at=at, outcomes=found) for at, found in counted.items())
    marks = changes_between(asking.connection, since, asking.now)
    return Activity(now=asking.now, since=since, step_s=step_s, steps=steps, changes=tuple(marks))


def step_of(span: timedelta) -> float:
    """The length of a step in seconds: there are about ``OUTCOME_STEPS``, and none is shorter than what is counted."""
    return max(SHORTEST_STEP_S, SHORTEST_STEP_S * round(span.total_seconds() / OUTCOME_STEPS / SHORTEST_STEP_S))


def changes_between(connection: sa.Connection, since: datetime, until: datetime) -> list[ChangeMark]:
    """What changed in the tuning and the grid in a span of time, the newest first."""
    found = overview_reads.changes(connection, since, until)
    return sorted(_marks(found), key=lambda mark: mark.at, reverse=True)


def cycle_times(asking: Asking) -> CycleTimes:
    """How long cycles took in the last 24 hours."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for agent, seconds in overview_reads.cycle_seconds(asking.connection, asking.now - SHOWN, asking.now):
        found[agent].append(seconds)
    return CycleTimes(now=asking.now, seconds={agent: tuple(found[agent]) for agent in sorted(found)})


def rejection_map(asking: Asking) -> RejectionMap:
    """Which rule rejected which queue how often in the last 24 hours."""
    counts = day_counts(one for some in totals_of_the_day(asking).values() for one in some)
    total: Counter[str] = Counter()
    for one in counts.values():
        total += one.rejected
    return RejectionMap(
        now=asking.now,
        codes=tuple(sorted(total, key=lambda code: (-total[code], code))),
        queues=tuple(
            QueueRejections(queue=name, chosen=one.chosen, rejected=dict(sorted(one.rejected.items())))
            for name, one in sorted(counts.items())
        ),
    )


def _marks(found: Found) -> Iterator[ChangeMark]:
    first = [row for row in found.versions if row["reason"] == FIRST_READING]
    for row in first[:1]:
        about = f"{len(first)} {'key' if len(first) == 1 else 'keys'}"
        yield ChangeMark(at=row["published_at"], kind="source", about=about, detail=FIRST_READING)
    for row in [one for one in found.versions if one["reason"] != FIRST_READING]:
        yield ChangeMark(
            at=row["published_at"],
            kind="tuning",
            about=row["key"] or f"version {row['version']}",
            detail=row["reason"] or "",
            editor=row["editor"],
            version=row["version"],
        )
    for row in found.queues:
        before, after = (_short(value) for value in row["fields"]["status"])
        yield ChangeMark(at=row["changed_at"], kind="queue", about=row["queue"], detail=f"status {before} -> {after}")
    for row in found.feeds:
        if row["outcome"] != "done":
            yield ChangeMark(at=row["started_at"], kind="source", about=row["feed"], detail=row["outcome"])
    for row in found.pins:
        detail = f"{row['field']} held at {_short(row['value'])}: {row['reason']}"
        yield ChangeMark(at=row["set_at"], kind="pin", about=row["queue"], detail=detail, editor=row["editor"])
    for row in found.canaries:
        about = f"canary {row['id']}"
        yield ChangeMark(at=row["started_at"], kind="canary", about=about, detail=row["reason"], editor=row["editor"])


def _short(value: object) -> str:
    return "nothing" if value is None else str(value)[:100]
