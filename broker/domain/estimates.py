"""Expected needs of a job (memory, scratch disk, walltime), and the capacity that a queue offers it.

The rules compare these figures with the limits of queues, and jobs are cut by the same figures. All functions work
elementwise on arrays that broadcast against each other; NULL is NaN. MB and GB are binary (2**20 and 2**30 bytes). The
level of CPU architecture that a task prefers is read here too.

Source: ATLAS Production Job Brokerage, memory, disk usage and walltime of a job; PanDA production brokerage,
architecture preference (JSON format of the task's architecture, key ``cpu_pref``).
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from broker.domain.arrays import Bools, Floats, Texts, distinct
from broker.json_depth import is_too_deep

MB = 1024.0 * 1024.0
MEMORY_COMPENSATION = 0.9
MERGE_MEMORY_FLOOR_MB = 2000.0
OUTPUT_FLOOR_BYTES = 1500 * MB
WORKDIR_FLOOR_BYTES = 300 * MB
DEFAULT_BASE_WALLTIME_S = 600.0
DEFAULT_COREPOWER_HS06 = 10.0
DEFAULT_ES_ATTEMPTS = 3.0
LAN_INPUT_ONLY = 2

_PER_CORE_UNITS = frozenset({"MBPerCore", "MBPerCoreFixed"})
_DISK_UNITS_BYTES = (("GB", 1024.0 * MB), ("MB", MB), ("kB", 1024.0))
_HS06_UNITS = {"HS06sPerEvent": 1.0, "HS06sPerEventFixed": 1.0, "mHS06sPerEvent": 1e-3, "mHS06sPerEventFixed": 1e-3}


def or_else(values: Floats, default: float) -> Floats:
    """The values, with ``default`` in place of NULL and 0."""
    return np.where(is_set(values), values, default)


def is_set(values: Floats) -> Bools:
    """Whether each value is neither NULL nor 0."""
    return np.asarray((values == values) & (values != 0))


def or_zero(values: Floats) -> Floats:
    """The values, with 0 in place of NULL."""
    return np.where(values == values, values, 0.0)


def requested_ram_mb(merging: Bools, chunk_ram_mb: Floats, task_ram_mb: Floats, merge_ram_mb: Floats) -> Floats:
    """Requested memory: the larger of the task's and the chunk's, at least 2000 MB when merging; 0 for none."""
    chunk = or_zero(chunk_ram_mb)
    normal = np.maximum(or_zero(task_ram_mb), chunk)
    merge = np.maximum(np.maximum(or_zero(merge_ram_mb), chunk), MERGE_MEMORY_FLOOR_MB)
    return np.where(merging, np.where(is_set(merge_ram_mb), merge, chunk), normal)


def is_per_core(ramunit: Texts) -> Bools:
    """Whether the unit of memory is per core."""
    return _looked_up(ramunit, lambda unit: unit in _PER_CORE_UNITS).astype(np.bool_)


def memory_mb(ram_mb: Floats, base_mb: Floats, per_core: Bools, merging: Bools, cores: Floats) -> Floats:
    """Expected memory of a job in MB, not rounded.

    Args:
        ram_mb: see :func:`requested_ram_mb`.
        base_mb: part that does not grow with the cores; NULL is 0; not used when merging.
        per_core: see :func:`is_per_core`; never for merging.
        merging: whether files are merged.
        cores: cores of the queue; NULL and 0 count as one.
    """
    base = np.where(merging, 0.0, or_zero(base_mb))
    scaled = per_core & ~merging
    needed: Floats = np.where(scaled, ram_mb, 0.0) * or_else(cores, 1.0) + (np.where(scaled, 0.0, ram_mb) + base)
    needed *= MEMORY_COMPENSATION
    return needed


def disk_unit_bytes(unit: Texts) -> Floats:
    """Bytes in one disk unit: GB, MB or kB by the beginning of its name, otherwise bytes."""
    return _looked_up(
        unit, lambda name: next((size for start, size in _DISK_UNITS_BYTES if (name or "").startswith(start)), 1.0)
    )


def is_per_event(unit: Texts) -> Bools:
    """Whether an output size is per event; otherwise it is per MB of input."""
    return _looked_up(unit, lambda name: "PerEvent" in (name or "")).astype(np.bool_)


def output_bytes(outdiskcount: Floats, outdiskunit: Texts, events: Floats, input_mb: Floats) -> Floats:
    """Expected output of a job in bytes, at least 1500 MB; a NULL or negative count is 0."""
    count = np.maximum(or_zero(outdiskcount), 0.0) * disk_unit_bytes(outdiskunit)
    return np.maximum(count * np.where(is_per_event(outdiskunit), events, input_mb), OUTPUT_FLOOR_BYTES)


def workdir_bytes(workdiskcount: Floats, workdiskunit: Texts) -> Floats:
    """Expected work space of a job in bytes, at least 300 MB."""
    return np.maximum(or_zero(workdiskcount) * disk_unit_bytes(workdiskunit), WORKDIR_FLOOR_BYTES)


def whole_mb(size_bytes: Floats) -> Floats:
    """Whole MB in a number of bytes."""
    return np.asarray(np.floor(size_bytes / MB))


def reads_directly(
    merging: Bools, use_local_io: Bools, allow_input_lan: Bools, direct_access_lan: Bools, maxinputsize_mb: Floats
) -> Bools:
    """Whether the job reads its input from storage without a copy: never when merging, always with input size -1."""
    over_lan = (~use_local_io & allow_input_lan) & direct_access_lan
    return np.asarray(~merging & ((maxinputsize_mb == -1) | over_lan))


def takes_one_core_of_scratch(corecount: Floats, eventservice: Floats) -> Bools:
    """Whether a job gets the scratch of one core only: tasks of 0, 1 or NULL cores without event service."""
    one_preassigned = np.isnan(corecount) | (corecount == 0) | (corecount == 1)
    return np.asarray(one_preassigned & ~is_event_service(eventservice))


def is_event_service(eventservice: Floats) -> Bools:
    """Whether it is event service, with (2) or without (1) job cloning."""
    return np.asarray((eventservice == 1) | (eventservice == 2))


def scratch_limit_mb(maxwdir_mb: Floats, unified_cores: Floats, one_core: Bools) -> Floats:
    """Scratch disk for a job in MB: ``maxwdir x job cores / queue cores``; infinite where maxwdir is 0 or NULL."""
    limit = np.where(is_set(maxwdir_mb), maxwdir_mb, np.inf)
    return np.where(one_core, limit / or_else(unified_cores, 1.0), limit)


def cputime_hs06s(cputime: Floats, cputimeunit: Texts) -> Floats:
    """CPU time of an event in HS06 s; NaN where the unit is not HS06-based, in which case the walltime is used."""
    return np.asarray(cputime * _looked_up(cputimeunit, lambda unit: _HS06_UNITS.get(unit or "", np.nan)))


def is_hs06(cputimeunit: Texts) -> Bools:
    """Whether CPU time is given in a unit of HS06 s per event."""
    return _looked_up(cputimeunit, lambda unit: unit in _HS06_UNITS).astype(np.bool_)


def event_service_divisor(es_consumers: Floats, es_attempts: Floats) -> Floats:
    """Number of parts of an event service job: consumers x (attempts + 1), with 3 attempts in all if unset."""
    attempts = np.where(is_set(es_attempts), or_zero(es_attempts) + 1.0, DEFAULT_ES_ATTEMPTS)
    return np.asarray(or_else(es_consumers, 1.0) * attempts)


def base_walltime_s(basewalltime: Floats) -> Floats:
    """The part of a walltime that does not grow with the events; 600 s for NULL."""
    return np.where(np.isnan(basewalltime), DEFAULT_BASE_WALLTIME_S, basewalltime)


def cpu_demand_hs06s(cpu_hs06s: Floats, events: Floats, cpuefficiency_percent: Floats) -> Floats:
    """HS06 s to be offered to a job; 0 if the efficiency is 0 or NULL, since then only the base time counts."""
    scaled = cpu_hs06s * events / (or_else(cpuefficiency_percent, 100.0) / 100.0)
    return np.where(is_set(cpuefficiency_percent), scaled, np.where(np.isnan(cpu_hs06s), np.nan, 0.0))


def cpu_rate_hs06(cores: Floats, corepower_hs06: Floats) -> Floats:
    """HS06 of a slot: cores (0 and NULL count as 1) x power of a core (10 if 0 or NULL)."""
    return np.asarray(or_else(cores, 1.0) * or_else(corepower_hs06, DEFAULT_COREPOWER_HS06))


def time_limit_s(limit_s: Floats, without: float) -> Floats:
    """A walltime limit of a queue in seconds; ``without`` if it is 0 or NULL, which mean no limit."""
    return or_else(limit_s, without)


def _looked_up(names: Texts, value_of: Callable[[str | None], float]) -> Floats:
    known, codes = distinct(names)
    table = np.array([value_of(name) for name in known], dtype=np.float64)
    return np.asarray(table[codes].reshape(names.shape))


#: A longer architecture string is ignored.
MAX_CHARACTERS = 20_000


def preferred_cpu_level(architecture: str | None) -> str | None:
    """The preferred level, such as ``x86-64-v3``; None without one, or if the architecture is not a JSON object."""
    if architecture is None or not architecture.lstrip().startswith("{") or len(architecture) > MAX_CHARACTERS:
        return None
    if is_too_deep(architecture):
        return None
    try:
        document = json.loads(architecture)
    except (ValueError, RecursionError):
        return None  # the software and hardware rule reports the fault
    preference = document.get("cpu_pref") if isinstance(document, dict) else None
    level = preference.get("preferred_architecture_level") if isinstance(preference, dict) else None
    return level if isinstance(level, str) and level else None
