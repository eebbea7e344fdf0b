"""Queues with busy disks get no task that needs much disk IO."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from broker.domain.estimates import is_set, or_else
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import (
    Bools,
    Filter,
    Floats,
    JobPairs,
    Observation,
    Persistence,
    Reason,
    TuningView,
    Value,
    number,
)
from broker.rules.shared.by_kind import keep_by_kind

DEFAULT_LIMIT = "MAX_DISKIO_DEFAULT"


class DiskIo(Filter[JobPairs]):
    """Rejects queues whose running jobs do more disk IO than the limit, for tasks that also need more than the limit.

    In kB/s per core. The limit is the queue's ``maxdiskio``, else that of gdpconfig. The need of a multi-core task is
    divided by the cores of the unified queue, in whole kB/s. Source: ATLAS Production Job Brokerage,
    MAX_DISKIO_DEFAULT.
    """

    name = "disk_io"
    reason = Reason(
        code="diskIO",
        title="The disks of the queue are not busier than its limit, for tasks with more disk IO than that",
        violation="The disks of the queue are busy, and the task would use them as much",
        no_candidate="has enough disk bandwidth",
        who="wait",
        cure="Wait until the jobs there read and write less. The site may raise `maxdiskio`.",
    )
    kind: ClassVar[Persistence] = "temporary"
    keys = (DEFAULT_LIMIT,)
    sources = ("queues", "jobs")
    unknown_policy = "keep"
    #: Whether the need is cut to whole kB/s.
    in_whole_kbps: ClassVar[bool] = True

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of tasks with disk IO."""
        return is_set(pairs.chunks.diskio)

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q), or (1, Q) if no queue is over its limit."""
        busy = pairs.facts.average_diskio_kbps > _limit(pairs.candidates, pairs.tuning)
        if not busy.any():
            return np.asarray(~busy)
        within = keep_by_kind(
            pairs.candidates,
            ("maxdiskio_kbps", "unified_cores"),
            lambda some: np.asarray(~(self._need(pairs.chunks, some) > _limit(some, pairs.tuning))),
        )
        return np.asarray(within | ~busy)

    def observe(self, pairs: JobPairs) -> Observation:
        """The smaller of the queue's average and the task's need; a rejection requires both to be over the limit."""
        average, need = (
            number(pairs.facts.average_diskio_kbps) or 0.0,
            number(self._need(pairs.chunks, pairs.candidates)) or 0.0,
        )
        own = bool((pairs.candidates.maxdiskio_kbps > 0).item())
        key = "queue.maxdiskio" if own else DEFAULT_LIMIT
        inputs: dict[str, Value] = {"average_kbps": average, "task_kbps": need}
        return Observation(
            min(average, need), "<=", number(_limit(pairs.candidates, pairs.tuning)), "kB/s/core", key, inputs
        )

    def _need(self, tasks: WorkTable, candidates: QueueTable) -> Floats:
        shared = is_set(tasks.corecount) & (tasks.corecount != 1)
        need = tasks.diskio / np.where(shared, or_else(candidates.unified_cores, 1.0), 1.0)
        return np.asarray(np.floor(need) if self.in_whole_kbps else need)


def _limit(candidates: QueueTable, tuning: TuningView) -> Floats:
    own = candidates.maxdiskio_kbps
    return np.where(own > 0, own, tuning.number(DEFAULT_LIMIT))
