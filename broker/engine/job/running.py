"""The number of running jobs by which a queue is weighed, where batch workers and slots stand in for running jobs.

Source: ATLAS Production Job Brokerage, initial weight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, RowsByKind
from broker.domain.grid import COUNTED_STATUSES
from broker.engine.job.learned_running import learned_free_jobs
from broker.gdpconfig import Tuning
from broker.rules.contract import Options, Step
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.queue_capacity import QUEUE_CAPACITY

#: Batch workers stand in for running jobs up to this number. Source: ATLAS Production Job Brokerage, initial weight.
MAX_WORKERS_COUNTED = 20.0
_STARTING, _RUNNING = COUNTED_STATUSES.index("starting"), COUNTED_STATUSES.index("running")


@dataclass(frozen=True)
class RunningInputs:
    """Figures that replace running jobs, and where: (1, Q) by candidate, (T, 1) by chunk."""

    workers: Floats
    cores: Floats
    pilots: Floats
    pull_ups: Bools
    low_priority: Bools
    pilots_count: Bools  # (T, 1): whether pilots are checked
    learned_free: Floats | None = None  # (Q,): jobs that fit on cores that ran before and are free now


class RunningOptions(Options):
    """Readings of "running".

    Attributes:
        gates: batch workers count everywhere, or only at ``ucore`` queues of workflow ``pull_ups`` with pilots; and
            both workers and slots at any priority, or only up to MAX_PRIO_TO_BOOTSTRAP.
        combine: the largest of the readings, or one after the other, so that where slots are published as 0 the
            starting jobs are added to the running ones.
        learned: with LEARNED_CAPACITY_AS_RUNNING, what queues ran within weeks is a reading, too.
    """

    gates: Literal["none", "bootstrap"] = "none"
    combine: Literal["largest", "in_turn"] = "largest"
    learned: bool = True


class Running(Step):
    """The number of running jobs that weights and caps use."""

    name = "running"
    title = "What counts as running: jobs, batch workers, published slots, starting jobs"
    options: RunningOptions = RunningOptions()

    def needed_sources(self) -> tuple[str, ...]:
        """What queues can run, where that may count."""
        return (QUEUE_CAPACITY,) if self.options.learned else ()

    def free_jobs(self, snapshot: Snapshot, tuning: Tuning) -> Floats | None:
        """(Q,) jobs that fit on free cores, see :func:`learned_free_jobs`; None where they do not count."""
        return learned_free_jobs(snapshot, tuning) if self.options.learned else None

    @property
    def by_priority(self) -> bool:
        """Whether the reading depends on priority and pilots, besides jobs of the accounting key and slots."""
        return self.options.gates == "bootstrap"

    def equivalent(self, running: Floats, starting: Floats, slots: Floats, inputs: RunningInputs) -> Floats:
        """(T, Q): the reading of "running".

        Args:
            running: (T, Q) running jobs of the accounting key.
            starting: (T, Q) starting jobs of the accounting key.
            slots: (T, Q) published numbers of slots, NaN without any.
            inputs: batch workers, cores, pilots and priority.
        """
        workers = np.minimum(inputs.workers, MAX_WORKERS_COUNTED)
        low_priority = np.asarray(True)
        if self.options.gates == "bootstrap":
            low_priority = inputs.low_priority
            with_pilots = inputs.pilots_count & (inputs.pilots > 0)
            workers = np.where(inputs.pull_ups & low_priority & with_pilots, workers, 0.0)
        # workers count up to 20, and only where they exceed the running jobs: that is the larger of the two
        result = np.maximum(running, workers)
        # few queues publish slots: without any, this is the result
        columns = np.flatnonzero((~np.isnan(slots)).any(axis=0))
        if not len(columns):
            return np.asarray(result)
        published, own = np.where(low_priority, slots[:, columns], np.nan), result[:, columns]
        cores = np.broadcast_to(inputs.cores, (1, slots.shape[1]))[:, columns]
        none_free = starting[:, columns] if self.options.combine == "largest" else own + starting[:, columns]
        proactive = np.where(published > 0, np.floor(published / np.maximum(cores, 1.0)), none_free)
        result[:, columns] = np.fmax(own, np.where(np.isnan(published), np.nan, proactive))
        return np.asarray(result)


def running_of_kinds(
    step: Running, counts: RowsByKind, slots: RowsByKind, inputs: RunningInputs, unified: Ints
) -> RowsByKind:
    """(T, Q): the reading of "running", computed once for chunks that are equal in its inputs.

    Args:
        step: the reading.
        counts: (status, T, Q) jobs of the accounting keys.
        slots: (T, U) published slots.
        inputs: the figures that stand in for running jobs.
        unified: (Q,) unified queue of each candidate.
    """
    code = counts.kinds * len(slots.table) + slots.kinds
    if step.by_priority:
        code = (2 * code + inputs.low_priority[:, 0]) * 2 + inputs.pilots_count[:, 0]
    _, first, kind = np.unique(code, return_index=True, return_inverse=True)
    seen = replace(inputs, pilots_count=inputs.pilots_count[first], low_priority=inputs.low_priority[first])
    starting, running = (counts.layer(status).of(first).every for status in (_STARTING, _RUNNING))
    table = step.equivalent(running, starting, slots.table[slots.kinds[first]][:, unified], seen)
    if inputs.learned_free is not None:
        table = np.maximum(table, running + inputs.learned_free)
    return RowsByKind(table, kind.ravel())
