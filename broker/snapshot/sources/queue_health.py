"""The source ``queue_health``: queues that are suspected, closed or on probation for how jobs end there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.queue_health import HealthState
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, SourceLimit, StatementRead

QUEUE_HEALTH = "queue_health"
#: Twice the period of the agent ``outcomes`` as shipped.
MAX_AGE_S = 240.0
_COLUMNS = (
    "queue", "kind", "state", "statistic", "since_s", "last_s", "ended", "failed", "tasks", "changed_s", "until_s",
    "probes_ended", "probes_finished",
)  # fmt: skip


@dataclass(frozen=True)
class LearnedHealth:
    """What is known of a queue that is not healthy; times are seconds since 1970 UTC, NaN where there is none.

    Attributes:
        statistic: logarithm of the likelihood ratio of failing over usual.
        ended, failed, tasks: jobs since ``since_s``, how many failed, and of how many tasks those were.
        changed_s, until_s: since when the state holds, and when it ends by itself.
        probes_ended, probes_finished: jobs of the probation.
    """

    state: HealthState
    statistic: float
    since_s: float
    last_s: float
    ended: int
    failed: int
    tasks: int
    changed_s: float
    until_s: float
    probes_ended: int = 0
    probes_finished: int = 0

    @property
    def hours(self) -> float:
        """Within how many hours the jobs ended that were counted."""
        return max(0.0, self.last_s - self.since_s) / 3600.0


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
            " cardinality(tasks) AS tasks, changed_s, until_s, probes_ended, probes_finished"
            " FROM broker.queue_health WHERE node = '' AND state <> 'healthy' ORDER BY queue, kind",
        ),
    )
    limit = SourceLimit(max_age_s=MAX_AGE_S)
    aged_by = "outcomes"

    def build(self, raw: RawSource, snapshot: Snapshot) -> LearnedQueues:
        """Build, by queue and kind, the queues that are not healthy."""
        found = {}
        for row in raw.rows(QUEUE_HEALTH).records():
            found[row["queue"], row["kind"]] = LearnedHealth(
                state=row["state"],
                statistic=float(row["statistic"]),
                ended=int(row["ended"]),
                failed=int(row["failed"]),
                tasks=int(row["tasks"]),
                probes_ended=int(row["probes_ended"]),
                probes_finished=int(row["probes_finished"]),
                **{name: _seconds(row[name]) for name in ("since_s", "last_s", "changed_s", "until_s")},
            )
        return found


def _seconds(value: Any) -> float:
    return math.nan if value is None else float(value)


def on_probation(snapshot: Snapshot) -> Bools:
    """(Q,) candidates whose queue is on probation for any kind of jobs."""
    learned: LearnedQueues = snapshot.offered.get(QUEUE_HEALTH, {})
    names = {queue for (queue, _), one in learned.items() if one.state == "probation"}
    return np.array([name in names for name in snapshot.queues.unified_name.tolist()], dtype=np.bool_)
