"""The flow of work: what waits, what is placed, and how jobs end each hour, now and a day before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from broker.brokerages.registry import brokerage, offered
from broker.service.statements import flow_reads
from broker.store.query_context import QueryContext, ResponseModel
from broker.store.summaries.reason_counts import bucket_of

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
STEPS, STEP_S, FIRST_STEPS_S = 24, 3600, 300
"""Number and length of the steps shown; they are shorter in the first two hours of an installation."""

_FIRST, _DECIDED = "when decisions were first counted", "what was decided in a day"
OUTCOME_STEPS = 48
"""Number of steps in which the outcomes of a day are counted."""


class Flow(ResponseModel):
    """A stream of work: amount in the last hour, in the same hour a day before, and in each step until now.

    Attributes:
        last_hour: amount in the last hour; approximate for jobs that start and end, which are counted by hours: the
            current hour plus the part of the previous one within the last 60 minutes. null if unknown.
        day_before: the same 24 hours earlier; null if unknown.
        steps: steps of ``step_s`` seconds, oldest first.
    """

    last_hour: float | None
    day_before: float | None
    steps: tuple[float, ...]


class WorkFlow(ResponseModel):
    """Waiting work and the flow of work.

    Attributes:
        waiting: chunks waiting at the end of each step.
        placed: jobs that were placed at a queue.
        started: jobs that started to run.
        finished: jobs that finished.
        failed: jobs that failed.
        by_reason: chunks waiting at the end of each step, by reason.
        step_s: length of the steps of ``waiting``, ``placed`` and ``by_reason``; the others are hourly.
    """

    now: datetime
    step_s: int
    waiting: Flow
    placed: Flow
    started: Flow
    finished: Flow
    failed: Flow
    by_reason: dict[str, tuple[float, ...]]

    @property
    def failed_percent(self) -> float | None:
        """Failed jobs in per cent of those that ended in the last hour."""
        return _percent(self.failed.last_hour, self.finished.last_hour)

    @property
    def failed_percent_before(self) -> float | None:
        """The same percentage a day before."""
        return _percent(self.failed.day_before, self.finished.day_before)


def _percent(failed: float | None, finished: float | None) -> float | None:
    ended = (failed or 0.0) + (finished or 0.0)
    return 100.0 * (failed or 0.0) / ended if ended else None


def first_counted(query: QueryContext) -> datetime | None:
    """Return when decisions were first counted in the last day; None if never. Queried once per transaction."""
    return query.once(_FIRST, lambda: flow_reads.first_bucket(query.connection, query.now - DAY))


def decided_in_a_day(query: QueryContext) -> flow_reads.DailyDecisions:
    """Return what was decided in the last day, and what was placed. Queried once per transaction."""
    now, step_s = query.now, _step_s(query)
    outcomes = flow_reads.Steps(bucket_of(now - DAY), now, DAY.total_seconds() / OUTCOME_STEPS)
    placed = flow_reads.Steps(_starts(now, step_s)[0], now + timedelta(seconds=FIRST_STEPS_S), step_s)
    of_jobs = [name for name in offered() if brokerage(name).candidate == "queue"]
    return query.once(_DECIDED, lambda: flow_reads.decided(query.connection, now, outcomes, placed, of_jobs))


def _step_s(query: QueryContext) -> int:
    first = first_counted(query)
    return FIRST_STEPS_S if first is None or query.now - first < 2 * HOUR else STEP_S


def work_flow(query: QueryContext) -> WorkFlow:
    """Return how work flows now, from counts taken as it happens: no job or decision is read."""
    now, connection = query.now, query.connection
    step_s, decided = _step_s(query), decided_in_a_day(query)
    starts = _starts(now, step_s)
    until = now + timedelta(seconds=FIRST_STEPS_S)
    ended = flow_reads.ended(connection, now - DAY - 3 * HOUR, until)
    spans = flow_reads.Steps(starts[0], until, step_s), flow_reads.Steps(now - DAY - HOUR, now - DAY, STEP_S)
    waited, before = flow_reads.waiting(connection, spans, list(offered()))
    seen = shown_steps(starts, [at for at, _, _ in waited], step_s)
    last = max((at for at, _, _ in waited), default=None)
    last_before = max((at for at, _, _ in before), default=None)
    return WorkFlow(
        now=now,
        step_s=step_s,
        waiting=Flow(
            last_hour=_sum(chunks for at, _, chunks in waited if at == last) if waited else None,
            day_before=_sum(chunks for at, _, chunks in before if at == last_before) if before else None,
            steps=_sums_by_step(seen, [(at, chunks) for at, _, chunks in waited], step_s),
        ),
        placed=Flow(
            last_hour=float(decided.placed_last_hour or 0) if decided.placed else None,
            day_before=None if decided.placed_before is None else float(decided.placed_before),
            steps=_sums_from_first(starts, decided.placed, step_s),
        ),
        started=_ended(now, flow_reads.started(connection, now - DAY - 3 * HOUR, until)),
        finished=_ended(now, [(at, finished) for at, finished, _ in ended]),
        failed=_ended(now, [(at, failed) for at, _, failed in ended]),
        by_reason=_by_reason(seen, waited),
    )


def _sum(values: Iterable[float]) -> float:
    return float(sum(values))


def _starts(now: datetime, step_s: int) -> list[datetime]:
    last = bucket_of(now, step_s)
    return [last - timedelta(seconds=step_s * back) for back in range(STEPS - 1, -1, -1)]


def shown_steps(starts: Sequence[datetime], counted: Iterable[datetime], step_s: int) -> list[datetime]:
    """Return the steps in which something was counted; the current one only if there is none before it. Pure."""
    buckets = {bucket_of(at, step_s) for at in counted}
    steps = [at for at in starts if at in buckets]
    return steps[:-1] if len(steps) > 1 and steps[-1] == starts[-1] else steps


def _by_reason(
    shown: Sequence[datetime], waited: Iterable[tuple[datetime, str, float]]
) -> dict[str, tuple[float, ...]]:
    """Return what waited at the end of each step, by reason; the instants already are the starts of steps."""
    by_reason: defaultdict[str, dict[datetime, float]] = defaultdict(dict)
    for at, code, chunks in waited:
        by_reason[code][at] = float(chunks)
    return {code: tuple(sums.get(at, 0.0) for at in shown) for code, sums in by_reason.items()}


def _sums_by_step(
    shown: Sequence[datetime], values: Iterable[tuple[datetime, float]], step_s: int
) -> tuple[float, ...]:
    """Return sums by step."""
    sums = _by_step(values, step_s)
    return tuple(sums[at] for at in shown)


def _by_step(values: Iterable[tuple[datetime, float]], step_s: int) -> defaultdict[datetime, float]:
    sums: defaultdict[datetime, float] = defaultdict(float)
    for at, value in values:
        sums[bucket_of(at, step_s)] += value
    return sums


def _sums_from_first(
    starts: Sequence[datetime], values: Sequence[tuple[datetime, float]], step_s: int
) -> tuple[float, ...]:
    """Return sums by step from the first step with any data: later steps without data are 0."""
    sums = _by_step(values, step_s)
    steps = shown_steps(starts, list(sums), step_s)
    return tuple(sums[at] for at in starts if steps and steps[0] <= at <= steps[-1])


def _ended(now: datetime, by_hour: Sequence[tuple[datetime, float]]) -> Flow:
    hours = {at: float(value) for at, value in by_hour}
    steps = [(at, value) for at, value in by_hour if at > now - DAY]
    return Flow(
        last_hour=last_60_minutes(hours, now),
        day_before=last_60_minutes(hours, now - DAY),
        steps=_sums_from_first(_starts(now, STEP_S), steps, STEP_S),
    )


def last_60_minutes(hours: dict[datetime, float], now: datetime) -> float | None:
    """Return about how much of an hourly count falls into the 60 minutes before ``now``; None if unknown. Pure."""
    this_hour = bucket_of(now, STEP_S)
    if this_hour not in hours and this_hour - HOUR not in hours:
        return None
    remaining = 1.0 - (now - this_hour) / HOUR
    return hours.get(this_hour, 0.0) + remaining * hours.get(this_hour - HOUR, 0.0)
