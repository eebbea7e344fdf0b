"""How a job grows with its input, and whether it still fits the queue that was chosen for it.

Source: ATLAS Production Job Brokerage, disk usage and walltime of a job; per-job maxima. The figures are those of the
rules, so that a job that is cut for a queue is a job that the rules admitted there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import AnyArray, Floats, Ints
from broker.domain.work import WorkTable
from broker.work.input_files import MEGABYTE_BYTES
from broker.work.split_settings import SplitSettings
from broker.work.tasks import CPU_TIME_UNITS

GIGABYTE_BYTES = 1024 * MEGABYTE_BYTES

#: Space kept free for the output of any job, and for its work directory: of a normal job and of a merge job.
MIN_OUTPUT_MB = 1500
MIN_WORK_MB = 300
MIN_MERGE_WORK_MB = 500

#: Size of the output of a merge job over that of its input.
MERGE_OUTPUT_RATIO = 1.2

#: Input and output of a job that reads its input directly and has no rule of its own, in MB: scouts, other jobs.
DIRECT_SCOUT_MB = 50_000
DIRECT_MB = 500_000

#: Core power of a queue that publishes none, in HS06 per core.
DEFAULT_CORE_POWER = 10.0

#: Times that the work of an event-service job is divided by without a rule: attempts and the first try.
DEFAULT_ES_ATTEMPTS = 3.0

#: No file counts for more seconds than this (a thousand years), whatever the task claims.
MAX_WALLTIME_S = 3.2e10


@dataclass(frozen=True)
class JobModel:
    """What the jobs of a chunk need for each event and each MB of input. NaN: not known.

    ``efficiency`` is a fraction, 0 when CPU time says nothing about walltime; ``multiplicity`` is over how many jobs or
    attempts the CPU time of an event is spread.
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
    """What the chosen queue allows a job. 0 is no limit; ``scratch_mb`` is the job's share of the work directory."""

    scratch_mb: float = 0.0
    maxtime_s: float = 0.0
    mintime_s: float = 0.0
    cores: float = 1.0
    corepower: float = DEFAULT_CORE_POWER
    direct_io: bool = False


def uses_direct_io(
    merging: bool, maxinputsize_mb: float, use_local_io: bool, allow_input_lan: int, direct_access_lan: bool
) -> bool:
    """Whether a job reads its input from the storage instead of copying it to the scratch disk."""
    if merging:
        return False
    if maxinputsize_mb == -1:
        return True
    return not use_local_io and allow_input_lan > 0 and direct_access_lan


def unit_bytes(unit: str | None) -> float:
    """Bytes of a disk unit (``GB``, ``MB`` or ``kB`` in front); 1 for any other unit."""
    for prefix, size in (("GB", GIGABYTE_BYTES), ("MB", MEGABYTE_BYTES), ("kB", 1024)):
        if (unit or "").startswith(prefix):
            return float(size)
    return 1.0


def job_model(work: WorkTable, chunk: int) -> JobModel:
    """How jobs of the chunk at position ``chunk`` grow."""
    out = _or_zero(work.outdiskcount[chunk]) * unit_bytes(work.outdiskunit[chunk])
    per_event = "PerEvent" in (work.outdiskunit[chunk] or "")
    work_bytes = _or_zero(work.workdiskcount[chunk]) * unit_bytes(work.workdiskunit[chunk])
    hs06s, per_mb = _cpu_per_event(work, chunk), math.nan
    if work.cputimeunit[chunk] not in CPU_TIME_UNITS:
        per_mb = float(work.walltime[chunk])
    if work.merging[chunk]:  # the figures of the task are for its normal jobs
        return JobModel(base_walltime_s=_or_zero(work.basewalltime[chunk]), work_bytes=work_bytes)
    return JobModel(
        hs06s_per_event=hs06s,
        walltime_s_per_mb=per_mb,
        base_walltime_s=_or_zero(work.basewalltime[chunk]),
        efficiency=_or_zero(work.cpuefficiency[chunk]) / 100.0,
        multiplicity=_multiplicity(work, chunk),
        out_bytes_per_event=out if per_event else 0.0,
        out_bytes_per_mb=0.0 if per_event else out,
        work_bytes=work_bytes,
    )


def _or_zero(value: float) -> float:
    return float(value) if math.isfinite(value) and value > 0 else 0.0


def _cpu_per_event(work: WorkTable, chunk: int) -> float:
    unit = work.cputimeunit[chunk]
    if unit not in CPU_TIME_UNITS:
        return math.nan
    return float(work.cputime[chunk]) / (1000.0 if unit.startswith("m") else 1.0)


def _multiplicity(work: WorkTable, chunk: int) -> float:
    if work.eventservice[chunk] not in (1.0, 2.0) or work.job_cloning[chunk]:
        return 1.0
    attempts = work.es_attempts[chunk]
    tries = attempts + 1.0 if attempts > 0 else DEFAULT_ES_ATTEMPTS
    return float(max(work.es_consumers[chunk], 1.0) * tries)


def walltimes_s(model: JobModel, limits: CutLimits, events: Ints, effective_bytes: Ints) -> Ints | None:
    """(F,) whole seconds that each file adds to a job's walltime; ``None`` when nothing is known about it."""
    cores = limits.cores if limits.cores > 0 else 1.0
    if not math.isnan(model.hs06s_per_event):
        if model.efficiency <= 0:
            return np.zeros(len(events), dtype=np.int64)
        power = limits.corepower if limits.corepower > 0 else DEFAULT_CORE_POWER
        per_event = model.hs06s_per_event / cores / power / model.efficiency / model.multiplicity
        return _whole_seconds(events * per_event)
    if not math.isnan(model.walltime_s_per_mb):
        return _whole_seconds(effective_bytes / MEGABYTE_BYTES * model.walltime_s_per_mb / cores)
    return None


def _whole_seconds(seconds: AnyArray) -> Ints:
    return np.asarray(np.floor(np.clip(seconds, 0.0, MAX_WALLTIME_S)), dtype=np.int64)


class JobFit:
    """The limits of one queue for the jobs of one chunk: what a job needs there, and whether it may have it."""

    def __init__(self, settings: SplitSettings, model: JobModel, limits: CutLimits) -> None:
        """Work out the limits once."""
        self._merging = settings.merging
        self._model = model
        self._direct = limits.direct_io and not settings.merging
        least = (MIN_MERGE_WORK_MB if settings.merging else MIN_WORK_MB) * MEGABYTE_BYTES
        self._work = max(model.work_bytes, float(least))
        self._output_limit = settings.max_output_gb * GIGABYTE_BYTES
        self._size_limit = self._size_limit_bytes(settings, limits)
        scratch = math.ceil(limits.scratch_mb) * MEGABYTE_BYTES if limits.scratch_mb > 0 else math.inf
        self._scratch_limit = float(scratch)  # need in whole MB strictly below the limit
        walltimes = [value for value in (settings.max_walltime_s, limits.maxtime_s) if value > 0]
        self._walltime_limit = min(walltimes) if walltimes else math.inf
        self.least_walltime_s = limits.mintime_s if settings.dynamic and limits.mintime_s > 0 else 0.0

    def _size_limit_bytes(self, settings: SplitSettings, limits: CutLimits) -> float:
        if settings.gb_per_job is not None and not settings.merging:
            return settings.gb_per_job * GIGABYTE_BYTES + MIN_OUTPUT_MB * MEGABYTE_BYTES + self._work
        if not self._direct or settings.files_per_job is not None or settings.events_per_job is not None:
            return math.inf
        return max(limits.scratch_mb, DIRECT_SCOUT_MB if settings.scout else DIRECT_MB) * MEGABYTE_BYTES

    def output_bytes(self, events: float, effective_bytes: float, input_bytes: float) -> float:
        """Expected output of a job (scalars or arrays)."""
        if self._merging:
            return MERGE_OUTPUT_RATIO * input_bytes
        model = self._model
        return model.out_bytes_per_event * events + model.out_bytes_per_mb * (effective_bytes / MEGABYTE_BYTES)

    def fits(self, events: int, effective_bytes: int, input_bytes: int, walltime_s: float) -> bool:
        """Whether a job of this content keeps every limit; ``walltime_s`` NaN is not limited."""
        output = self.output_bytes(events, effective_bytes, input_bytes)
        space = max(output, float(MIN_OUTPUT_MB * MEGABYTE_BYTES)) + self._work
        scratch = space if self._direct else space + input_bytes
        return (
            scratch < self._scratch_limit
            and space + input_bytes <= self._size_limit
            and output <= self._output_limit
            and not walltime_s > self._walltime_limit
        )

    def disk_mb(self, events: Ints, effective_bytes: Ints, input_bytes: Ints) -> Ints:
        """(J,) scratch space of jobs in whole MB."""
        output = self._output_array(events, effective_bytes, input_bytes)
        space = np.maximum(output, float(MIN_OUTPUT_MB * MEGABYTE_BYTES)) + self._work
        need = space if self._direct else space + input_bytes
        return np.floor(need / MEGABYTE_BYTES).astype(np.int64)

    def output_mb(self, events: Ints, effective_bytes: Ints, input_bytes: Ints) -> Floats:
        """(J,) expected output of jobs in MB."""
        return self._output_array(events, effective_bytes, input_bytes) / MEGABYTE_BYTES

    def _output_array(self, events: Ints, effective_bytes: Ints, input_bytes: Ints) -> Floats:
        if self._merging:
            return np.asarray(MERGE_OUTPUT_RATIO * input_bytes, dtype=np.float64)
        model = self._model
        per_mb = model.out_bytes_per_mb * (effective_bytes / MEGABYTE_BYTES)
        return np.asarray(model.out_bytes_per_event * events + per_mb, dtype=np.float64)
