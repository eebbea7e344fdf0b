"""What waits, by reason, most frequent first, and how that has changed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from broker.domain.rejection_counts import CANDIDATE, QueueCount
from broker.grid.answers.grid import totals_of_the_day
from broker.history.answers.list_models import ReasonFilters, ReasonLine, Reasons, RuleLine
from broker.history.answers.stored_states import ChunkState, waiting_states
from broker.store.query_context import Asking
from broker.store.summaries.reason_counts import waited_at

SUCH_AS = 5


def reasons(asking: Asking, filters: ReasonFilters | None = None) -> Reasons:
    """What waits now, by reason, against some time ago."""
    wanted = filters or ReasonFilters()
    before = asking.now - timedelta(seconds=wanted.compare_s)
    waiting, considered = waiting_states(asking.connection, asking.now)
    then = waited_at(asking.connection, before)
    waited = Counter({(one.brokerage, one.reason, one.main_reason or None): one.chunks for one in then})
    counted = totals_of_the_day(asking) if wanted.with_rules else {}
    return reasons_of(waiting, considered, waited if then else None, wanted, asking.now, before, counted)


def reasons_of(
    states: Iterable[ChunkState],
    considered: Mapping[str, int],
    then: Mapping[tuple[str, str, str | None], int] | None,
    filters: ReasonFilters,
    now: datetime,
    before: datetime,
    counted: Mapping[str, Sequence[QueueCount]],
) -> Reasons:
    """The answer, of the chunks that wait now, and of how many waited then (None: nobody knows). Pure.

    Args:
        states: of the chunks that wait.
        considered: how many chunks there are of all, by brokerage.
        then: how many waited, by brokerage, reason and main reason.
        filters: what to show.
        now: of the states.
        before: of ``then``.
        counted: what was counted of queues in a day by brokerage, for the lines of rules.
    """
    waiting = [state for state in states if filters.brokerage in (None, state.brokerage)]
    groups: defaultdict[tuple[str, str, str | None], list[ChunkState]] = defaultdict(list)
    for state in waiting:
        groups[_key(state)].append(state)
    lines = [_line(key, found, None if then is None else then.get(key, 0)) for key, found in groups.items()]
    lines += [_gone(key, number) for key, number in (then or {}).items() if key not in groups and _shown(key, filters)]
    lines.sort(key=lambda line: (-line.chunks, line.brokerage, line.reason, line.main_code or ""))
    return Reasons(
        now=now,
        compared_with=before,
        waiting=dict(Counter(state.brokerage for state in waiting)),
        considered={name: number for name, number in considered.items() if filters.brokerage in (None, name)},
        lines=tuple(lines),
        rules=tuple(_rules(waiting, counted, filters)) if filters.with_rules else (),
    )


def _key(state: ChunkState) -> tuple[str, str, str | None]:
    return state.brokerage, state.reason, state.main_code


def _shown(key: tuple[str, str, str | None], filters: ReasonFilters) -> bool:
    return filters.brokerage in (None, key[0])


def _line(key: tuple[str, str, str | None], found: Sequence[ChunkState], before: int | None) -> ReasonLine:
    oldest = sorted(found, key=lambda state: (state.waiting_since or state.decided_at, state.jeditaskid))
    tasks = tuple(dict.fromkeys(state.jeditaskid for state in oldest))
    return ReasonLine(
        brokerage=key[0],
        reason=key[1],
        main_code=key[2],
        tasks=len(tasks),
        chunks=len(found),
        chunks_before=before,
        oldest_since=oldest[0].waiting_since,
        such_as=tasks[:SUCH_AS],
    )


def _gone(key: tuple[str, str, str | None], before: int) -> ReasonLine:
    """A reason for which something waited then, and nothing waits now."""
    return ReasonLine(
        brokerage=key[0],
        reason=key[1],
        main_code=key[2],
        tasks=0,
        chunks=0,
        chunks_before=before,
        oldest_since=None,
        such_as=(),
    )


def _rules(
    states: Iterable[ChunkState], counted: Mapping[str, Sequence[QueueCount]], filters: ReasonFilters
) -> list[RuleLine]:
    queues: Counter[tuple[str, str]] = Counter()
    decides: Counter[tuple[str, str]] = Counter()
    for brokerage, counts in counted.items():
        for one in counts:
            if one.code != CANDIDATE and filters.brokerage in (None, brokerage):
                queues[brokerage, one.code] += one.decisions
    for state in states:
        if state.main_code is not None:
            decides[state.brokerage, state.main_code] += 1
    found = [
        RuleLine(brokerage=key[0], code=key[1], queues=queues[key], decides=decides[key])
        for key in queues.keys() | decides.keys()
    ]
    return sorted(found, key=lambda line: (line.brokerage, -line.queues, line.code))
