"""What a task should request, computed from its finished jobs by the formulae of PanDA. Pure.

Source: panda-server, ``task_utils_module`` (getScoutJobData_JEDI). Unlike there, jobs are not drawn at random, see
:func:`sample`, so that the same jobs give the same values.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.quantiles import memory_request_mb, percentile

MOST_JOBS = 1000
DEFAULT_CORE_POWER = 10.0
_SHORT_S, _LONG_S = 3600.0, 6 * 3600.0
_MOST_WALLTIME_S = 999_999_999
_MOST_OUTPUT_KB = 10 * 1024
#: Fewest events per core with which a job counts for per-event values.
_LEAST_EVENTS = 10


@dataclass(frozen=True)
class ScoutSettings:
    """PanDA's keys: ranks and margin in percent, least memory in MB, most disk I/O in kB/s; None for no limit."""

    ramcount_rank: float = 75.0
    ramcount_margin_percent: int = 10
    ramcount_min_mb: int | None = None
    cputime_rank: float = 95.0
    disk_io_cap_kbps: float | None = None


@dataclass(frozen=True)
class TaskRequest:
    """The current request of a task.

    Attributes:
        ramunit, baseramcount_mb: request for memory.
        cputimeunit, cpuefficiency_percent, basewalltime_s: request for CPU time.
        walltime, outdiskunit, workdiskcount_mb: preset values, which act as lower bounds.
    """

    ramunit: str | None = None
    baseramcount_mb: int = 0
    cputimeunit: str | None = None
    cpuefficiency_percent: int | None = None
    basewalltime_s: int | None = None
    walltime: int | None = None
    outdiskunit: str | None = None
    workdiskcount_mb: int | None = None


@dataclass(frozen=True)
class EndedJobs:
    """Finished jobs of a task, as columns (n,); NaN where unknown.

    Attributes:
        pandaid: numbers of the jobs.
        cores: cores used.
        maxpss_kb, vmpeak_kb: memory used.
        wall_s, cpu_s: time from start to end, and CPU time.
        core_power: HS06 of the cores.
        input_mb, events: size of the primary input; a pseudo file is 1 MB and 1 event.
        output_bytes, workdir_mb, disk_io: written output, size of the work directory, and disk I/O in both directions.
        is_pseudo: whether the input has no files.
    """

    pandaid: Ints
    cores: Floats
    maxpss_kb: Floats
    vmpeak_kb: Floats
    wall_s: Floats
    cpu_s: Floats
    core_power: Floats
    input_mb: Floats
    events: Floats
    output_bytes: Floats
    workdir_mb: Floats
    disk_io: Floats
    is_pseudo: Bools

    def __len__(self) -> int:
        return len(self.pandaid)


def sample(pandaids: Sequence[int], most: int = MOST_JOBS) -> list[int]:
    """At most ``most`` of the jobs: those with the lowest hash of their number, always the same ones."""
    return sorted(sorted(pandaids, key=lambda pandaid: (zlib.crc32(str(pandaid).encode()), pandaid))[:most])


def scout_values(jobs: EndedJobs, task: TaskRequest, by: ScoutSettings) -> dict[str, int | str]:
    """The values that PanDA would write to columns of ``jedi_tasks``; columns without a figure are left out."""
    columns: dict[str, int | str] = {}
    if len(jobs) == 0:
        return columns
    columns |= _memory(jobs, task, by)
    columns |= _cpu_time(jobs, task, by)
    columns |= _walltime(jobs, task)
    columns |= _disk(jobs, task)
    columns |= _io(jobs, by)
    return columns


def job_memory_kb(jobs: EndedJobs, task: TaskRequest) -> Floats:
    """(n,) memory of jobs in the unit of the task, without the part independent of the cores; NaN where unknown."""
    measured = np.where(jobs.maxpss_kb > 0, jobs.maxpss_kb, np.nan)
    if task.ramunit == "MBPerCore":
        return np.asarray(np.ceil((measured - 1024.0 * task.baseramcount_mb) / jobs.cores))
    return np.where(np.isnan(measured), jobs.vmpeak_kb, measured)


def _memory(jobs: EndedJobs, task: TaskRequest, by: ScoutSettings) -> dict[str, int | str]:
    if task.ramunit == "MBPerCoreFixed":
        return {}
    values = job_memory_kb(jobs, task)
    values = values[~np.isnan(values)]
    if not len(values):
        return {}
    requested_mb = memory_request_mb(values, by.ramcount_rank, by.ramcount_margin_percent, by.ramcount_min_mb or 0)
    return {"ramcount": requested_mb, "ramunit": "MBPerCore" if task.ramunit == "MBPerCore" else "MB"}


def _cpu_time(jobs: EndedJobs, task: TaskRequest, by: ScoutSettings) -> dict[str, int | str]:
    if (task.cputimeunit or "").endswith("Fixed"):
        return {}
    efficiency = 100 if task.cpuefficiency_percent is None else task.cpuefficiency_percent
    beyond = np.maximum(jobs.wall_s - (task.basewalltime_s or 0), 0.0)
    used = beyond * jobs.core_power * jobs.cores * efficiency / 100.0
    used = np.where(jobs.events > 0, used / np.maximum(jobs.events, 1.0), used)
    counts = (jobs.events >= _LEAST_EVENTS * jobs.cores) | jobs.is_pseudo | (jobs.wall_s > _LONG_S)
    values = used[counts & ~np.isnan(used)]
    if not len(values):
        return {}
    requested = percentile(values, by.cputime_rank) * 1.5
    milli = requested < 10
    return {
        "cputime": math.ceil(requested * 1000 if milli else requested),
        "cputimeunit": "mHS06sPerEvent" if milli else "HS06sPerEvent",
    }


def _walltime(jobs: EndedJobs, task: TaskRequest) -> dict[str, int | str]:
    columns: dict[str, int | str] = {"walltimeunit": "kSI2kseconds"}
    longest = float(np.nanmax(jobs.cpu_s)) if (~np.isnan(jobs.cpu_s)).any() else math.nan
    if not math.isnan(longest):
        longest = 0.0 if longest < _SHORT_S else longest
        requested = math.ceil(longest / float(np.max(jobs.input_mb)) * 1.5)
        preset = task.walltime
        if preset is not None and (preset > requested or preset < 0):
            requested = preset
        columns["walltime"] = min(requested, _MOST_WALLTIME_S)
    return columns


def _disk(jobs: EndedJobs, task: TaskRequest) -> dict[str, int | str]:
    columns: dict[str, int | str] = {}
    unit = task.outdiskunit or ""
    per_event = unit.endswith("PerEvent")
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.ceil(jobs.output_bytes / (jobs.events if per_event else jobs.input_mb))
    values = size[(jobs.events >= _LEAST_EVENTS) & np.isfinite(size)]
    if len(values) and "Fixed" not in unit:
        columns["outdiskcount"] = int(min(percentile(values, 75.0) / 1024, _MOST_OUTPUT_KB))
        columns["outdiskunit"] = "kBPerEvent" if per_event else "kB"
    work = jobs.workdir_mb[~np.isnan(jobs.workdir_mb)]
    if len(work):
        columns["workdiskcount"] = max(int(np.max(work)), task.workdiskcount_mb or 0)
        columns["workdiskunit"] = "MB"
    return columns


def _io(jobs: EndedJobs, by: ScoutSettings) -> dict[str, int | str]:
    columns: dict[str, int | str] = {}
    wall = np.where(jobs.wall_s > 0, np.trunc(jobs.wall_s), np.nan)
    intensity = (jobs.input_mb * 1024.0 + jobs.output_bytes / 1024.0) / wall / jobs.cores
    if (~np.isnan(intensity)).any():
        columns |= {"iointensity": math.ceil(float(np.nanmax(intensity))), "iointensityunit": "kBPerS"}
    disk = jobs.disk_io / wall
    disk = disk[~np.isnan(disk)]
    if len(disk):
        mean = math.ceil(float(np.sum(disk)) // len(disk))
        capped = mean if by.disk_io_cap_kbps is None else min(mean, by.disk_io_cap_kbps)
        columns |= {"diskio": int(capped), "diskiounit": "kBPerS"}
    return columns
