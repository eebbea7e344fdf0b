"""Summarises the reports of many pilots for their queue: medians and low percentiles, without outliers. Pure.

No single pilot changes a queue: fewer pilots than a minimum do not count. Source: HSF-TN-2016-02, use of the keys by a
broker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from pydantic import BaseModel, ConfigDict, Field

from broker.domain.queues import PilotFigures

MB = 1024 * 1024
#: A value further than this many interquartile ranges from the middle half is an outlier, if it is also further from
#: the median than this fraction of it: values that hardly differ are not outliers.
OUTLIER_RANGES = 3.0
OUTLIER_SHARE = 0.5


@dataclass(frozen=True)
class Report:
    """What one pilot read last; ``None`` if its site does not say. Times are UNIX seconds.

    ``corepower`` is HS06 per core from job or machine, never the queue's own. ``scratch_is_shared``: the limit is the
    whole disk, which all jobs of the machine share.
    """

    queue: str
    reporter: str
    reported_s: float
    cores: int | None = None
    corepower: float | None = None
    wall_limit_s: int | None = None
    max_rss_bytes: int | None = None
    scratch_limit_bytes: int | None = None
    scratch_is_shared: bool = False
    total_cpu: int | None = None
    shutdown_s: int | None = None


class SummaryRules(BaseModel):
    """How reports become figures.

    Attributes:
        min_pilots: number of pilots that must report a figure before it counts.
        pilot_overhead_s: walltime that a pilot takes for itself.
        low_percentile: of walltimes and shutdown times.
        drain_share: a queue drains when more than this part of its pilots announce a shutdown.
        drain_min_pilots: pilots that a queue must have to be called draining.
        keep_past_shutdown_s: a pilot whose shutdown is further past is gone, and its report does not count.
    """

    model_config = ConfigDict(frozen=True)

    min_pilots: int = Field(default=20, ge=1)
    pilot_overhead_s: float = Field(default=600.0, ge=0)
    low_percentile: float = Field(default=5.0, ge=0, le=50)
    drain_share: float = Field(default=0.5, ge=0, lt=1)
    drain_min_pilots: int = Field(default=5, ge=1)
    keep_past_shutdown_s: float = Field(default=3600.0, ge=0)


@dataclass(frozen=True)
class QueueSummary(PilotFigures[int, float | None]):
    """The figures of one queue; ``None`` where too few pilots reported a value."""

    queue: str
    draining_pilots: int


def summarise(reports: Iterable[Report], now_s: float, rules: SummaryRules | None = None) -> tuple[QueueSummary, ...]:
    """The figures of every queue that has reports, by name; the last report of each pilot counts."""
    chosen = rules or SummaryRules()
    last: dict[tuple[str, str], Report] = {}
    for report in reports:
        before = last.get((report.queue, report.reporter))
        if before is None or before.reported_s <= report.reported_s:
            last[(report.queue, report.reporter)] = report
    alive = [latest for latest in last.values() if not _gone(latest, now_s, chosen)]
    alive.sort(key=lambda latest: (latest.queue, latest.reporter))
    return tuple(
        _summary(queue, list(group), chosen) for queue, group in groupby(alive, key=lambda latest: latest.queue)
    )


def _gone(report: Report, now_s: float, rules: SummaryRules) -> bool:
    return report.shutdown_s is not None and report.shutdown_s + rules.keep_past_shutdown_s < now_s


def _summary(queue: str, reports: Sequence[Report], rules: SummaryRules) -> QueueSummary:
    corepowers = _usable([report.corepower for report in reports], rules)
    walls = _usable([report.wall_limit_s for report in reports], rules)
    memories = _usable([_per_core_mb(report.max_rss_bytes, report.cores) for report in reports], rules)
    scratch = _usable([_scratch_per_core_mb(report) for report in reports], rules)
    shutdowns = [float(report.shutdown_s) for report in reports if report.shutdown_s is not None]
    drains = len(reports) >= rules.drain_min_pilots and len(shutdowns) > rules.drain_share * len(reports)
    return QueueSummary(
        queue=queue,
        pilots=len(reports),
        corepower=percentile(corepowers, 50.0),
        maxtime_s=_less(percentile(walls, rules.low_percentile), rules.pilot_overhead_s),
        maxrss_per_core_mb=min(memories, default=None),
        maxwdir_per_core_mb=min(scratch, default=None),
        draining_pilots=len(shutdowns),
        shutdown_s=percentile(shutdowns, rules.low_percentile) if drains else None,
    )


def _per_core_mb(size_bytes: float | None, cores: float | None) -> float | None:
    return None if size_bytes is None or not cores else size_bytes / cores / MB


def _scratch_per_core_mb(report: Report) -> float | None:
    """A disk that all jobs of the machine share is divided by its processors."""
    return _per_core_mb(report.scratch_limit_bytes, report.total_cpu if report.scratch_is_shared else report.cores)


def _less(value: float | None, overhead: float) -> float | None:
    return None if value is None or value <= overhead else value - overhead


def _usable(values: Sequence[float | None], rules: SummaryRules) -> list[float]:
    """The known values without outliers; none if too few pilots reported one.

    Outliers count towards the minimum: else one lying pilot could silence the others. At least half is kept.
    """
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    if len(known) < rules.min_pilots:
        return []
    low, middle, high = (percentile(known, share) or 0.0 for share in (25.0, 50.0, 75.0))
    room = max(OUTLIER_RANGES * (high - low), OUTLIER_SHARE * abs(middle))
    return [value for value in known if low - room <= value <= high + room]


def percentile(values: Sequence[float], share: float) -> float | None:
    """The percentile by linear interpolation between the neighbours; ``None`` without values."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * share / 100.0
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
