"""All queues in short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from broker.app.answers.asking import Asking
from broker.app.answers.grid import job_numbers, last_snapshot
from broker.app.answers.grid_models import QueueFilters, QueueLine, Queues
from broker.brokerages.registry import brokerage as brokerage_of
from broker.domain.queue_counts import CANDIDATE, QueueCount
from broker.snapshot.snapshot import Snapshot
from broker.store.summaries.queue_counts import queue_totals

#: Decisions of so long are counted.
COUNTED = timedelta(hours=24)


def queues(asking: Asking, filters: QueueFilters | None = None) -> Queues:
    """The queues for which all filters hold, by name."""
    snapshot = last_snapshot(asking)
    totals = totals_of_the_day(asking)
    counts = [one for name, some in totals.items() if brokerage_of(name).candidate == "queue" for one in some]
    return queues_of(snapshot, counts, filters or QueueFilters(), asking.now)


def totals_of_the_day(asking: Asking) -> dict[str, list[QueueCount]]:
    """How often each queue or nucleus was chosen and rejected in the last day, by brokerage."""
    return queue_totals(asking.connection, asking.now - COUNTED, asking.now + timedelta(seconds=1))


def queues_of(snapshot: Snapshot | None, counts: Iterable[QueueCount], filters: QueueFilters, now: datetime) -> Queues:
    """The list, of a snapshot and what was counted of each queue. Pure."""
    if snapshot is None:
        return Queues(now=now, snapshot=None, taken_at=None, queues=())
    lines = _lines(snapshot, counts)
    shown = [line for line in lines if _holds(line, filters)]
    return Queues(now=now, snapshot=snapshot.id, taken_at=snapshot.taken_at, queues=tuple(shown))


def _lines(snapshot: Snapshot, counts: Iterable[QueueCount]) -> list[QueueLine]:
    chosen: Counter[str] = Counter()
    placed: Counter[str] = Counter()
    codes: dict[str, Counter[str]] = {}
    for one in counts:
        if one.code == CANDIDATE:
            chosen[one.queue] += one.decisions
            placed[one.queue] += one.jobs
        else:
            codes.setdefault(one.queue, Counter())[one.code] += one.decisions
    unified, own = snapshot.unified, snapshot.queues.unified
    lines = []
    for at in sorted(range(len(unified)), key=lambda at: str(unified.name[at])):
        name = str(unified.name[at])
        rejected = codes.get(name, Counter())
        lines.append(
            QueueLine(
                queue=name,
                site=str(unified.atlas_site[at] or ""),
                status=str(unified.status[at] or ""),
                type=str(unified.type[at] or ""),
                pseudo_queues=int((own == at).sum()),
                jobs=job_numbers(snapshot, at),
                pilots=float(unified.n_pilots[at]),
                considered=chosen[name] + rejected.total(),
                chosen=chosen[name],
                placed=placed[name],
                main_code=min(rejected, key=lambda code: (-rejected[code], code), default=None),
            )
        )
    return lines


def _holds(line: QueueLine, filters: QueueFilters) -> bool:
    if filters.status is not None and line.status != filters.status:
        return False
    if filters.site is not None and line.site.casefold() != filters.site.casefold():
        return False
    return not filters.idle or not line.placed
