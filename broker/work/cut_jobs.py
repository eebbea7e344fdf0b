"""Jobs cut out of a chunk, as columns, and the formulae of their attributes.

Attributes are cores, memory (MB), priority, resource type, processing type and the walltime (s) that the batch system
receives. :class:`CutJobs` has J jobs with their estimates at the queue for which they were cut.

Source: ATLAS production brokerage, job attributes, core count and memory; PanDA data model, jobs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from broker.domain.arrays import Floats, Ints

#: Priority of merge jobs, and the least priority of scout jobs.
MERGE_PRIORITY = 5_000
LEAST_SCOUT_PRIORITY = 901

#: Least memory of a merge job with a requirement of its own, in MB.
LEAST_MERGE_RAM_MB = 2_000

#: Part of the expected memory that is requested, so that jobs near a border do not need a high-memory queue.
RAM_COMPENSATION = 0.9

_PER_CORE_UNITS = frozenset({"MBPerCore", "MBPerCoreFixed"})


class ResourceBounds(Protocol):
    """A resource type: its name, and the bounds of cores and MB per core of its jobs."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def mincore(self) -> float: ...  # noqa: D102
    @property
    def maxcore(self) -> float: ...  # noqa: D102
    @property
    def minrampercore_mb(self) -> float: ...  # noqa: D102
    @property
    def maxrampercore_mb(self) -> float: ...  # noqa: D102


def _number(value: float | None) -> float:
    return float(value) if value is not None and math.isfinite(value) else 0.0


def core_count(merging: bool, in_pseudo_queue: bool, task_cores: float, merge_cores: float, queue_cores: float) -> int:
    """Cores of a job at a queue. NaN is NULL.

    A merge job has the task's merge cores, or one core at a pseudo-queue without them. A job of a one-core task has
    one; a queue without a core count gives one, and a queue with -1 as many as the task wants.
    """
    if merging and _number(merge_cores) > 0:
        return int(merge_cores)
    single = _number(task_cores) == 1 or math.isnan(task_cores)  # NULL is one core
    if (merging and in_pseudo_queue) or single or _number(queue_cores) == 0:
        return 1
    if queue_cores == -1:
        return max(int(_number(task_cores)), 1)
    return int(queue_cores)


def chunk_ram_mb(merging: bool, chunk_ramcount: float, task_ramcount: float, merge_ramcount: float) -> float:
    """Memory that the chunk requires, before cores and compensation; 0 without a requirement."""
    own = _number(chunk_ramcount)
    if merging:
        return max(_number(merge_ramcount), own, LEAST_MERGE_RAM_MB) if _number(merge_ramcount) > 0 else own
    return max(_number(task_ramcount), own)


def minimum_ram_mb(merging: bool, ram_mb: float, unit: str | None, base_mb: float, cores: float) -> int:
    """Memory of a job in MB. ``ram_mb`` is that of :func:`chunk_ram_mb`; 0 is no requirement.

    Per core: (ram x cores + base) x 0.9; for the whole job (ram + base) x 0.9; merge jobs have no base.
    """
    if ram_mb <= 0:
        return 0
    if merging:
        return int(ram_mb * RAM_COMPENSATION)
    factor = _number(cores) if unit in _PER_CORE_UNITS and _number(cores) > 0 else 1.0
    return int((ram_mb * factor + _number(base_mb)) * RAM_COMPENSATION)


def resource_type(kinds: Sequence[ResourceBounds], cores: float, ram_mb: float) -> str | None:
    """The first resource type for jobs with this many cores and total MB; None if there is none.

    All bounds are inclusive, NaN is an open bound; memory per core is rounded to whole MB. Source: PanDA production
    brokerage, job attributes.
    """
    own = max(cores, 1.0)
    per_core_mb = round(ram_mb / own)
    for kind in kinds:
        too_small = own < kind.mincore or per_core_mb < kind.minrampercore_mb
        if not (too_small or own > kind.maxcore or per_core_mb > kind.maxrampercore_mb):
            return kind.name
    return None


def job_priority(merging: bool, scout: bool, current_priority: float, task_priority: float) -> int:
    """Priority of a job: merge jobs 5000, scouts above 900 and above the task, others that of the task."""
    if merging:
        return MERGE_PRIORITY
    if scout:
        return max(LEAST_SCOUT_PRIORITY, int(_number(task_priority)) + 1)
    return int(_number(current_priority))


def max_walltime_s(estimate_s: float, queue_maxtime_s: float, merging: bool) -> int:
    """Walltime that a job announces, in seconds: its estimate, or the queue's maximum without one. 0 is no limit.

    The CPU time of the task does not apply to merge jobs: they announce the queue's maximum.
    """
    estimate, maxtime = _number(estimate_s), max(_number(queue_maxtime_s), 0.0)
    if merging or estimate <= 0:
        return int(maxtime)
    return math.ceil(estimate)


def processing_type(merging: bool, task_processing_type: str | None) -> str | None:
    """Processing type of a job: ``pmerge`` for merge jobs."""
    return "pmerge" if merging else task_processing_type


@dataclass(frozen=True)
class CutJobs:
    """Jobs (length J) and their estimates at the queue they were cut for.

    ``first`` and ``stop`` (exclusive) delimit the master files, ``extra`` holds the files of the secondaries, job ``j``
    those from ``extra_offsets[j]`` to ``extra_offsets[j + 1]``; all are positions in ``InputFiles.files``. The columns
    ``input_files`` and ``input_bytes`` count distinct files. ``walltime_s`` is NaN where unknown.
    """

    first: Ints
    stop: Ints
    events: Ints
    input_files: Ints
    input_bytes: Ints
    output_mb: Floats
    disk_mb: Ints
    walltime_s: Floats
    extra: Ints
    extra_offsets: Ints

    def __len__(self) -> int:
        return len(self.first)


_PER_JOB = [field.name for field in fields(CutJobs) if not field.name.startswith("extra")]


def no_jobs() -> CutJobs:
    """No jobs at all."""
    empty, none = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64)
    return CutJobs(empty, empty, empty, empty, empty, none, empty, none, empty, np.zeros(1, dtype=np.int64))


def joined_jobs(parts: list[CutJobs]) -> CutJobs:
    """Concatenate the jobs of all ``parts``."""
    if not parts:
        return no_jobs()
    lengths = np.concatenate([np.diff(part.extra_offsets) for part in parts])
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _PER_JOB}
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return CutJobs(**columns, extra=np.concatenate([part.extra for part in parts]), extra_offsets=offsets)
