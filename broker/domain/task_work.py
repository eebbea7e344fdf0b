"""Work and facts of the task brokerage: tasks in ``assigning`` with their datasets, and how they fit each nucleus.

Work is in columns of one length (see :mod:`broker.domain.arrays`): tasks, their output and input, and the remaining
work of nuclei. Names follow ``jedi_tasks`` and ``jedi_datasets`` where the value is the column's.

Facts are gathered once from the snapshot and the work, so that a rule is only its comparison. Shapes: (T, N) for task
against nucleus, (T, 1) for the task alone, (1, N) for the nucleus alone. NaN means "unknown".

Source: ATLAS Production Task Brokerage; PanDA data model, tasks and datasets.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from broker.domain.arrays import LATER, Bools, Floats, Ints, Texts
from broker.domain.facts import block_of
from broker.domain.work import DroppedRow, Work


@dataclass(frozen=True)
class AssigningTable:
    """Tasks that wait for a nucleus (length T), in the order in which they are brokered (priority, then task id).

    Times are seconds since 1970 UTC. Split-rule values are 0 when absent.
    """

    jeditaskid: Ints
    vo: Texts
    prodsourcelabel: Texts
    gshare: Texts
    workqueue_id: Floats
    nucleus: Texts  # preset; None for nearly all tasks
    currentpriority: Floats
    taskpriority: Floats
    iointensity: Floats  # kB/s
    frozentime_s: Floats
    t1weight: Floats  # TW
    input_prestaging: Bools  # IS
    full_chain: Ints  # FU: 1 only, 2 require, 3 capable
    parent_nucleus: Texts  # of the task's parent, None without one
    remaining_hs06s: Floats  # the task's own work, HS06 s
    fault: Texts  # why it cannot be brokered to any nucleus; empty if it can
    parent_full_chain: Ints = field(metadata={LATER: 0})  # FU of the parent
    # no parent can be followed: none is named, it does not exist, or it belongs to a chain without a nucleus
    parent_missing: Bools = field(metadata={LATER: False})

    def __len__(self) -> int:
        return len(self.jeditaskid)


@dataclass(frozen=True)
class OutputTable:
    """Output and log datasets of the tasks (length O), grouped by task."""

    task: Ints  # index into AssigningTable
    datasetid: Ints
    storagetoken: Texts

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True)
class PartTable:
    """Input data that count for the locality of a task (length P): datasets, or the constituents of a container.

    Grouped by task; the parts of one dataset are adjacent.
    """

    task: Ints  # index into AssigningTable
    datasetid: Ints
    catalogued: Bools  # the replica catalogue knows the dataset
    files: Floats  # all files of the part
    bytes: Floats
    asked: Bools = field(metadata={LATER: True})  # where Rucio feeds the catalogue, it has answered for the part

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True)
class PartReplicaTable:
    """Replicas of the parts (length R), by part, without virtual placements, where nothing is stored."""

    part: Ints  # index into PartTable
    rse: Texts
    is_tape: Bools
    files: Floats  # available there
    bytes: Floats
    complete: Bools  # has files, and as many as the part

    def __len__(self) -> int:
        return len(self.part)


@dataclass(frozen=True)
class RemainingTable:
    """Remaining work of tasks with a nucleus (length W), summed by nucleus and the other columns."""

    nucleus: Texts
    vo: Texts
    gshare: Texts
    workqueue_id: Floats
    currentpriority: Floats
    hs06s: Floats
    #: The same, with units of a thousandth not converted; empty if unknown.
    hs06s_as_stored: Floats = field(default_factory=lambda: np.empty(0))
    #: Of the tasks; empty if all have labels that are brokered.
    prodsourcelabel: Texts = field(default_factory=lambda: np.empty(0, dtype=np.object_))

    def __len__(self) -> int:
        return len(self.nucleus)


@dataclass(frozen=True)
class TaskWork:
    """All tasks of a cycle with their data, and the dropped rows with reasons.

    ``hint`` holds the first input files of each task as chunks for the job brokerage, which determines the queues that
    could run them.
    """

    tasks: AssigningTable
    outputs: OutputTable
    parts: PartTable
    replicas: PartReplicaTable
    remaining: RemainingTable
    hint: Work
    dropped_rows: tuple[DroppedRow, ...] = field(default=())


@dataclass(frozen=True)
class TaskFacts:
    """Facts of T tasks and N nuclei."""

    now_s: float
    initial: Bools  # (T, N) candidates before any rule
    backlog_files: Floats  # (1, N) files that wait to be transferred to the nucleus
    # -- storages for the output and log datasets of the task, at the nucleus or its secondary one
    has_storages: Bools  # (T, N) one exists for every dataset
    storages_send: Bools  # (T, N) all of them send over WAN
    storages_receive: Bools  # (T, N) all of them receive over WAN
    usable_gb: Floats  # (T, N) least free and expired space of any of them; inf where nothing is written
    expected_output_gb: Floats  # (T or 1, N) what the nucleus's work of the task's label will still write
    free_gb: Floats  # (T, N) of the storage with the smallest usable part; NaN where there is none
    expired_gb: Floats
    total_gb: Floats
    left_gb: Floats  # (T, N) least usable space minus whole GB of expected output; inf if none
    tightest_left_gb: Floats  # (T, N) the same for the storage with the smallest part left; NaN if none
    tightest_total_gb: Floats  # (T, N) its size
    # -- the job brokerage's answer about the first input files
    able_queues: Floats  # (T, N) queues of the nucleus that could run them
    queues: Floats  # (1, N) queues of the nucleus that were checked
    job_check_failed: Bools  # (T, 1) the check failed
    job_codes: Texts  # (T, N), or (1, 1) with None: how often each code rejected the queues of the nucleus
    # -- input data (pseudo, log and database release datasets do not count)
    examined: Bools  # (T, 1) some dataset counts
    total_bytes: Floats  # (T, 1)
    total_files: Floats
    disk_bytes: Floats  # (T, N) available on disk
    disk_files: Floats
    any_bytes: Floats  # (T, N) available on disk or tape
    any_files: Floats
    # -- full chains
    bound_to: Ints  # (T, 1) position of the parent's nucleus if the task must follow it, otherwise -1
    position: Ints  # (1, N) of the nucleus
    # -- as loaded, before this cycle placed anything
    share_work_hs06s: Floats  # (T, N) work of the task's share at its priority and above

    def block(self, tasks: Ints, nuclei: Ints) -> TaskFacts:
        """The facts of the tasks and nuclei at these positions; axes of length 1 stay."""
        changes: dict[str, Any] = {}
        for column in dataclasses.fields(self):
            value = getattr(self, column.name)
            if isinstance(value, np.ndarray):
                changes[column.name] = block_of(value, tasks, nuclei)
        return dataclasses.replace(self, **changes)
