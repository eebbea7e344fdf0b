"""Comparison of two times: what waits and flows more or less, and what was changed in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from broker.brokerages.registry import brokerage, offered
from broker.decisions.answers.known_reasons import reasons_of
from broker.domain.words import day_and_moment
from broker.service.answers.flow import HOUR, last_60_minutes
from broker.service.answers.overview import ChangeMark, changes_between
from broker.service.statements import flow_reads
from broker.store.query_context import QueryContext, ResponseModel
from broker.store.summaries.reason_counts import WaitingCount, waited_at

MOST_PHRASES = 2


class WaitingChange(ResponseModel):
    """Work that waits for one reason, over all brokerages, at both times."""

    code: str
    tasks_then: int
    tasks: int
    chunks_then: int
    chunks: int


class StreamChange(ResponseModel):
    """Jobs in the hour before both times; null if nothing was counted."""

    stream: str
    then: float | None
    now: float | None


class TwoTimes(ResponseModel):
    """The differences between two times.

    Attributes:
        then: the earlier time.
        now: the later time.
        waiting: waiting work by reason, largest difference first.
        streams: placed, started, finished and failed jobs.
        changes: changes of the tuning and the grid between the times, newest first.
    """

    then: datetime
    now: datetime
    waiting: tuple[WaitingChange, ...]
    streams: tuple[StreamChange, ...]
    changes: tuple[ChangeMark, ...]


def two_times(query: QueryContext, then: datetime) -> TwoTimes:
    """Compare ``query.now`` with ``then``, an earlier time (aware)."""
    connection = query.connection
    waited = {at: waited_at(connection, at) for at in (then, query.now)}
    return TwoTimes(
        then=then,
        now=query.now,
        waiting=tuple(waiting_changes(waited[then], waited[query.now])),
        streams=tuple(_streams(query, then)),
        changes=tuple(changes_between(connection, then, query.now)),
    )


def waiting_changes(then: Iterable[WaitingCount], now: Iterable[WaitingCount]) -> list[WaitingChange]:
    """Compare what waited then with what waits now, by reason. Pure."""
    sums = [(_sums(counts, "tasks"), _sums(counts, "chunks")) for counts in (list(then), list(now))]
    codes = sums[0][1].keys() | sums[1][1].keys()
    changes = [
        WaitingChange(
            code=code,
            tasks_then=sums[0][0][code],
            tasks=sums[1][0][code],
            chunks_then=sums[0][1][code],
            chunks=sums[1][1][code],
        )
        for code in codes
    ]
    return sorted(changes, key=lambda change: (-abs(change.tasks - change.tasks_then), -change.chunks, change.code))


def _sums(counts: Iterable[WaitingCount], field: str) -> Counter[str]:
    sums: Counter[str] = Counter()
    for count in counts:
        sums[count.main_reason or count.reason] += getattr(count, field)
    return sums


def meaning(code: str) -> str:
    """Return a reason as a sentence; its code in words if it has none. Pure."""
    reasons = reasons_of(code)
    return reasons[0].reason.wrong if reasons else code.replace("_", " ")


def _streams(query: QueryContext, then: datetime) -> Iterable[StreamChange]:
    of_jobs = [name for name in offered() if brokerage(name).candidate == "queue"]
    streams: dict[str, list[float | None]] = {"placed": [], "started": [], "finished": [], "failed": []}
    for at in (then, query.now):
        placed = flow_reads.placed(query.connection, at - HOUR, at, of_jobs)
        streams["placed"].append(float(sum(jobs for _, jobs in placed)) if placed else None)
        span = (at - 3 * HOUR, at + timedelta(minutes=1))
        started = flow_reads.started(query.connection, *span)
        ended = flow_reads.ended(query.connection, *span)
        streams["started"].append(_last_hour({hour: jobs for hour, jobs in started}, at))
        streams["finished"].append(_last_hour({hour: jobs for hour, jobs, _ in ended}, at))
        streams["failed"].append(_last_hour({hour: jobs for hour, _, jobs in ended}, at))
    for name, (before, after) in streams.items():
        yield StreamChange(stream=name, then=before, now=after)


def _last_hour(hours: Mapping[datetime, int], at: datetime) -> float | None:
    return last_60_minutes({hour: float(jobs) for hour, jobs in hours.items()}, at)


def two_times_sentence(comparison: TwoTimes) -> str:
    """Describe the change: ``Since 26 Nov 19:50: 12 more tasks wait: too little memory; X was changed ... by smith``.

    Pure.
    """
    phrases = [*_waits(comparison.waiting), *_change_phrases(comparison.changes)]
    head = f"Since {day_and_moment(comparison.then)}"
    return f"{head}: {'; '.join(phrases)}." if phrases else f"{head} nothing is known to be different."


def _waits(waiting: Sequence[WaitingChange]) -> Iterable[str]:
    for change in waiting[:MOST_PHRASES]:
        more = change.tasks - change.tasks_then
        if more:
            tasks = "task waits" if abs(more) == 1 else "tasks wait"
            than = "more" if more > 0 else "fewer"
            yield f"{abs(more):,} {than} {tasks} ({meaning(change.code).rstrip('.').lower()})"


def _change_phrases(changes: Sequence[ChangeMark]) -> Iterable[str]:
    for change in [change for change in changes if change.editor is not None][:MOST_PHRASES]:
        yield f"{change.about} was changed at {day_and_moment(change.at)} by {change.editor}"
