"""A task whose own jobs fail at a queue is sent elsewhere for a while; failures of other tasks do not matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation, Value
from broker.domain.facts import not_single
from broker.domain.task_failures import WITHIN_H, TaskFailures
from broker.rules.contract import Filter, JobPairs, Reason, TuningView
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.task_failures import TASK_FAILURES, FailingTasks, failing_tasks

SWITCH, EVIDENCE = "LEARNED_TASK_FAILS_HERE", "LEARNED_TASK_EVIDENCE"


@dataclass(frozen=True)
class FailingQueues:
    """The queues at which tasks fail.

    Attributes:
        queues: by task and queue, the finished and failed jobs there and elsewhere.
    """

    queues: dict[int, dict[str, TaskFailures]]


class TaskFailsHere(Filter[JobPairs]):
    """Rejects queues at which a few jobs of the chunk's own task failed within six hours, with LEARNED_TASK_FAILS_HERE.

    Three failures of three are enough, or four of five. If half of the task's jobs fail elsewhere too, the queue is
    kept: no other is better. Not for a single pre-assigned queue. Source: A. Wald, Sequential tests of statistical
    hypotheses, 1945.
    """

    name = "task_fails_here"
    same_in_passes = True
    reason = Reason(
        code="task_fails_here",
        title="Jobs of the task do not fail at the queue",
        violation="Jobs of the task failed at the queue recently",
        no_candidate="has not failed jobs of this task recently",
        who="wait",
        cure="Wait: the task is sent there again when the failures are six hours old, or when its jobs fail elsewhere, "
        "too. Operators may switch `LEARNED_TASK_FAILS_HERE` off.",
    )
    kind = "temporary"
    keys = (SWITCH, EVIDENCE)
    sources = (TASK_FAILURES,)
    unknown_policy = "keep"
    provenance = "Wald, Sequential tests of statistical hypotheses"

    def needs(self, tuning: TuningView) -> tuple[str, ...]:
        """No sources while the rule is switched off."""
        return self.sources if tuning.flag(SWITCH) else ()

    def prepare(self, snapshot: Snapshot, work: Any, tuning: TuningView) -> FailingQueues | None:
        """The queues at which tasks of the work fail; None if the rule is switched off or no task fails."""
        learned: FailingTasks = snapshot.offered.get(TASK_FAILURES, {})
        if not learned or not tuning.flag(SWITCH):
            return None
        tasks = sorted({*work.chunks.jeditaskid.tolist()} & learned.keys())
        queues = failing_tasks(learned, tasks, snapshot.now_s, tuning.number(EVIDENCE))
        return FailingQueues(queues) if queues else None

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks without a single pre-assigned queue, of tasks that fail somewhere."""
        known: FailingQueues | None = pairs.prepared.get(self.name)
        failing = np.zeros(len(pairs.chunks.jeditaskid), dtype=np.bool_)
        if known is not None:
            failing = np.isin(pairs.chunks.jeditaskid[:, 0], list(known.queues))
        return np.asarray(not_single(pairs.facts) & failing[:, None])

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where the task does not fail at the queue."""
        known: FailingQueues | None = pairs.prepared.get(self.name)
        names, tasks = pairs.candidates.unified_name[0], pairs.chunks.jeditaskid[:, 0].tolist()
        result = np.ones((len(tasks), len(names)), dtype=np.bool_)
        for row, task in enumerate(tasks):
            failing = None if known is None else known.queues.get(task)
            if failing:
                result[row] = ~np.isin(names, list(failing))
        return result

    def observe(self, pairs: JobPairs) -> Observation:
        """The evidence, with the numbers of failed jobs of the task there and elsewhere."""
        limit = pairs.tuning.number(EVIDENCE)
        known: FailingQueues | None = pairs.prepared.get(self.name)
        of_task = {} if known is None else known.queues.get(int(pairs.chunks.jeditaskid.item()), {})
        failures = of_task.get(str(pairs.candidates.unified_name.item()))
        if failures is None:
            return Observation(None, "<", limit, "ln", EVIDENCE)
        figures: dict[str, Value] = {
            "failed_jobs": failures.failed,
            "ended_jobs": failures.ended,
            "failed_elsewhere": failures.failed_elsewhere,
            "ended_elsewhere": failures.ended_elsewhere,
            "within_h": WITHIN_H,
        }
        return Observation(failures.evidence, "<", limit, "ln", EVIDENCE, figures)
