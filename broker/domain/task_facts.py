"""Facts about pairs of tasks and nuclei that the task brokerage judges by.

Facts are gathered once from the snapshot and the work, so that a rule is only its comparison. Shapes: (T, N) for task
against nucleus, (T, 1) for the task alone, (1, N) for the nucleus alone. NaN is "not known".
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Texts
from broker.domain.facts import block_of


@dataclass(frozen=True)
class TaskFacts:
    """Facts of T tasks and N nuclei."""

    now_s: float
    initial: Bools  # (T, N) candidates before any rule
    backlog_files: Floats  # (1, N) files that wait to be transferred to the nucleus
    # -- storages for the output and log datasets of the task, at the nucleus or its secondary one
    has_storages: Bools  # (T, N) there is one for every dataset
    storages_send: Bools  # (T, N) all of them send over WAN
    storages_receive: Bools  # (T, N) all of them receive over WAN
    usable_gb: Floats  # (T, N) free and expired space of the one that has least of it; inf where nothing is written
    expected_output_gb: Floats  # (T or 1, N) what the work of the task's label that the nucleus has will still write
    free_gb: Floats  # (T, N) of the storage with the smallest usable part; NaN where there is none
    expired_gb: Floats
    total_gb: Floats
    left_gb: Floats  # (T, N) usable space less whole GB of expected output, of the one with least of it; inf if none
    tightest_left_gb: Floats  # (T, N) the same of the storage of which the smallest part is left; NaN if none
    tightest_total_gb: Floats  # (T, N) its size
    # -- what the job brokerage says of the first input files
    able_queues: Floats  # (T, N) queues of the nucleus that could run them
    queues: Floats  # (1, N) queues of the nucleus that were asked
    job_check_failed: Bools  # (T, 1) it could not be asked
    job_codes: Texts  # (T, N), or (1, 1) with None: how often which code rejected the queues of the nucleus
    # -- input data (pseudo, log and database release datasets do not count)
    examined: Bools  # (T, 1) some dataset counts
    total_bytes: Floats  # (T, 1)
    total_files: Floats
    disk_bytes: Floats  # (T, N) available on disk
    disk_files: Floats
    any_bytes: Floats  # (T, N) available on disk or tape
    any_files: Floats
    # -- full chains
    bound_to: Ints  # (T, 1) position of the parent's nucleus where the task must follow it, else -1
    position: Ints  # (1, N) of the nucleus
    # -- as loaded, before this cycle placed anything
    share_work_hs06s: Floats  # (T, N) work of the task's share at its priority and above

    def block(self, tasks: Ints, nuclei: Ints) -> TaskFacts:
        """The facts of the tasks and nuclei at these positions; axes of length 1 stay."""
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                changes[field.name] = block_of(value, tasks, nuclei)
        return dataclasses.replace(self, **changes)
