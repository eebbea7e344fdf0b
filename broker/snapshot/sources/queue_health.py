"""The source ``queue_health``: queues that are suspected, closed or on probation for how jobs end there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.domain.queue_health import HealthLimits, HealthState
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, SourceLimit, StatementRead

QUEUE_HEALTH = "queue_health"
#: Twice the period of the agent ``outcomes`` as shipped.
MAX_AGE_S = 240.0
_COLUMNS = (
    "queue", "kind", "state", "statistic", "since_s", "last_s", "ended", "failed", "tasks", "until_s", "probes_ended",
)  # fmt: skip


@dataclass(frozen=True)
class LearnedHealth:
    """What is known of a queue that is not healthy.

    Attributes:
        statistic: logarithm of the likelihood ratio of failing over usual.
        failed_jobs, ended_jobs, failed_tasks: what it is made of, and within how many hours these jobs ended.
        until_s: when the state ends by itself (seconds since 1970 UTC); NaN where it does not.
        probes: jobs of the probation that have ended.
    """

    state: HealthState
    statistic: float
    failed_jobs: int
    ended_jobs: int
    failed_tasks: int
    hours: float
    until_s: float
    probes: int = 0


LearnedQueues = Mapping[tuple[str, str], LearnedHealth]
"""By unified queue and kind of jobs, those that are not healthy."""


class QueueHealthSource(Source):
    """The queues that are not healthy, as the agent ``outcomes`` left them."""

    name = QUEUE_HEALTH
    reads = (
        StatementRead(
            name=QUEUE_HEALTH,
            columns_stored=_COLUMNS,
            statement="SELECT queue, kind, state, statistic, since_s, last_s, ended, failed,"
            " cardinality(tasks) AS tasks, until_s, probes_ended"
            " FROM broker.queue_health WHERE node = '' AND state <> 'healthy' ORDER BY queue, kind",
        ),
    )
    limit = SourceLimit(max_age_s=MAX_AGE_S)
    aged_by = "outcomes"

    def build(self, raw: RawSource, snapshot: Snapshot) -> LearnedQueues:
        """Build, by queue and kind, the queues that are not healthy."""
        found = {}
        for row in raw.rows(QUEUE_HEALTH).records():
            within_s = _seconds(row["last_s"]) - _seconds(row["since_s"])
            found[row["queue"], row["kind"]] = LearnedHealth(
                state=row["state"],
                statistic=float(row["statistic"]),
                failed_jobs=int(row["failed"]),
                ended_jobs=int(row["ended"]),
                failed_tasks=int(row["tasks"]),
                hours=max(0.0, within_s) / 3600.0,
                until_s=_seconds(row["until_s"]),
                probes=int(row["probes_ended"]),
            )
        return found


def _seconds(value: Any) -> float:
    return math.nan if value is None else float(value)


def on_probation(snapshot: Snapshot) -> Bools:
    """(Q,) candidates whose queue is on probation for any kind of jobs."""
    learned: LearnedQueues = snapshot.offered.get(QUEUE_HEALTH, {})
    names = {queue for (queue, _), one in learned.items() if one.state == "probation"}
    return np.array([name in names for name in snapshot.queues.unified_name.tolist()], dtype=np.bool_)


def group_sizes(snapshot: Snapshot, *, probing: bool) -> Ints:
    """(Q,) jobs that each candidate is given at a time, 0 where it has no number of its own.

    With ``probing`` a queue on probation gets no more than its probe jobs at a time.
    """
    size = np.maximum(np.nan_to_num(snapshot.queues.job_chunk_size), 0).astype(np.int64)
    return np.where(on_probation(snapshot), HealthLimits().probe_jobs, size) if probing else size
