"""What waits, by reason, most frequent first, and how that has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from broker.domain.rejection_counts import CANDIDATE, QueueCount
from broker.grid.answers.grid import totals_of_the_day
from broker.history.answers.list_models import ReasonFilters, ReasonLine, Reasons, RuleLine
from broker.history.answers.stored_states import waiting_groups
from broker.store.query_context import Asking
from broker.store.summaries.reason_counts import waited_at

SUCH_AS = 5


def reasons(asking: Asking, filters: ReasonFilters | None = None) -> Reasons:
    """What waits now, by reason, against some time ago."""
    wanted = filters or ReasonFilters()
    before = asking.now - timedelta(seconds=wanted.compare_s)
    waiting, considered = waiting_groups(asking, SUCH_AS)
    then = waited_at(asking.connection, before)
    waited = Counter({(one.brokerage, one.reason, one.main_reason or None): one.chunks for one in then})
    counted = totals_of_the_day(asking) if wanted.with_rules else {}
    return reasons_of(waiting, considered, waited if then else None, wanted, asking.now, before, counted)


def reasons_of(
    groups: Sequence[ReasonLine],
    considered: Mapping[str, int],
    then: Mapping[tuple[str, str, str | None], int] | None,
    filters: ReasonFilters,
    now: datetime,
    before: datetime,
    counted: Mapping[str, Sequence[QueueCount]],
) -> Reasons:
    """The answer, of the chunks that wait now, and of how many waited then (None: unknown). Pure.

    Args:
        groups: the chunks that wait, by brokerage, reason and main reason.
        considered: how many chunks there are of all, by brokerage.
        then: how many waited, by brokerage, reason and main reason.
        filters: what to show.
        now: of the groups.
        before: of ``then``.
        counted: what was counted of queues in a day by brokerage, for the lines of rules.
    """
    waiting = [one for one in groups if filters.brokerage in (None, one.brokerage)]
    keys = {_key(one) for one in waiting}
    lines = [
        one.model_copy(update={"chunks_before": None if then is None else then.get(_key(one), 0)}) for one in waiting
    ]
    lines += [_gone(key, number) for key, number in (then or {}).items() if key not in keys and _shown(key, filters)]
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
    found: Counter[str] = Counter()
    for one in groups:
        found[one.brokerage] += one.chunks
    return dict(found)


def _key(group: ReasonLine) -> tuple[str, str, str | None]:
    return group.brokerage, group.reason, group.main_code


def _shown(key: tuple[str, str, str | None], filters: ReasonFilters) -> bool:
    return filters.brokerage in (None, key[0])


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
    groups: Iterable[ReasonLine], counted: Mapping[str, Sequence[QueueCount]], filters: ReasonFilters
) -> list[RuleLine]:
    queues: Counter[tuple[str, str]] = Counter()
    decides: Counter[tuple[str, str]] = Counter()
    for brokerage, counts in counted.items():
        for one in counts:
            if one.code != CANDIDATE and filters.brokerage in (None, brokerage):
                queues[brokerage, one.code] += one.decisions
    for group in groups:
        if group.main_code is not None:
            decides[group.brokerage, group.main_code] += group.chunks
    found = [
        RuleLine(brokerage=key[0], code=key[1], queues=queues[key], decides=decides[key])
        for key in queues.keys() | decides.keys()
    ]
    return sorted(found, key=lambda line: (line.brokerage, -line.queues, line.code))
