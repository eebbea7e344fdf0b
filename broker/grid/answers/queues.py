"""All queues in short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from broker.domain.queue_counts import QueueCount
from broker.grid.answers.day_counts import DayCount, day_counts, totals_about
from broker.grid.answers.grid import job_numbers, last_snapshot
from broker.grid.answers.models import QueueFilters, QueueLine, Queues
from broker.snapshot.snapshot import Snapshot
from broker.store.query_context import Asking


def queues(asking: Asking, filters: QueueFilters | None = None) -> Queues:
    """The queues for which all filters hold, by name."""
    snapshot = last_snapshot(asking)
    counts = [one for some in totals_about(asking, "queue").values() for one in some]
    return queues_of(snapshot, counts, filters or QueueFilters(), asking.now)


def queues_of(snapshot: Snapshot | None, counts: Iterable[QueueCount], filters: QueueFilters, now: datetime) -> Queues:
    """The list, of a snapshot and what was counted of each queue. Pure."""
    if snapshot is None:
        return Queues(now=now, snapshot=None, taken_at=None, queues=())
    lines = _lines(snapshot, day_counts(counts))
    shown = [line for line in lines if _holds(line, filters)]
    return Queues(now=now, snapshot=snapshot.id, taken_at=snapshot.taken_at, queues=tuple(shown))


def _lines(snapshot: Snapshot, counts: Mapping[str, DayCount]) -> list[QueueLine]:
    unified, own = snapshot.unified, snapshot.queues.unified
    lines = []
    for at in sorted(range(len(unified)), key=lambda at: str(unified.name[at])):
        name = str(unified.name[at])
        counted = counts.get(name, DayCount())
        lines.append(
            QueueLine(
                queue=name,
                site=str(unified.atlas_site[at] or ""),
                status=str(unified.status[at] or ""),
                type=str(unified.type[at] or ""),
                pseudo_queues=int((own == at).sum()),
                jobs=job_numbers(snapshot, at),
                pilots=float(unified.n_pilots[at]),
                considered=counted.considered,
                chosen=counted.chosen,
                placed=counted.placed,
                main_code=counted.main_code,
            )
        )
    return lines


def _holds(line: QueueLine, filters: QueueFilters) -> bool:
    if filters.status is not None and line.status != filters.status:
        return False
    if filters.site is not None and line.site.casefold() != filters.site.casefold():
        return False
    return not filters.idle or not line.placed
