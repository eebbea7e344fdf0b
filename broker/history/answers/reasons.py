"""What waits, by reason, most frequent first, and how that has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from broker.domain.rejection_counts import CANDIDATE, QueueCount
from broker.grid.answers.grid import totals_of_the_day
from broker.history.answers.list_models import ReasonFilters, ReasonLine, Reasons, RuleLine
from broker.history.answers.stored_states import waiting_groups
from broker.store.query_context import QueryContext
from broker.store.summaries.reason_counts import waited_at

SUCH_AS = 5


def reasons(query: QueryContext, filters: ReasonFilters | None = None) -> Reasons:
    """Return what waits now, by reason, compared with some time ago."""
    chosen_filters = filters or ReasonFilters()
    before = query.now - timedelta(seconds=chosen_filters.compare_s)
    waiting, considered = waiting_groups(query, SUCH_AS)
    then = waited_at(query.connection, before)
    waited = Counter({(group.brokerage, group.reason, group.main_reason or None): group.chunks for group in then})
    queue_counts = totals_of_the_day(query) if chosen_filters.with_rules else {}
    return reasons_of(waiting, considered, waited if then else None, chosen_filters, query.now, before, queue_counts)


def reasons_of(
    groups: Sequence[ReasonLine],
    considered: Mapping[str, int],
    then: Mapping[tuple[str, str, str | None], int] | None,
    filters: ReasonFilters,
    now: datetime,
    before: datetime,
    counted: Mapping[str, Sequence[QueueCount]],
) -> Reasons:
    """Build the answer from the chunks that wait now, and from how many waited then (None: unknown). Pure.

    Args:
        groups: the chunks that wait, by brokerage, reason and main reason.
        considered: number of all chunks, by brokerage.
        then: how many waited, by brokerage, reason and main reason.
        filters: what to show.
        now: instant of the groups.
        before: instant of ``then``.
        counted: the queue counts of a day by brokerage, for the lines of rules.
    """
    waiting = [group for group in groups if filters.brokerage in (None, group.brokerage)]
    keys = {_key(group) for group in waiting}
    lines = [
        group.model_copy(update={"chunks_before": None if then is None else then.get(_key(group), 0)})
        for group in waiting
    ]
    lines += [
        _resolved_reason(key, number)
        for key, number in (then or {}).items()
        if key not in keys and _shown(key, filters)
    ]
    lines.sort(key=lambda line: (-line.chunks, line.brokerage, line.reason, line.main_code or ""))
    return Reasons(
        now=now,
        compared_with=before,
        waiting=_chunks(waiting),
        considered={name: number for name, number in considered.items() if filters.brokerage in (None, name)},
        lines=tuple(lines),
        rules=tuple(_rules(waiting, counted, filters)) if filters.with_rules else (),
    )


def _chunks(groups: Iterable[ReasonLine]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for group in groups:
        sums[group.brokerage] += group.chunks
    return dict(sums)


def _key(group: ReasonLine) -> tuple[str, str, str | None]:
    return group.brokerage, group.reason, group.main_code


def _shown(key: tuple[str, str, str | None], filters: ReasonFilters) -> bool:
    return filters.brokerage in (None, key[0])


def _resolved_reason(key: tuple[str, str, str | None], before: int) -> ReasonLine:
    """Return the line of a reason for which something waited then and nothing waits now."""
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
    groups: Iterable[ReasonLine], counted: Mapping[str, Sequence[QueueCount]], filters: ReasonFilters
) -> list[RuleLine]:
    queues: Counter[tuple[str, str]] = Counter()
    decides: Counter[tuple[str, str]] = Counter()
    for brokerage, counts in counted.items():
        for count in counts:
            if count.code != CANDIDATE and filters.brokerage in (None, brokerage):
                queues[brokerage, count.code] += count.decisions
    for group in groups:
        if group.main_code is not None:
            decides[group.brokerage, group.main_code] += group.chunks
    lines = [
        RuleLine(brokerage=key[0], code=key[1], queues=queues[key], decides=decides[key])
        for key in queues.keys() | decides.keys()
    ]
    return sorted(lines, key=lambda line: (line.brokerage, -line.queues, line.code))
