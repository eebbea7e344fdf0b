"""How jobs ended at queues, and which queues and nodes are closed for it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from broker.domain.queue_health import HealthLimits, QueueHealth
from broker.outcomes.model.record import wait_quantile_min
from broker.outcomes.statements.held_nodes import HeldNode, read_held
from broker.outcomes.statements.outcome_rows import RecordLine, record_since, unhealthy_places
from broker.rules.shared.filters.queue_unhealthy import limit_percent
from broker.store.query_context import Answer, Asking

_SHOWN = ("queue", "kind", "node", "state", "failed", "ended", "probes_finished", "probes_ended")


class PlaceHealth(Answer):
    """A queue, or one of its nodes, that is not healthy for a kind of jobs.

    Attributes:
        node: empty for the queue as a whole.
        state: suspected, excluded (it gets nothing), or probation (it gets a few probe jobs).
        statistic: logarithm of the likelihood ratio of failing over usual.
        failed, ended, tasks: since ``since``, how many of how many jobs failed, and of how many tasks.
        jobs: the last of the failed ones.
        changed: since when the state holds; ``until``: when it ends by itself.
        sentence: all this in words.
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


class QueueOutcome(Answer):
    """Sums over the jobs of a kind that ended at a queue.

    Attributes:
        closed: closed or cancelled jobs; ``lost``: failed ones of which nothing was heard any more.
        by_fault, by_class: failed jobs by whose fault it is, and by class of error.
        core_h, failed_core_h: core hours of all that ran, and of the failed ones.
        wait_min: half of the jobs started within so many minutes; null without any, or above 16384.
        walltime_ratio: geometric mean of real over expected walltime of finished jobs; null without any.
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


class Outcomes(Answer):
    """The record of queues since an hour, and what is not healthy."""

    now: datetime
    since: datetime
    queues: tuple[QueueOutcome, ...]
    unhealthy: tuple[PlaceHealth, ...]


def outcomes_answer(asking: Asking, *, hours: float = 24.0, queue: str | None = None) -> Outcomes:
    """How jobs ended within so many hours, at all queues or one; those that failed most come first."""
    since = asking.now - timedelta(hours=hours)
    lines = [_line(one) for one in record_since(asking.connection, since, queue)]
    lines.sort(key=lambda one: (-one.failed, one.queue, one.kind))
    return Outcomes(now=asking.now, since=since, queues=tuple(lines), unhealthy=unhealthy(asking, queue))


def unhealthy(asking: Asking, queue: str | None = None) -> tuple[PlaceHealth, ...]:
    """The queues and nodes that are not healthy, of all queues or one, the worst first."""
    return tuple(_place(one) for one in unhealthy_places(asking.connection, queue))


def held_nodes(asking: Asking, queue: str | None = None) -> dict[str, list[str]]:
    """The nodes whose pilots are given no jobs now, each in words, by queue; of all queues or one."""
    found: dict[str, list[str]] = {}
    for one in read_held(asking.connection, asking.now, queue):
        found.setdefault(one.queue, []).append(held_sentence(one))
    return found


def held_sentence(one: HeldNode) -> str:
    """Such as: n1 until 2026-08-01 12:30Z, where 7 of 7 jobs of 2 tasks failed."""
    until = one.held_until.astimezone(UTC)
    return (
        f"{one.node} until {until:%Y-%m-%d %H:%M}Z, where {one.failed} of {one.ended} jobs of {one.tasks} tasks failed"
    )


def _line(one: RecordLine) -> QueueOutcome:
    cell, ended = one.cell, one.cell.finished + one.cell.failed
    wait = wait_quantile_min(cell.waits, 0.5)
    return QueueOutcome(
        queue=one.queue,
        kind=one.kind,
        **{name: getattr(cell, name) for name in ("finished", "failed", "closed", "lost")},
        failed_percent=round(100.0 * cell.failed / ended, 1) if ended else None,
        by_fault=dict(one.by_fault),
        by_class=dict(one.by_class),
        core_h=round(cell.core_s / 3600.0, 3),
        failed_core_h=round(cell.failed_core_s / 3600.0, 3),
        wait_min=None if wait is None or math.isinf(wait) else wait,
        walltime_ratio=round(math.exp(cell.ratio_ln_sum / cell.ratio_jobs), 3) if cell.ratio_jobs else None,
    )


def _place(one: QueueHealth) -> PlaceHealth:
    return PlaceHealth(
        **{name: getattr(one, name) for name in _SHOWN},
        statistic=round(one.statistic, 2),
        tasks=len(one.tasks),
        jobs=one.evidence,
        since=_instant(one.since_s),
        changed=_instant(one.changed_s),
        until=_instant(one.until_s),
        sentence=health_sentence(one),
    )


def health_sentence(one: QueueHealth) -> str:
    """Such as: 47 of 50 production jobs of 9 tasks failed in 6.0 h, limit 44 %; closed until 2026-08-01 14:30Z."""
    hours = max(0.0, one.last_s - one.since_s) / 3600.0
    said = f"{one.failed} of {one.ended} {one.kind} jobs failed, of {len(one.tasks)} tasks"
    if not math.isnan(hours):
        limit = limit_percent(HealthLimits())
        said = (
            f"{one.failed} of {one.ended} {one.kind} jobs, of {len(one.tasks)} tasks, failed in {hours:.1f} h, "
            f"limit {limit:.0f} %"
        )
    until = _instant(one.until_s)
    when = "" if until is None else f" until {until:%Y-%m-%d %H:%M}Z"
    return {
        "excluded": f"{said}; closed{when}",
        "probation": f"{said}; {one.probes_finished} of {one.probes_ended} probe jobs finished so far",
        "suspected": f"{said}; suspected{when}",
    }.get(one.state, said)


def _instant(time_s: float) -> datetime | None:
    return None if math.isnan(time_s) else datetime.fromtimestamp(time_s, UTC)
