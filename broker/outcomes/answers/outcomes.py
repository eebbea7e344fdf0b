"""How jobs ended at queues, and which queues and nodes are closed as a result."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from broker.domain.queue_health import HealthLimits, QueueHealth
from broker.outcomes.model.record import wait_quantile_min
from broker.outcomes.statements.held_nodes import HeldNode, read_held
from broker.outcomes.statements.outcome_rows import RecordLine, record_since, unhealthy_places
from broker.rules.shared.filters.queue_unhealthy import limit_percent
from broker.store.query_context import QueryContext, ResponseModel

_SHOWN = ("queue", "kind", "node", "state", "failed", "ended", "probes_finished", "probes_ended")


class PlaceHealth(ResponseModel):
    """A queue, or one of its nodes, that is unhealthy for a kind of jobs.

    Attributes:
        node: name of the node; empty for the queue as a whole.
        state: suspected, excluded (gets no jobs), or probation (gets a few probe jobs).
        statistic: logarithm of the likelihood ratio of failing to usual.
        failed: number of jobs that failed since ``since``.
        ended: number of jobs that ended since ``since``.
        tasks: number of tasks of the failed jobs.
        jobs: last failed jobs.
        changed: start of the state.
        until: automatic end of the state.
        sentence: summary in words.
    """

    queue: str
    kind: str
    node: str
    state: str
    statistic: float
    failed: int
    ended: int
    tasks: int
    jobs: tuple[int, ...]
    since: datetime | None
    changed: datetime | None
    until: datetime | None
    probes_finished: int
    probes_ended: int
    sentence: str


class QueueOutcome(ResponseModel):
    """Totals of the jobs of a kind that ended at a queue.

    Attributes:
        closed: closed or cancelled jobs.
        lost: failed jobs that stopped reporting.
        by_fault: failed jobs by fault.
        by_class: failed jobs by class of error.
        core_h: core hours of all jobs that ran.
        failed_core_h: core hours of the failed jobs.
        wait_min: median minutes from waiting to start; null if there are none, or above 16384.
        walltime_ratio: geometric mean of actual over expected walltime of finished jobs; null if there are none.
    """

    queue: str
    kind: str
    finished: int
    failed: int
    closed: int
    lost: int
    failed_percent: float | None
    by_fault: dict[str, int]
    by_class: dict[str, int]
    core_h: float
    failed_core_h: float
    wait_min: float | None
    walltime_ratio: float | None


class Outcomes(ResponseModel):
    """The record of queues since ``since``, and unhealthy places."""

    now: datetime
    since: datetime
    queues: tuple[QueueOutcome, ...]
    unhealthy: tuple[PlaceHealth, ...]


def outcomes_answer(query: QueryContext, *, hours: float = 24.0, queue: str | None = None) -> Outcomes:
    """How jobs ended within ``hours``, at all queues or one; those with most failures come first."""
    since = query.now - timedelta(hours=hours)
    lines = [_line(line) for line in record_since(query.connection, since, queue)]
    lines.sort(key=lambda line: (-line.failed, line.queue, line.kind))
    return Outcomes(now=query.now, since=since, queues=tuple(lines), unhealthy=unhealthy(query, queue))


def unhealthy(query: QueryContext, queue: str | None = None) -> tuple[PlaceHealth, ...]:
    """The unhealthy queues and nodes, of all queues or one, worst first."""
    return tuple(_place(one) for one in unhealthy_places(query.connection, queue))


def held_nodes(query: QueryContext, queue: str | None = None) -> dict[str, list[str]]:
    """The nodes whose pilots get no jobs now, each in words, by queue; of all queues or one."""
    sentences: dict[str, list[str]] = {}
    for node in read_held(query.connection, query.now, queue):
        sentences.setdefault(node.queue, []).append(held_sentence(node))
    return sentences


def held_sentence(one: HeldNode) -> str:
    """Such as: n1 until 2026-08-01 12:30Z, where 7 of 7 jobs of 2 tasks failed."""
    until = one.held_until.astimezone(UTC)
    return (
        f"{one.node} until {until:%Y-%m-%d %H:%M}Z, where {one.failed} of {one.ended} jobs of {one.tasks} tasks failed"
    )


def _line(line: RecordLine) -> QueueOutcome:
    cell, ended = line.cell, line.cell.finished + line.cell.failed
    wait = wait_quantile_min(cell.waits, 0.5)
    return QueueOutcome(
        queue=line.queue,
        kind=line.kind,
        **{name: getattr(cell, name) for name in ("finished", "failed", "closed", "lost")},
        failed_percent=round(100.0 * cell.failed / ended, 1) if ended else None,
        by_fault=dict(line.by_fault),
        by_class=dict(line.by_class),
        core_h=round(cell.core_s / 3600.0, 3),
        failed_core_h=round(cell.failed_core_s / 3600.0, 3),
        wait_min=None if wait is None or math.isinf(wait) else wait,
        walltime_ratio=round(math.exp(cell.ratio_ln_sum / cell.ratio_jobs), 3) if cell.ratio_jobs else None,
    )


def _place(place: QueueHealth) -> PlaceHealth:
    return PlaceHealth(
        **{name: getattr(place, name) for name in _SHOWN},
        statistic=round(place.statistic, 2),
        tasks=len(place.tasks),
        jobs=place.evidence,
        since=_instant(place.since_s),
        changed=_instant(place.changed_s),
        until=_instant(place.until_s),
        sentence=health_sentence(place),
    )


def health_sentence(one: QueueHealth) -> str:
    """Such as: 47 of 50 production jobs of 9 tasks failed in 6.0 h, limit 44 %; closed until 2026-08-01 14:30Z."""
    hours = max(0.0, one.last_s - one.since_s) / 3600.0
    failures = f"{one.failed} of {one.ended} {one.kind} jobs failed, of {len(one.tasks)} tasks"
    if not math.isnan(hours):
        limit = limit_percent(HealthLimits())
        failures = (
            f"{one.failed} of {one.ended} {one.kind} jobs, of {len(one.tasks)} tasks, failed in {hours:.1f} h, "
            f"limit {limit:.0f} %"
        )
    until = _instant(one.until_s)
    when = "" if until is None else f" until {until:%Y-%m-%d %H:%M}Z"
    return {
        "excluded": f"{failures}; closed{when}",
        "probation": f"{failures}; {one.probes_finished} of {one.probes_ended} probe jobs finished so far",
        "suspected": f"{failures}; suspected{when}",
    }.get(one.state, failures)


def _instant(time_s: float) -> datetime | None:
    return None if math.isnan(time_s) else datetime.fromtimestamp(time_s, UTC)
