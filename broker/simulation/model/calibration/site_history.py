"""The counted history of a site: queues, tasks by queue, arrived tasks, and workers. No jobs and no names of users.

Source: the columns of ``jobsarchived4`` (and its archive), ``jobs_statuslog``, ``filestable4``, ``harvester_workers``
and ``jedi_tasks``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SampleQuantiles:
    """The 10, 50 and 90 % quantiles of ``n`` values."""

    n: int
    quantiles: tuple[float, float, float]

    @property
    def p10(self) -> float:
        """The value that a tenth of the values are below."""
        return self.quantiles[0]

    @property
    def p50(self) -> float:
        """The value that half of the values are below."""
        return self.quantiles[1]

    @property
    def p90(self) -> float:
        """The value that a tenth of the values are above."""
        return self.quantiles[2]


def counted(n: int, quantiles: Sequence[float | None] | None) -> SampleQuantiles | None:
    """The quantiles if there are any values and all three are known; else None."""
    known = [float(one) for one in quantiles or () if one is not None]
    return SampleQuantiles(int(n), (known[0], known[1], known[2])) if n and len(known) == 3 else None


@dataclass(frozen=True)
class QueueRecord:
    """The record of a queue in a span.

    Attributes:
        name: name of the queue.
        jobs: ended attempts; cancelled and closed ones do not count.
        failed: failed attempts among them.
        core_s: core seconds of all attempts inside the span.
        most_cores: maximum of concurrent cores, from jobs or from workers, whichever is larger.
        wall_s: wall times of the finished attempts.
        wait_s: times from activated to running of the started attempts.
        corepower: published HS06 a core; None if not published.
    """

    name: str
    jobs: int
    failed: int
    core_s: float
    most_cores: float
    wall_s: SampleQuantiles | None = None
    wait_s: SampleQuantiles | None = None
    corepower: float | None = None


@dataclass(frozen=True)
class TaskAtQueue:
    """Attempts of one task at one queue: ``jobs`` that ended, ``failed`` among them, median wall time of the others.

    ``kind`` is the type of processing of the task.
    """

    task: int
    kind: str
    queue: str
    jobs: int
    failed: int
    wall_s: float | None


@dataclass(frozen=True)
class TaskRecord:
    """A task that arrived in a span, with the figures of its attempts whenever they ended.

    Attributes:
        task: number of the task.
        kind: type of processing of its jobs.
        arrival_s: seconds from the beginning of the span.
        share: global share.
        analysis: whether it is a user's task.
        user: rank of the owner among all owners.
        priority: priority of the task.
        jobs: first attempts.
        attempts: ended attempts.
        failed: failed attempts among them.
        cores: cores of a job.
        asked_mb: requested memory of a job, None if none was requested.
        wall_s, cpu_s: times of the finished attempts, multiplied by the speeds of their queues if these are known; None
            if none finished.
        input_gb, output_gb: means of a job; None if no file is recorded.
    """

    task: int
    kind: str
    arrival_s: float
    share: str
    analysis: bool
    user: int
    priority: float
    jobs: int
    attempts: int
    failed: int
    cores: int
    asked_mb: float | None
    wall_s: SampleQuantiles | None
    cpu_s: SampleQuantiles | None
    input_gb: float | None
    output_gb: float | None


@dataclass(frozen=True)
class WorkersRecord:
    """Workers of a queue that were submitted in a span: their delays, and how many had no job or were lost.

    ``delay_s`` is the time from submitted to started, ``free_delay_s`` that of workers that found a free slot.
    """

    queue: str
    workers: int
    empty: int
    delay_s: SampleQuantiles | None
    lost: int = 0
    free_delay_s: SampleQuantiles | None = None


@dataclass(frozen=True)
class TapeRecord:
    """Requests for input on tape that ended in a span.

    Attributes:
        requests: ended requests.
        files: requested files.
        failed: files among them that were never staged.
        took_s: time from start to end of a successful request, for each hundred requested files.
        part: part of the arrived tasks with an input dataset for which there was a request.
    """

    requests: int
    files: int
    failed: int
    took_s: SampleQuantiles | None
    part: float


@dataclass(frozen=True)
class History:
    """The counted history from ``since_s`` to ``until_s`` (UNIX seconds; the weekday and hour of tasks are UTC).

    ``tape`` is None if nothing is known of it, and ``without_tape`` says why.
    """

    since_s: float
    until_s: float
    queues: tuple[QueueRecord, ...]
    at_queues: tuple[TaskAtQueue, ...]
    tasks: tuple[TaskRecord, ...]
    workers: tuple[WorkersRecord, ...] = ()
    tape: TapeRecord | None = None
    without_tape: str = ""

    @property
    def length_s(self) -> float:
        """Length of the span in seconds."""
        return self.until_s - self.since_s
