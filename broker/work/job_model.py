"""How a job grows with its input, and whether it still fits the queue that was chosen for it.

Source: ATLAS Production Job Brokerage, disk usage and walltime of a job; per-job maxima. The figures are those of the
rules, so a job cut for a queue is one that the rules admitted there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import AnyArray, Floats, Ints
from broker.domain.estimates import (
    DEFAULT_COREPOWER_HS06,
    OUTPUT_FLOOR_BYTES,
    WORKDIR_FLOOR_BYTES,
    base_walltime_s,
    cputime_hs06s,
    disk_unit_bytes,
    event_service_divisor,
    is_event_service,
    is_hs06,
    is_per_event,
)
from broker.domain.work import WorkTable
from broker.work.input_files import MEGABYTE_BYTES
from broker.work.split_settings import SplitSettings

GIGABYTE_BYTES = 1024 * MEGABYTE_BYTES

#: Space kept free for the work directory of a merge job.
MERGE_WORKDIR_FLOOR_BYTES = 500.0 * MEGABYTE_BYTES

#: Size of the output of a merge job over that of its input.
MERGE_OUTPUT_RATIO = 1.2

#: Input and output of a job that reads its input directly and has no rule of its own, in MB: scouts, other jobs.
DIRECT_SCOUT_MB = 50_000
DIRECT_MB = 500_000

#: No file counts for more seconds than this (a thousand years), whatever the task claims.
MAX_WALLTIME_S = 3.2e10


@dataclass(frozen=True)
class JobModel:
    """Needs of the jobs of a chunk for each event and each MB of input; NaN where unknown.

    ``efficiency`` is a fraction, 0 when CPU time says nothing about walltime; ``multiplicity`` is the number of jobs or
    attempts over which the CPU time of an event is spread.
    """

    hs06s_per_event: float = math.nan
    walltime_s_per_mb: float = math.nan
    base_walltime_s: float = 0.0
    efficiency: float = 0.0
    multiplicity: float = 1.0
    out_bytes_per_event: float = 0.0
    out_bytes_per_mb: float = 0.0
    work_bytes: float = 0.0


@dataclass(frozen=True)
class CutLimits:
    """Limits of the chosen queue for a job; 0 is no limit, ``scratch_mb`` is its share of the work directory."""

    scratch_mb: float = 0.0
    maxtime_s: float = 0.0
    mintime_s: float = 0.0
    cores: float = 1.0
    corepower: float = DEFAULT_COREPOWER_HS06
    direct_io: bool = False


def job_model_columns(work: WorkTable) -> Floats:
    """(8, T) how the jobs of every chunk grow: the fields of :class:`JobModel`, in their order.

    The task's CPU time and output do not apply to merge jobs.
    """
    per_event = is_per_event(work.outdiskunit)
    out = np.maximum(np.nan_to_num(work.outdiskcount), 0.0) * disk_unit_bytes(work.outdiskunit)
    spread = np.where(
        is_event_service(work.eventservice) & ~work.job_cloning,
        event_service_divisor(work.es_consumers, work.es_attempts),
        1.0,
    )
    columns: Floats = np.array(
        (
            cputime_hs06s(work.cputime, work.cputimeunit),
            np.where(is_hs06(work.cputimeunit), np.nan, work.walltime),
            base_walltime_s(work.basewalltime),
            np.nan_to_num(work.cpuefficiency) / 100.0,
            spread,
            np.where(per_event, out, 0.0),
            np.where(per_event, 0.0, out),
            np.maximum(np.nan_to_num(work.workdiskcount), 0.0) * disk_unit_bytes(work.workdiskunit),
        ),
        dtype=np.float64,
    )
    merging = np.flatnonzero(work.merging)
    for at, default in enumerate(_OF_MERGING):
        if default is not None:
            columns[at, merging] = default
    return columns


#: Values of a merge job, by field, whatever the task says; None for the value of the task.
_OF_MERGING: tuple[float | None, ...] = tuple(
    None if name in ("base_walltime_s", "work_bytes") else float(value) for name, value in vars(JobModel()).items()
)


def job_models(work: WorkTable) -> tuple[JobModel, ...]:
    """How the jobs of every chunk grow."""
    return tuple(JobModel(*row) for row in job_model_columns(work).T.tolist())


def walltimes_s(model: JobModel, limits: CutLimits, events: Ints, effective_bytes: Ints) -> Ints | None:
    """(F,) whole seconds that each file adds to a job's walltime; ``None`` when unknown."""
    cores = limits.cores if limits.cores > 0 else 1.0
    if not math.isnan(model.hs06s_per_event):
        if model.efficiency <= 0:
            return np.zeros(len(events), dtype=np.int64)
        power = limits.corepower if limits.corepower > 0 else DEFAULT_COREPOWER_HS06
        per_event = model.hs06s_per_event / cores / power / model.efficiency / model.multiplicity
        return _whole_seconds(events * _bounded(per_event))
    if not math.isnan(model.walltime_s_per_mb):
        return _whole_seconds(effective_bytes / MEGABYTE_BYTES * _bounded(model.walltime_s_per_mb / cores))
    return None


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_WALLTIME_S)


def _whole_seconds(seconds: AnyArray) -> Ints:
    whole: Ints = np.floor(np.minimum(np.maximum(seconds, 0.0), MAX_WALLTIME_S)).astype(np.int64)
    return whole


class JobFit:
    """The limits of one queue for the jobs of one chunk: the needs of a job there, and whether it fits."""

    def __init__(self, settings: SplitSettings, model: JobModel, limits: CutLimits) -> None:
        """Compute the limits once."""
        self._merging = settings.merging
        self._model = model
        self.reads_directly = limits.direct_io and not settings.merging
        least = MERGE_WORKDIR_FLOOR_BYTES if settings.merging else WORKDIR_FLOOR_BYTES
        self._work = max(model.work_bytes, least)
        self._output_limit = settings.max_output_gb * GIGABYTE_BYTES
        self._size_limit = self._size_limit_bytes(settings, limits)
        scratch = math.ceil(limits.scratch_mb) * MEGABYTE_BYTES if limits.scratch_mb > 0 else math.inf
        self._scratch_limit = float(scratch)  # need in whole MB strictly below the limit
        walltimes = [value for value in (settings.max_walltime_s, limits.maxtime_s) if value > 0]
        self._walltime_limit = min(walltimes) if walltimes else math.inf
        self.least_walltime_s = limits.mintime_s if settings.dynamic and limits.mintime_s > 0 else 0.0

    def _size_limit_bytes(self, settings: SplitSettings, limits: CutLimits) -> float:
        if settings.gb_per_job is not None and not settings.merging:
            return settings.gb_per_job * GIGABYTE_BYTES + OUTPUT_FLOOR_BYTES + self._work
        if not self.reads_directly or settings.files_per_job is not None or settings.events_per_job is not None:
            return math.inf
        return max(limits.scratch_mb, DIRECT_SCOUT_MB if settings.scout else DIRECT_MB) * MEGABYTE_BYTES

    def output_bytes(self, events: float, effective_bytes: float, input_bytes: float) -> float:
        """Expected output of a job (scalars or arrays)."""
        if self._merging:
            return MERGE_OUTPUT_RATIO * input_bytes
        model = self._model
        return model.out_bytes_per_event * events + model.out_bytes_per_mb * (effective_bytes / MEGABYTE_BYTES)

    def fits(self, events: int, effective_bytes: int, input_bytes: int, walltime_s: float) -> bool:
        """Whether a job with this content keeps every limit; a ``walltime_s`` of NaN is not limited."""
        output = self.output_bytes(events, effective_bytes, input_bytes)
        space = max(output, OUTPUT_FLOOR_BYTES) + self._work
        scratch = space if self.reads_directly else space + input_bytes
        return (
            scratch < self._scratch_limit
            and space + input_bytes <= self._size_limit
            and output <= self._output_limit
            and not walltime_s > self._walltime_limit
        )

    def sizes_mb(
        self, events: Ints, effective_bytes: Ints, input_bytes: Ints, copied_bytes: Ints
    ) -> tuple[Floats, Ints]:
        """(J,) expected output of jobs in MB, and their scratch space in whole MB.

        ``copied_bytes`` is the input stored on scratch: all of it, or nothing where it is read directly.
        """
        output = self._output_array(events, effective_bytes, input_bytes)
        need = np.maximum(output, OUTPUT_FLOOR_BYTES) + self._work + copied_bytes
        return output / MEGABYTE_BYTES, np.floor(need / MEGABYTE_BYTES).astype(np.int64)

    def _output_array(self, events: Ints, effective_bytes: Ints, input_bytes: Ints) -> Floats:
        if self._merging:
            return np.asarray(MERGE_OUTPUT_RATIO * input_bytes, dtype=np.float64)
        model = self._model
        per_mb = model.out_bytes_per_mb * (effective_bytes / MEGABYTE_BYTES)
        return np.asarray(model.out_bytes_per_event * events + per_mb, dtype=np.float64)
