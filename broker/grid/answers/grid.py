"""What the answers about the grid share: stored snapshots, the tuning in force, and counts of jobs and decisions.

Decisions about each queue or nucleus are those of the last day, from the counts that the cycles write.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import sqlalchemy as sa

from broker.brokerages.offered import offered
from broker.brokerages.registry import brokerage as brokerage_of
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.rejection_counts import CANDIDATE, QueueCount
from broker.gdpconfig import Tuning
from broker.grid.answers.models import JobNumbers, LinkLine
from broker.snapshot.snapshot import Snapshot
from broker.store.connection.plain_rows import tuples
from broker.store.gdpconfig_rows import TuningStore
from broker.store.query_context import QueryContext
from broker.store.snapshots.stored_snapshots import SnapshotLostError, last_of_agents, stored_snapshot
from broker.store.summaries.reason_counts import decision_counts, queue_totals

SNAPSHOT_CACHE_SIZE = 4
_snapshot_cache: OrderedDict[str, Snapshot] = OrderedDict()
_lock = threading.Lock()


def snapshot_of(connection: sa.Connection, identifier: str) -> Snapshot:
    """A stored snapshot.

    Raises:
        SnapshotLostError: it no longer exists.
    """
    with _lock:
        if identifier in _snapshot_cache:
            _snapshot_cache.move_to_end(identifier)
            return _snapshot_cache[identifier]
    snapshot = stored_snapshot(connection, identifier)
    with _lock:
        _snapshot_cache[identifier] = snapshot
        while len(_snapshot_cache) > SNAPSHOT_CACHE_SIZE:
            _snapshot_cache.popitem(last=False)
    return snapshot


LINK_CAP = "NQUEUED_SAT_CAP"
_LAST_SNAPSHOT = "the last snapshot of"
_NEWEST = sa.text("SELECT id FROM broker.snapshots WHERE taken_at <= :now ORDER BY taken_at DESC LIMIT 1")


def last_snapshot(query: QueryContext, brokerage: str | None = None) -> Snapshot | None:
    """The last stored snapshot of a brokerage, or of any; None if there is none. Looked up once in a transaction."""
    return query.once(f"{_LAST_SNAPSHOT} {brokerage}", lambda: _last_snapshot(query, brokerage))


def _last_snapshot(query: QueryContext, brokerage: str | None) -> Snapshot | None:
    agents = offered() if brokerage is None else (brokerage,)
    identifiers = [stored.id for stored in last_of_agents(query.connection, agents)]
    if brokerage is None:
        identifiers += [identifier for (identifier,) in tuples(query.connection, _NEWEST, {"now": query.now})]
    for identifier in identifiers:
        try:
            return snapshot_of(query.connection, identifier)
        except SnapshotLostError:
            continue
    return None


def tuning_in_force(query: QueryContext) -> Tuning:
    """The gdpconfig values of the newest published version, for the VO of the installation."""
    return TuningStore(query.names).read_current(query.connection).tuning(query.names.vo)


def job_numbers(snapshot: Snapshot, unified: int) -> JobNumbers:
    """Jobs of a unified queue by status."""
    stats = dict(zip(COUNTED_STATUSES, snapshot.jobs.total[unified].tolist(), strict=True))
    return JobNumbers(**{name: int(number) for name, number in stats.items()})


def link_lines(snapshot: Snapshot, tuning: Tuning, source: str | None, nucleus: str | None) -> Iterator[LinkLine]:
    """The links with any known figure, from the site of a storage to a nucleus."""
    links, nuclei = snapshot.links, snapshot.nuclei
    cap = tuning.number(LINK_CAP)
    known = ~(np.isnan(links.queued) & np.isnan(links.closeness) & np.isnan(links.mbps_1d))
    for row, column in zip(*(indices.tolist() for indices in np.nonzero(known)), strict=True):
        site, name = str(links.sites[row]), str(nuclei.name[column])
        if source not in (None, site) or nucleus not in (None, name):
            continue
        queued = figure(links.queued[row, column])
        yield LinkLine(
            source=site,
            nucleus=name,
            queued_files=queued,
            cap_files=cap,
            full=None if queued is None else queued > cap,
            closeness=figure(links.closeness[row, column]),
            mbps_1h=figure(links.mbps_1h[row, column]),
            mbps_1d=figure(links.mbps_1d[row, column]),
            mbps_1w=figure(links.mbps_1w[row, column]),
        )


def figure(value: float) -> float | None:
    """A number; None for NaN."""
    return None if math.isnan(value) else float(value)


#: The span over which decisions are counted.
COUNTED = timedelta(hours=24)
_NOW = timedelta(seconds=1)
_TOTALS = "totals of the day"


@dataclass
class DayCount:
    """The decisions about one queue or nucleus.

    Attributes:
        chosen: decisions in which it was among the candidates.
        placed: jobs that it got; for a nucleus, tasks.
        rejected: decisions in which it was rejected, by code.
    """

    chosen: int = 0
    placed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def considered(self) -> int:
        """Decisions in which it was chosen or rejected by a rule."""
        return self.chosen + self.rejected.total()

    @property
    def main_code(self) -> str | None:
        """The code that rejected it most often; None if none did."""
        return min(self.rejected, key=lambda code: (-self.rejected[code], code), default=None)


def totals_of_the_day(query: QueryContext, queue: str | None = None) -> dict[str, list[QueueCount]]:
    """How often each queue or nucleus, or one of them, was chosen and rejected in the last day, by brokerage."""
    if queue is not None:
        return queue_totals(query.connection, query.now - COUNTED, query.now + _NOW, queue=queue)
    return query.once(_TOTALS, lambda: queue_totals(query.connection, query.now - COUNTED, query.now + _NOW))


def totals_about(query: QueryContext, candidate: str, queue: str | None = None) -> dict[str, list[QueueCount]]:
    """As :func:`totals_of_the_day`, of the brokerages whose candidates are of one kind: ``queue`` or ``nucleus``."""
    totals = totals_of_the_day(query, queue)
    return {name: counts for name, counts in totals.items() if brokerage_of(name).candidate == candidate}


def day_counts(counts: Iterable[QueueCount]) -> dict[str, DayCount]:
    """The counts by queue or nucleus. Pure."""
    by_queue: dict[str, DayCount] = {}
    for count in counts:
        day_count = by_queue.setdefault(count.queue, DayCount())
        if count.code == CANDIDATE:
            day_count.chosen += count.decisions
            day_count.placed += count.jobs
        else:
            day_count.rejected[count.code] += count.decisions
    return by_queue


def decisions_of_the_day(query: QueryContext) -> dict[str, int]:
    """How many decisions each brokerage made in the last day."""
    return decision_counts(query.connection, query.now - COUNTED, query.now + _NOW)
