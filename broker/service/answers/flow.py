"""Whether work flows: what waits, what is placed, and how jobs end an hour, now and a day before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from broker.brokerages.registry import brokerage, offered
from broker.service.statements import flow_reads
from broker.store.query_context import Answer, Asking
from broker.store.summaries.reason_counts import bucket_of

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
STEPS, STEP_S, FIRST_STEPS_S = 24, 3600, 300
"""Steps that are shown, and how long each is: shorter ones in the first two hours of an installation."""

_FIRST, _DECIDED = "when decisions were first counted", "what was decided in a day"
OUTCOME_STEPS = 48
"""Steps in which the outcomes of a day are counted."""


class Flow(Answer):
    """A stream of work: how much of it in the last hour, in the hour a day before, and in each step until now.

    Attributes:
        last_hour: of jobs that start and end, counted by hours, about so many: the hour that goes on, and the part
            of the one before it that falls into the last 60 minutes. None: not known.
        day_before: the same 24 hours earlier; None: not known.
        steps: the oldest first; a step of ``step_s`` seconds.
    """

    last_hour: float | None
    day_before: float | None
    steps: tuple[float, ...]


class WorkFlow(Answer):
    """What waits, and how work flows.

    Attributes:
        waiting: chunks that wait, at the end of each step.
        placed: jobs that were given a queue.
        started: jobs that began to run.
        finished, failed: jobs that ended.
        by_reason: chunks that waited at the end of each step, by reason.
        step_s: length of the steps of ``waiting``, ``placed`` and ``by_reason``; those of the others are hours.
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
        """Of the jobs that ended in the last hour."""
        return _percent(self.failed.last_hour, self.finished.last_hour)

    @property
    def failed_percent_before(self) -> float | None:
        """The same a day before."""
        return _percent(self.failed.day_before, self.finished.day_before)


def _percent(failed: float | None, finished: float | None) -> float | None:
    ended = (failed or 0.0) + (finished or 0.0)
    return 100.0 * (failed or 0.0) / ended if ended else None


def first_counted(asking: Asking) -> datetime | None:
    """When decisions were first counted in the last day; None: never. Looked for once in a transaction."""
    return asking.once(_FIRST, lambda: flow_reads.first_bucket(asking.connection, asking.now - DAY))


def decided_in_a_day(asking: Asking) -> flow_reads.Decided:
    """What was decided in the last day, and what was placed. Looked for once in a transaction."""
    now, step_s = asking.now, _step_s(asking)
    outcomes = flow_reads.Steps(bucket_of(now - DAY), now, DAY.total_seconds() / OUTCOME_STEPS)
    placed = flow_reads.Steps(_starts(now, step_s)[0], now + timedelta(seconds=FIRST_STEPS_S), step_s)
    of_jobs = [name for name in offered() if brokerage(name).candidate == "queue"]
    return asking.once(_DECIDED, lambda: flow_reads.decided(asking.connection, now, outcomes, placed, of_jobs))


def _step_s(asking: Asking) -> int:
    first = first_counted(asking)
    return FIRST_STEPS_S if first is None or asking.now - first < 2 * HOUR else STEP_S


def work_flow(asking: Asking) -> WorkFlow:
    """How work flows now, from what is counted while it happens: no job or decision is read."""
    now, connection = asking.now, asking.connection
    step_s, decided = _step_s(asking), decided_in_a_day(asking)
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
            steps=_stepped(seen, [(at, chunks) for at, _, chunks in waited], step_s),
        ),
        placed=Flow(
            last_hour=float(decided.placed_last_hour or 0) if decided.placed else None,
            day_before=None if decided.placed_before is None else float(decided.placed_before),
            steps=_summed(starts, decided.placed, step_s),
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
    """The steps in which something was counted; the one that goes on only if there is none before it. Pure."""
    known = {bucket_of(at, step_s) for at in counted}
    found = [at for at in starts if at in known]
    return found[:-1] if len(found) > 1 and found[-1] == starts[-1] else found


def _by_reason(
    shown: Sequence[datetime], waited: Iterable[tuple[datetime, str, float]]
) -> dict[str, tuple[float, ...]]:
    """What waited at the end of each step, of which the instants are the starts already, by reason."""
    found: defaultdict[str, dict[datetime, float]] = defaultdict(dict)
    for at, code, chunks in waited:
        found[code][at] = float(chunks)
    return {code: tuple(sums.get(at, 0.0) for at in shown) for code, sums in found.items()}


def _stepped(shown: Sequence[datetime], found: Iterable[tuple[datetime, float]], step_s: int) -> tuple[float, ...]:
    """Sums by step."""
    sums = _by_step(found, step_s)
    return tuple(sums[at] for at in shown)


def _by_step(found: Iterable[tuple[datetime, float]], step_s: int) -> defaultdict[datetime, float]:
    sums: defaultdict[datetime, float] = defaultdict(float)
    for at, value in found:
        sums[bucket_of(at, step_s)] += value
    return sums


def _summed(starts: Sequence[datetime], found: Sequence[tuple[datetime, float]], step_s: int) -> tuple[float, ...]:
    """Sums by step from the first in which there is anything: a later one in which there is nothing is 0."""
    sums = _by_step(found, step_s)
    known = shown_steps(starts, list(sums), step_s)
    return tuple(sums[at] for at in starts if known and known[0] <= at <= known[-1])


def _ended(now: datetime, by_hour: Sequence[tuple[datetime, float]]) -> Flow:
    hours = {at: float(value) for at, value in by_hour}
    steps = [(at, value) for at, value in by_hour if at > now - DAY]
    return Flow(
        last_hour=last_60_minutes(hours, now),
        day_before=last_60_minutes(hours, now - DAY),
        steps=_summed(_starts(now, STEP_S), steps, STEP_S),
    )


def last_60_minutes(hours: dict[datetime, float], now: datetime) -> float | None:
    """About how much of what is counted by hours falls into the 60 minutes before ``now``; None: not known. Pure."""
    this = bucket_of(now, STEP_S)
    if this not in hours and this - HOUR not in hours:
        return None
    left = 1.0 - (now - this) / HOUR
    return hours.get(this, 0.0) + left * hours.get(this - HOUR, 0.0)
