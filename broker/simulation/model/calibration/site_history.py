"""A site's own history as it is counted: queues, tasks by queue, tasks as they came, and workers. No job, no user name.

Source: the columns of ``jobsarchived4`` (and its archive), ``jobs_statuslog``, ``filestable4``, ``harvester_workers``
and ``jedi_tasks``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Counted:
    """The quantiles of 10, 50 and 90 % of ``n`` values."""

    n: int
    quantiles: tuple[float, float, float]

    @property
    def p10(self) -> float:
        """A tenth of the values is smaller."""
        return self.quantiles[0]

    @property
    def p50(self) -> float:
        """Half of the values are smaller."""
        return self.quantiles[1]

    @property
    def p90(self) -> float:
        """A tenth of the values is larger."""
        return self.quantiles[2]


def counted(n: int, quantiles: Sequence[float | None] | None) -> Counted | None:
    """The quantiles where there are any values and all three are known; else None."""
    known = [float(one) for one in quantiles or () if one is not None]
    return Counted(int(n), (known[0], known[1], known[2])) if n and len(known) == 3 else None


@dataclass(frozen=True)
class QueueRecord:
    """What a queue did in a span.

    Attributes:
        name: of the queue.
        jobs: attempts that ended, and ``failed`` of them; cancelled and closed ones are neither.
        core_s: core seconds of all attempts inside the span.
        most_cores: most cores that ran at once, by jobs or by workers, whichever saw more.
        corepower: as published, HS06 a core; None where it is not.
        wall_s: of the attempts that finished; ``wait_s`` from activated to running of those that started.
    """

    name: str
    jobs: int
    failed: int
    core_s: float
    most_cores: float
    wall_s: Counted | None = None
    wait_s: Counted | None = None
    corepower: float | None = None


@dataclass(frozen=True)
class TaskAtQueue:
    """Attempts of one task at one queue: ``jobs`` ended, ``failed`` of them, the median wall time of the others.

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
    """A task that came in a span, with the figures of its attempts whenever they ended.

    Attributes:
        task: its number.
        kind: type of processing of its jobs.
        arrival_s: from the beginning of the span, in seconds.
        share: global share; ``analysis`` whether it is a user's, ``user`` the rank of the owner by first arrival.
        priority: as it was given.
        jobs: first attempts; ``attempts`` that ended, and ``failed`` of them.
        cores: of a job; ``asked_mb`` memory of a job, None where none was asked.
        wall_s: of the finished attempts, times the speed of the queue of each where speeds are known; ``cpu_s``
            likewise; None where none finished.
        input_gb: of a job, and ``output_gb``: means; None where no file is on record.
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
    wall_s: Counted | None
    cpu_s: Counted | None
    input_gb: float | None
    output_gb: float | None


@dataclass(frozen=True)
class WorkersRecord:
    """Workers of a queue that were submitted in a span: how long they waited, how many had no job, or were lost.

    ``delay_s`` is from submitted to started, ``free_delay_s`` that of those which found a slot free.
    """

    queue: str
    workers: int
    empty: int
    delay_s: Counted | None
    lost: int = 0
    free_delay_s: Counted | None = None


@dataclass(frozen=True)
class TapeRecord:
    """Requests for input on tape that ended in a span.

    Attributes:
        requests: that ended; ``files`` of them, and ``failed`` of these, which were never staged.
        took_s: from start to end of those that were done, for each hundred files that were asked for.
        part: of the tasks that came and read a dataset, those for which there was a request.
    """

    requests: int
    files: int
    failed: int
    took_s: Counted | None
    part: float


@dataclass(frozen=True)
class History:
    """All that was counted from ``since`` to ``until`` (UNIX seconds; the weekday and hour of tasks are UTC).

    ``tape`` is None, and ``without_tape`` says why, where nothing is known of it.
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
        """Seconds of the span."""
        return self.until_s - self.since_s
