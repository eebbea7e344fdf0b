"""Two times compared: what waits more and less, what flows more and less, and what somebody changed between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from broker.brokerages.registry import brokerage, offered
from broker.decisions.answers.known_reasons import reasons_of
from broker.decisions.answers.phrases import day_and_moment
from broker.service.answers.flow import HOUR, last_60_minutes
from broker.service.answers.overview import ChangeMark, changes_between
from broker.service.statements import flow_reads
from broker.store.query_context import Answer, Asking
from broker.store.summaries.reason_counts import WaitingCount, waited_at

MOST_SAID = 2


class WaitingChange(Answer):
    """What waits for one reason, of all brokerages, at both times."""

    code: str
    tasks_then: int
    tasks: int
    chunks_then: int
    chunks: int


class StreamChange(Answer):
    """Jobs in the hour before both times; null where nothing was counted."""

    stream: str
    then: float | None
    now: float | None


class TwoTimes(Answer):
    """What is different between two times.

    Attributes:
        then, now: the times.
        waiting: by reason, those with the largest difference first.
        streams: jobs placed, started, finished and failed.
        changes: of the tuning and the grid between the times, the newest first.
    """

    then: datetime
    now: datetime
    waiting: tuple[WaitingChange, ...]
    streams: tuple[StreamChange, ...]
    changes: tuple[ChangeMark, ...]


def two_times(asking: Asking, then: datetime) -> TwoTimes:
    """The time ``asking.now`` compared with ``then``, an earlier one (aware)."""
    connection = asking.connection
    waited = {at: waited_at(connection, at) for at in (then, asking.now)}
    return TwoTimes(
        then=then,
        now=asking.now,
        waiting=tuple(waiting_changes(waited[then], waited[asking.now])),
        streams=tuple(_streams(asking, then)),
        changes=tuple(changes_between(connection, then, asking.now)),
    )


def waiting_changes(then: Iterable[WaitingCount], now: Iterable[WaitingCount]) -> list[WaitingChange]:
    """What waited then and waits now, by reason. Pure."""
    sums = [(_sums(some, "tasks"), _sums(some, "chunks")) for some in (list(then), list(now))]
    codes = sums[0][1].keys() | sums[1][1].keys()
    found = [
        WaitingChange(
            code=code,
            tasks_then=sums[0][0][code],
            tasks=sums[1][0][code],
            chunks_then=sums[0][1][code],
            chunks=sums[1][1][code],
        )
        for code in codes
    ]
    return sorted(found, key=lambda one: (-abs(one.tasks - one.tasks_then), -one.chunks, one.code))


def _sums(counts: Iterable[WaitingCount], field: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in counts:
        found[one.main_reason or one.reason] += getattr(one, field)
    return found


def meaning(code: str) -> str:
    """A reason as a sentence; its code in words where there is none. Pure."""
    known = reasons_of(code)
    return known[0].reason.wrong if known else code.replace("_", " ")


def _streams(asking: Asking, then: datetime) -> Iterable[StreamChange]:
    of_jobs = [name for name in offered() if brokerage(name).candidate == "queue"]
    found: dict[str, list[float | None]] = {"placed": [], "started": [], "finished": [], "failed": []}
    for at in (then, asking.now):
        placed = flow_reads.placed(asking.connection, at - HOUR, at, of_jobs)
        found["placed"].append(float(sum(jobs for _, jobs in placed)) if placed else None)
        span = (at - 3 * HOUR, at + timedelta(minutes=1))
        started = flow_reads.started(asking.connection, *span)
        ended = flow_reads.ended(asking.connection, *span)
        found["started"].append(_last_hour({hour: jobs for hour, jobs in started}, at))
        found["finished"].append(_last_hour({hour: jobs for hour, jobs, _ in ended}, at))
        found["failed"].append(_last_hour({hour: jobs for hour, _, jobs in ended}, at))
    for name, (before, after) in found.items():
        yield StreamChange(stream=name, then=before, now=after)


def _last_hour(hours: Mapping[datetime, int], at: datetime) -> float | None:
    return last_60_minutes({hour: float(jobs) for hour, jobs in hours.items()}, at)


def two_times_sentence(found: TwoTimes) -> str:
    """``Since 26 Nov 19:50: 12 more tasks wait: too little memory; NQUEUELIMITSITE was changed ... by smith``. Pure."""
    said = [*_waits(found.waiting), *_changed(found.changes)]
    head = f"Since {day_and_moment(found.then)}"
    return f"{head}: {'; '.join(said)}." if said else f"{head} nothing is known to be different."


def _waits(waiting: Sequence[WaitingChange]) -> Iterable[str]:
    for one in waiting[:MOST_SAID]:
        more = one.tasks - one.tasks_then
        if more:
            tasks = "task waits" if abs(more) == 1 else "tasks wait"
            than = "more" if more > 0 else "fewer"
            yield f"{abs(more):,} {than} {tasks} ({meaning(one.code).rstrip('.').lower()})"


def _changed(changes: Sequence[ChangeMark]) -> Iterable[str]:
    for one in [one for one in changes if one.editor is not None][:MOST_SAID]:
        yield f"{one.about} was changed at {day_and_moment(one.at)} by {one.editor}"
