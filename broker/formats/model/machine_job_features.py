"""Machine/Job Features: typed keys, what they mean for a job now, and whether work fits into the time left. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from broker.formats.model import feature_keys
from broker.formats.model.feature_keys import JOB, MACHINE, BadTextError, Contents, Directory, FeatureValue

CLOCK_SKEW_S = 300
MAX_TIME_AHEAD_S = 315_360_000
COREPOWER_PLAUSIBLE_HS06 = (2.0, 100.0)
MB = 1_048_576

State = Literal["run", "draining", "over"]
CorepowerSource = Literal["job", "machine", "queue"]


@dataclass(frozen=True)
class Features:
    """The 15 keys, ``None`` if not set or not usable, and each problem as ``key:code``, sorted.

    Times are seconds since 1970 UTC. Ratings are HS06: ``hs06`` of the whole machine, ``hs06_job`` of all processors
    of the job together.
    """

    total_cpu: int | None = None
    hs06: float | None = None
    shutdowntime: int | None = None
    grace_secs: int | None = None
    allocated_cpu: int | None = None
    hs06_job: float | None = None
    shutdowntime_job: int | None = None
    grace_secs_job: int | None = None
    jobstart_secs: int | None = None
    job_id: str | None = None
    wall_limit_secs: int | None = None
    cpu_limit_secs: int | None = None
    max_rss_bytes: int | None = None
    max_swap_bytes: int | None = None
    scratch_limit_bytes: int | None = None
    problems: tuple[str, ...] = ()

    def known(self, directory: Directory) -> dict[str, FeatureValue]:
        """The keys of one directory that have a value, by name."""
        values = ((key.name, getattr(self, key.name)) for key in feature_keys.keys_of(directory))
        return {name: value for name, value in values if value is not None}


@dataclass(frozen=True)
class QueueStats:
    """What is known centrally about the queue, used where the site says nothing: HS06 per core, cores of a job."""

    corepower: float | None = None
    corecount: int | None = None


@dataclass(frozen=True)
class Derived:
    """What the keys mean for the job at one instant; ``None`` is unknown.

    ``elapsed_s`` is how long the job has been running, ``wall_limit_s`` how long it may run in all; ``deadline`` is in
    UNIX seconds. ``guaranteed_s`` is how long a new package of work may take whatever the site announces from now on.
    MB are 2**20 bytes, rounded down.
    """

    cores: int | None
    corepower: float | None
    corepower_source: CorepowerSource | None
    elapsed_s: int | None
    wall_limit_s: int | None
    deadline: int | None
    remaining_s: int | None
    guaranteed_s: int | None
    state: State
    maxrss_mb: int | None
    maxwdir_mb: int | None
    maxswap_mb: int | None
    job_id: str | None
    problems: tuple[str, ...]


def parse(machine: Contents, job: Contents, problems: tuple[str, ...] = ()) -> Features:
    """The typed keys of the two directories; what cannot be used is left unset and named in ``problems``.

    Args:
        machine: contents of ``$MACHINEFEATURES`` by file name.
        job: contents of ``$JOBFEATURES`` by file name.
        problems: what is already known to be wrong, such as a directory that could not be read.
    """
    values: dict[str, FeatureValue] = {}
    flaws = list(problems)
    for directory, contents in ((MACHINE, machine), (JOB, job)):
        for key in feature_keys.keys_of(directory):
            if key.name in contents:
                try:
                    values[key.name] = key.parse(feature_keys.text_of(contents[key.name]))
                except BadTextError as bad:
                    flaws.append(f"{key.name}:{bad.code}")
    for name, value in _legacy(machine, job, flaws):
        values.setdefault(name, value)
    cores, total = values.get("allocated_cpu"), values.get("total_cpu")
    if isinstance(cores, int) and isinstance(total, int) and cores > total:
        flaws.append("allocated_cpu:above-total_cpu")
    return dataclasses.replace(Features(problems=tuple(sorted(flaws))), **values)  # type: ignore[arg-type]


def _legacy(machine: Contents, job: Contents, flaws: list[str]) -> Iterator[tuple[str, int]]:
    """The values under names from before 2016, by today's names: 1 MB was 10**6 bytes, 1 GB 10**9."""
    old = {}
    for directory, contents in ((MACHINE, machine), (JOB, job)):
        for name in feature_keys.LEGACY_NAMES[directory]:
            if name in contents:
                try:
                    old[name] = feature_keys.count(feature_keys.text_of(contents[name]))
                except BadTextError as bad:
                    flaws.append(f"{name}:{bad.code}")
    cores = [old[name] for name in ("log_cores", "phys_cores") if name in old]
    slots = [*([max(cores)] if cores else []), *([old["jobslots"]] if "jobslots" in old else [])]
    if slots:
        yield "total_cpu", min(slots)
    for name, today, factor in (
        ("allocated_CPU", "allocated_cpu", 1),
        ("mem_limit_MB", "max_rss_bytes", 10**6),
        ("disk_limit_GB", "scratch_limit_bytes", 10**9),
    ):
        if name in old:
            yield today, old[name] * factor


def derive(features: Features, now: int, queue: QueueStats | None = None, process_start: int | None = None) -> Derived:
    """What the keys mean at ``now``.

    Args:
        features: the keys.
        now: UNIX seconds.
        queue: figures of the queue, for what the site does not say.
        process_start: when the reader itself started, for a site that does not say when the job started.
    """
    known_of_queue = queue or QueueStats()
    flaws: list[str] = []
    start = _start(features, now, process_start, flaws)
    wall_limit_s = _wall_limit_s(features, known_of_queue.corecount)
    shutdowns = [
        time
        for name in ("shutdowntime", "shutdowntime_job")
        if (time := _shutdown(features, name, start, now, flaws)) is not None
    ]
    ends = list(shutdowns)
    if start is not None and wall_limit_s is not None:
        ends.append(start + wall_limit_s)
    deadline = min(ends, default=None)
    remaining_s = None if deadline is None else max(0, deadline - now)
    graces = [grace for grace in (features.grace_secs, features.grace_secs_job) if grace is not None]
    corepower, source = _corepower(features, known_of_queue.corepower, flaws)
    return Derived(
        cores=features.allocated_cpu,
        corepower=corepower,
        corepower_source=source,
        elapsed_s=None if start is None else max(0, now - start),
        wall_limit_s=wall_limit_s,
        deadline=deadline,
        remaining_s=remaining_s,
        guaranteed_s=min([*graces, *([] if remaining_s is None else [remaining_s])], default=None),
        state="over" if deadline is not None and deadline <= now else "draining" if shutdowns else "run",
        maxrss_mb=_mb(features.max_rss_bytes),
        maxwdir_mb=_mb(features.scratch_limit_bytes),
        maxswap_mb=_mb(features.max_swap_bytes),
        job_id=features.job_id,
        problems=tuple(sorted({*features.problems, *flaws})),
    )


def _start(features: Features, now: int, process_start: int | None, flaws: list[str]) -> int | None:
    start = features.jobstart_secs
    if start is not None and start > now + CLOCK_SKEW_S:
        flaws.append("jobstart_secs:in-future")
        start = None
    return process_start if start is None else min(start, now)


def _wall_limit_s(features: Features, cores_of_queue: int | None) -> int | None:
    """The tighter of the elapsed time limit and the CPU time limit, which all processors of the job share."""
    limits = [] if features.wall_limit_secs is None else [features.wall_limit_secs]
    cores = features.allocated_cpu or cores_of_queue
    if features.cpu_limit_secs is not None and cores:
        limits.append(features.cpu_limit_secs // cores)
    return min(limits, default=None)


def _shutdown(features: Features, name: str, start: int | None, now: int, flaws: list[str]) -> int | None:
    time: int | None = getattr(features, name)
    if time is None:
        return None
    if start is not None and time < start:
        flaws.append(f"{name}:before-start")
        return None
    if time > now + MAX_TIME_AHEAD_S:
        flaws.append(f"{name}:implausible")
        return None
    return time


def _corepower(
    features: Features, of_queue: float | None, flaws: list[str]
) -> tuple[float | None, CorepowerSource | None]:
    """HS06 per core, from the first source with a plausible figure."""
    offers: tuple[tuple[CorepowerSource, str, float | None, int | None], ...] = (
        ("job", "hs06_job", features.hs06_job, features.allocated_cpu),
        ("machine", "hs06", features.hs06, features.total_cpu),
        ("queue", "corepower", of_queue, 1),
    )
    low, high = COREPOWER_PLAUSIBLE_HS06
    for source, key, rating, cores in offers:
        if rating is None or not cores:
            continue
        corepower = rating / cores
        if low <= corepower <= high:
            return round(corepower, 4), source
        flaws.append(f"{key}:implausible")
    return None, None


def _mb(size_bytes: int | None) -> int | None:
    return None if size_bytes is None else size_bytes // MB


def announced(features: Features, now: int) -> int | None:
    """The earliest announced shutdown that is valid at ``now`` (UNIX s), ``None`` without one."""
    flaws: list[str] = []
    start = _start(features, now, None, flaws)
    times = (_shutdown(features, name, start, now, flaws) for name in ("shutdowntime", "shutdowntime_job"))
    return min((time for time in times if time is not None), default=None)


@dataclass(frozen=True)
class PackageOfWork:
    """Work in HS06 s, the slot that will do it, and the part that does not scale (``base_walltime_s``)."""

    hs06sec: float
    cores: int
    corepower_hs06: float
    cpu_efficiency_percent: float
    base_walltime_s: int = 0

    @property
    def expected_walltime_s(self) -> int:
        """The seconds that it takes, rounded up; exact, so that a package of just the right size fits."""
        rate = self.cores * Fraction(str(self.corepower_hs06)) * Fraction(str(self.cpu_efficiency_percent)) / 100
        return math.ceil(self.base_walltime_s + Fraction(str(self.hs06sec)) / rate)


def fits(work: PackageOfWork, left_s: int | None) -> bool | None:
    """Whether the work ends within ``left_s``; ``None`` if that is unknown: the limit of the queue then decides."""
    return None if left_s is None else work.expected_walltime_s <= left_s


@dataclass(frozen=True)
class Fit:
    """How long work takes in a slot, and whether it ends in the guaranteed time; None if unknown."""

    expected_walltime_s: int | None
    fits: bool | None


def fit_of(slot: Derived, hs06sec: float, cpu_efficiency_percent: float, base_walltime_s: int) -> Fit:
    """Whether work ends in the guaranteed time of a slot, with cores and core power from the site or the queue."""
    if not slot.cores or not slot.corepower:
        return Fit(None, None)
    work = PackageOfWork(hs06sec, slot.cores, slot.corepower, cpu_efficiency_percent, base_walltime_s)
    return Fit(work.expected_walltime_s, fits(work, slot.guaranteed_s))
