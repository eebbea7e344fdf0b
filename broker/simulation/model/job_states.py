"""The states of tasks and jobs during a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.domain.grid import COUNTED_STATUSES
from broker.simulation.model.job_kinds import JobDraws, JobKind
from broker.simulation.model.right_sizing import MemoryRecord
from broker.simulation.model.scenario import Task

#: Positions of the states of jobs in counts; a job that waits at a queue is activated.
ACTIVATED, STARTING, RUNNING, TRANSFERRING = (
    COUNTED_STATUSES.index(status) for status in ("activated", "starting", "running", "transferring")
)

#: Assumed CPU time over core seconds of tasks, in percent; seconds of a job in addition to its CPU time.
BELIEVED_EFFICIENCY, BASE_WALL_S = 90.0, 600.0
#: Values in place of a nucleus: the output stays where it is produced; the task waits for a nucleus.
STAYS, NOT_YET = -1, -2


@dataclass(slots=True, eq=False)
class Job:
    """One attempt of one job at one queue.

    Attributes:
        index: index of the job in its task.
        assigned_s: instant at which it came to the queue.
        started_s: instant at which it began to run, NaN before.
        ticket: its place in the queue's waiting list.
        flow: number of its stage-in, 0 for none.
        believed_s: expected run time, if workers need it.
        version: raised when the attempt ends, so that events scheduled for it become void.
        execution_s: run time of the payload.
        efficiency: CPU time of the payload over its run time.
    """

    task: TaskState
    index: int
    queue: int
    attempt: int
    cores: int
    memory_gb: float
    priority: float
    share: int
    assigned_s: float
    ticket: int = 0
    node: int = -1
    state: int = ACTIVATED
    started_s: float = float("nan")
    changed_s: float = 0.0
    flow: int = 0
    believed_s: float = 0.0
    version: int = 0
    execution_s: float = 0.0
    efficiency: float = 1.0


@dataclass(eq=False)
class TaskState:
    """A task that has arrived.

    Attributes:
        task: task of the scenario.
        draws: figures of its jobs.
        assignable_s: instant at which its jobs could first be assigned.
        nucleus: site that collects its output; STAYS if the output stays in place, NOT_YET if none is chosen yet.
        unassigned: jobs that wait for a queue, as a stack with the next on top.
        first_start_s: (n,) first start of each job, NaN before.
        done_s: (n,) arrival of each job's output at the nucleus, NaN before; infinite for a job that failed for good.
        attempts: (n,) failed attempts.
        left: queues that jobs were taken back from, and when.
        active_s: last start or end of a job at each queue, for analysis.
        retry_s: instant before which the task is not brokered.
        memory_used_mb: (n,) memory that its jobs really use, None if they use what they hold.
        memory_kills: number of times that each job was killed for its memory.
        held: jobs that wait for the scouts of the task, as a stack.
        measured_work_hs06s: CPU work of a job as measured by the scouts, None before.
        ended: finished and failed attempts by name of the queue, if the scenario counts them.
        memory_record: memory that its ended jobs used, None if requests stay as they are.
        failed_at: instant (s) of failures by queue, for each failed job.
        stage_in_fails: (n, A) uniform draws for each attempt, None if stage-ins never fail.
    """

    task: Task
    kind: JobKind
    draws: JobDraws
    assignable_s: float
    nucleus: int
    unassigned: list[int]
    first_start_s: Floats
    done_s: Floats
    attempts: Ints
    left: dict[int, float] = field(default_factory=dict)
    active_s: dict[int, float] = field(default_factory=dict)
    moves: int = 0
    returns: int = 0
    open_jobs: int = 0
    retry_s: float = 0.0
    memory_used_mb: Floats | None = None
    memory_kills: dict[int, int] = field(default_factory=dict)
    held: list[int] = field(default_factory=list)
    measured_work_hs06s: float | None = None
    ended: dict[str, list[int]] = field(default_factory=dict)
    stage_in_fails: Floats | None = None
    failed_at: dict[int, dict[int, float]] = field(default_factory=dict)
    memory_record: MemoryRecord | None = None

    def memory_gb(self, index: int) -> float:
        """Memory that a job holds: the request of its kind or task, doubled each time it was killed for memory."""
        requested_gb = float(self.kind.cores * self.kind.memory_gb_core)
        if self.memory_record is not None and self.memory_record.request_mb is not None:
            requested_gb = self.memory_record.request_mb / 1024.0
        return requested_gb * 2.0 ** self.memory_kills.get(index, 0)

    @property
    def jobs_left(self) -> int:
        """Jobs at no queue: they wait for one, or for the scouts."""
        return len(self.unassigned) + len(self.held)

    @property
    def believed_work_hs06s(self) -> float:
        """CPU work of a job in HS06 s, as estimated or as measured by the scouts."""
        return self._estimated_work_hs06s if self.measured_work_hs06s is None else self.measured_work_hs06s

    @cached_property
    def _estimated_work_hs06s(self) -> float:
        median = float(self.kind.work_hs06s_event.quantile(np.array([0.5]))[0])
        return median * self.kind.events * self.task.work_factor * self.task.believed_factor

    def believed_wall_s(self, corepower: float) -> float:
        """Wall time of a job on cores of this many HS06, as computed by the broker from its estimates."""
        speed = self.kind.cores * corepower * BELIEVED_EFFICIENCY / 100.0
        return self.believed_work_hs06s / speed + BASE_WALL_S

    def note_failed(self, index: int, queue: int, now_s: float) -> None:
        """Count an attempt of a job that failed at a queue."""
        self.attempts[index] += 1
        self.failed_at.setdefault(index, {})[queue] = now_s

    def count_end(self, queue: str, *, failed: bool) -> None:
        """Count an attempt that finished or failed at a queue."""
        self.ended.setdefault(queue, [0, 0])[int(failed)] += 1


def new_task(task: Task, kind: JobKind, draws: JobDraws, now_s: float, nucleus: int) -> TaskState:
    """A task with all jobs unassigned."""
    return TaskState(
        task=task,
        kind=kind,
        draws=draws,
        assignable_s=now_s,
        nucleus=nucleus,
        unassigned=list(range(task.jobs - 1, -1, -1)),
        first_start_s=np.full(task.jobs, np.nan),
        done_s=np.full(task.jobs, np.nan),
        attempts=np.zeros(task.jobs, dtype=np.int64),
        open_jobs=task.jobs,
    )
