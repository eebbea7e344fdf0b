"""The source ``queue_health``: queues suspected, closed or on probation because of how jobs end there."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.domain.queue_health import LATELY, HealthLimits, HealthState, kind_of
from broker.domain.work import WorkTable
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, SourceLimit, StatementRead

QUEUE_HEALTH = "queue_health"
#: Twice the period of the agent ``outcomes`` as shipped.
MAX_AGE_S = 240.0
STATE_COLUMNS = (
    "queue", "kind", "state", "statistic", "since_s", "last_s", "ended", "failed", "tasks", "until_s", "probes_ended",
)  # fmt: skip
_LATELY = ("finished_lately", "failed_lately")
#: As ``QueueHealth.lately``. Nothing else is read of a healthy queue, so the source stays the same while all is well.
_SCALED = f"round(least(1.0, {LATELY} / greatest(memory_ended, 1.0)) * {{what}})::bigint AS {{name}}"
_SUMS = ", ".join(
    _SCALED.format(what=what, name=name)
    for name, what in zip(_LATELY, ("(memory_ended - memory_failed)", "memory_failed"), strict=True)
)
_OF_HEALTHY = {
    "statistic": "0.0", "since_s": "NULL", "last_s": "NULL", "ended": "0", "failed": "0", "cardinality(tasks)": "0",
    "until_s": "NULL", "probes_ended": "0",
}  # fmt: skip
_FIGURES = ", ".join(
    f"CASE WHEN state = 'healthy' THEN {none} ELSE {what} END AS {what.replace('cardinality(tasks)', 'tasks')}"
    for what, none in _OF_HEALTHY.items()
)
#: Probe jobs are those created since the probation began; the agent counts the ended ones, this counts the others.
_PROBES = " UNION ALL ".join(
    f"SELECT count(*) AS jobs FROM {{{table}}} AS j WHERE j.computingsite = h.queue"  # noqa: S608 - constants
    " AND (coalesce(j.prodsourcelabel, '') = ANY(ARRAY['user', 'panda'])) = (h.kind = 'analysis')"
    " AND j.creationtime >= to_timestamp(h.changed_s) AT TIME ZONE 'UTC'"
    for table in ("active", "defined")
)
_JOBS = ("computingsite", "prodsourcelabel", "creationtime")


@dataclass(frozen=True)
class LearnedHealth:
    """What is known about a queue; for a healthy one, only how jobs ended recently.

    Attributes:
        statistic: logarithm of the likelihood ratio of failing over usual.
        failed_jobs, ended_jobs, failed_tasks: the evidence; ``hours``: the period within which these jobs ended.
        until_s: when the state ends by itself (seconds since 1970 UTC); NaN if it does not.
        probes: ended jobs of the probation; ``probes_there``: those sent that have not ended.
        finished_lately, failed_lately: see :meth:`QueueHealth.lately`.
    """

    state: HealthState
    statistic: float
    failed_jobs: int
    ended_jobs: int
    failed_tasks: int
    hours: float
    until_s: float
    probes: int = 0
    probes_there: int = 0
    finished_lately: int = 0
    failed_lately: int = 0

    @property
    def probe_room(self) -> int:
        """The number of probe jobs that may still be sent in this probation; 0 in any other state."""
        sent = self.probes + self.probes_there
        return max(0, HealthLimits().probe_jobs - sent) if self.state == "probation" else 0


LearnedQueues = Mapping[tuple[str, str], LearnedHealth]
"""The queues at which jobs ended, by unified queue and kind of jobs."""


class QueueHealthSource(Source):
    """How jobs end at queues, as recorded by the agent ``outcomes``."""

    name = QUEUE_HEALTH
    reads = (
        StatementRead(
            name=QUEUE_HEALTH,
            columns_stored=(*STATE_COLUMNS, "probes_there", *_LATELY),
            statement=f"SELECT queue, kind, state, {_FIGURES},"  # noqa: S608 - constants
            f" CASE WHEN state = 'probation' THEN (SELECT sum(jobs) FROM ({_PROBES}) AS made)::bigint ELSE 0 END"
            f" AS probes_there, {_SUMS} FROM broker.queue_health AS h WHERE node = '' ORDER BY queue, kind",
            tables={"active": ("jobsactive4", _JOBS), "defined": ("jobsdefined4", _JOBS)},
        ),
    )
    limit = SourceLimit(max_age_s=MAX_AGE_S)
    aged_by = "outcomes"

    def build(self, raw: RawSource, snapshot: Snapshot) -> LearnedQueues:
        """Build the health of the queues, by queue and kind."""
        return learned_of(raw)


def learned_of(raw: RawSource) -> LearnedQueues:
    """The queues in the rows of the source, by name and kind of jobs."""
    queues: dict[tuple[str, str], LearnedHealth] = {}
    for row in raw.rows(QUEUE_HEALTH).records():
        within_s = _seconds(row["last_s"]) - _seconds(row["since_s"])
        queues[row["queue"], row["kind"]] = LearnedHealth(
            state=row["state"],
            statistic=float(row["statistic"]),
            failed_jobs=int(row["failed"]),
            ended_jobs=int(row["ended"]),
            failed_tasks=int(row["tasks"]),
            hours=max(0.0, within_s) / 3600.0,
            until_s=_seconds(row["until_s"]),
            probes=int(row["probes_ended"]),
            probes_there=int(row.get("probes_there") or 0),
            **{name: int(row.get(name) or 0) for name in _LATELY},
        )
    return queues


def _seconds(value: Any) -> float:
    return math.nan if value is None else float(value)


def failing_queues(
    learned: LearnedQueues, kind: str, online: Sequence[str], evidence: float, most_share: float
) -> list[str]:
    """The queues closed or on probation for a kind of jobs: those with the most evidence, up to a share of all.

    Args:
        learned: the queues that are not healthy.
        kind: kind of jobs.
        online: names of all online queues, of which the share is taken; one may always be closed unless it is 0.
        evidence: queues with less evidence stay open.
        most_share: largest share of queues, from 0 to 1.
    """
    most = math.floor(max(1.0, most_share * len(online))) if most_share else 0
    failing = [
        (-health.statistic, name)
        for (name, of_kind), health in learned.items()
        if of_kind == kind and health.state in ("excluded", "probation") and health.statistic >= evidence
    ]
    return [name for _, name in sorted(failing)[:most]]


def on_probation(snapshot: Snapshot, kind: str) -> Bools:
    """(Q,) candidates whose queue is on probation for a kind of jobs."""
    learned: LearnedQueues = snapshot.offered.get(QUEUE_HEALTH, {})
    names = {queue for (queue, of_kind), health in learned.items() if of_kind == kind and health.state == "probation"}
    return np.array([name in names for name in snapshot.queues.unified_name.tolist()], dtype=np.bool_)


def on_trial(snapshot: Snapshot, finished: int) -> Bools:
    """(Q,) candidates at whose queue fewer than ``finished`` jobs of both kinds finished, or more failed than finished.

    There are none if ``finished`` is 0, or while nothing is known about any queue.
    """
    known: LearnedQueues | None = snapshot.offered.get(QUEUE_HEALTH)
    names = snapshot.queues.unified_name.tolist()
    if not finished or known is None:
        return np.zeros(len(names), dtype=np.bool_)
    ended: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for (queue, _), health in known.items():
        ended[queue] += health.finished_lately
        failed[queue] += health.failed_lately
    return np.array([ended[name] < finished or failed[name] > ended[name] for name in names], dtype=np.bool_)


def group_sizes(snapshot: Snapshot, chunks: WorkTable, *, probing: bool, trial_jobs: int) -> Ints:
    """(Q,) jobs given to each candidate at a time; 0 if it has no such number.

    It is -1 for a queue on trial until ``trial_jobs`` jobs finished and, with ``probing``, for one on probation for the
    kind of the chunks: a chunk gives it one job per cycle, and no more.
    """
    size = np.maximum(np.nan_to_num(snapshot.queues.job_chunk_size), 0).astype(np.int64)
    if not len(chunks):
        return size
    once = on_trial(snapshot, trial_jobs)
    if probing:
        once |= on_probation(snapshot, kind_of(chunks.prodsourcelabel[0]))
    return np.where(once, -1, size)
