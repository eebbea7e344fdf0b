"""The writes of a cycle, before they are written: jobs of a job brokerage, and nuclei of a task brokerage.

Jobs come with their queues and the files that they take, nuclei with the locations of their output; both come with the
tasks that wait. Jobs and files are columns of one length (see :mod:`broker.domain.arrays`). Nothing here has been
checked against the database; the write-back omits what has changed since it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from broker.domain.arrays import Bools, Ints


@dataclass(frozen=True)
class JobTable:
    """Jobs as columns of length J.

    ``queue``, ``resource_type`` and ``platform`` are positions in the lists of the :class:`Placement`, -1 for none.
    Sizes and times are whole numbers in the unit of their name; -1 means unknown.
    """

    chunk: Ints  # position in the cycle's WorkTable
    jeditaskid: Ints
    queue: Ints  # the unified queue, as in computingsite
    resource_type: Ints
    platform: Ints
    corecount: Ints
    minramcount_mb: Ints
    maxdiskcount_mb: Ints
    maxwalltime_s: Ints
    maxcpucount_s: Ints
    nevents: Ints
    inputfilebytes: Ints
    ninputdatafiles: Ints
    priority: Ints
    merging: Bools

    def __len__(self) -> int:
        return len(self.chunk)


@dataclass(frozen=True)
class JobFileTable:
    """Input files of jobs as columns of length F.

    A file that several jobs read (a reusable or repeated secondary) is not ``claimed``: it is recorded with each
    job and stays as it is. Every other file is claimed by exactly one job.
    """

    job: Ints  # position in JobTable
    jeditaskid: Ints
    datasetid: Ints
    fileid: Ints
    attemptnr: Ints  # as it was read; the lowest int64 for NULL
    claimed: Bools

    def __len__(self) -> int:
        return len(self.job)


@dataclass(frozen=True)
class TaskSeen:
    """A task as the decision saw it. ``scout``: whether the jobs made for it are scouts."""

    jeditaskid: int
    status: str
    nucleus: str | None
    scout: bool = False


@dataclass(frozen=True)
class Placement:
    """Everything that one write-back writes.

    Attributes:
        queue_names: unified queue names that ``jobs.queue`` points into.
        resource_types: names that ``jobs.resource_type`` points into.
        platforms: platforms that ``jobs.platform`` points into; patterns of the task are resolved for the queue.
        jobs: the jobs, in the order of their creation.
        files: their files.
        tasks: every task of the placement, with or without jobs.
        waiting: tasks for which no jobs could be made, with the reason to show.
        throttled: waiting tasks that wait for their user or share, not for a queue.
    """

    queue_names: tuple[str, ...]
    resource_types: tuple[str, ...]
    platforms: tuple[str, ...]
    jobs: JobTable
    files: JobFileTable
    tasks: tuple[TaskSeen, ...]
    waiting: dict[int, str] = field(default_factory=dict)
    throttled: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Refuse positions out of range, which would lose a job without a trace.

        Raises:
            ValueError: a column has another length, or a position is out of range.
        """
        jobs, files = len(self.jobs), len(self.files)
        _check_positions("files.job", self.files.job, jobs)
        _check_positions("jobs.queue", self.jobs.queue, len(self.queue_names))
        _check_positions("jobs.resource_type", self.jobs.resource_type, len(self.resource_types), lowest=-1)
        _check_positions("jobs.platform", self.jobs.platform, len(self.platforms), lowest=-1)
        for table, length in ((self.jobs, jobs), (self.files, files)):
            for name, column in vars(table).items():
                if column.shape != (length,):
                    raise ValueError(f"{type(table).__name__}.{name} has shape {column.shape}, not ({length},)")
        known = np.array(sorted(task.jeditaskid for task in self.tasks), dtype=np.int64)
        if not bool(np.isin(self.jobs.jeditaskid, known).all()):
            raise ValueError("jobs of a task that is not among the tasks of the placement")


def _check_positions(name: str, positions: Ints, length: int, lowest: int = 0) -> None:
    if len(positions) and not (lowest <= int(positions.min()) and int(positions.max()) < length):
        raise ValueError(f"{name} points outside the {length} rows it refers to")


class WriteOutcome(Protocol):
    """The outcome of writing the rows of a batch. A brokerage whose rows are not jobs has no ``kept``."""

    @property
    def kept(self) -> Bools | None:
        """(J,) whether each job of the batch was written; None if rows are not jobs."""
        ...

    @property
    def tasks_skipped(self) -> frozenset[int]:
        """Tasks that had changed or were locked, so that nothing was written for them."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts of written rows by name, for the agent's report."""
        ...


#: The former name, for brokerages of other distributions.
Written = WriteOutcome


@dataclass(frozen=True)
class OutputPlace:
    """Where one output or log dataset goes.

    Attributes:
        datasetid: identifier of the dataset.
        seen: its storage token as read.
        storagetoken: its new storage token.
    """

    datasetid: int
    seen: str | None
    storagetoken: str


@dataclass(frozen=True)
class NucleusAssignment:
    """A task that gets a nucleus.

    Attributes:
        jeditaskid: the task.
        seen: its nucleus as read, mostly None.
        nucleus: its new nucleus.
        outputs: its datasets that get a place.
    """

    jeditaskid: int
    seen: str | None
    nucleus: str
    outputs: tuple[OutputPlace, ...]


@dataclass(frozen=True)
class WaitingTask:
    """A task that gets no nucleus: its nucleus as read, and the reason to show."""

    jeditaskid: int
    seen: str | None
    reason: str


@dataclass(frozen=True)
class TaskPlacement:
    """Everything that one write-back writes: tasks that get a nucleus, and tasks that wait."""

    assigned: tuple[NucleusAssignment, ...] = ()
    waiting: tuple[WaitingTask, ...] = ()
