"""Whether a node meets a spec, what the job gets of the node, and otherwise what is missing.

The checks are in the order of the code of v0.1. That profile ends at the first that fails; the others report all.
Sources: DiracX, comparison of job and node metadata, v0.1 (code) and v0.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

from broker.matching.architecture import read as read_architecture
from broker.matching.outcomes import Outcome
from broker.matching.specs.hardware_names import profile_covers, profile_of_name
from broker.matching.specs.node import Node
from broker.matching.specs.panda_hardware import match_at_node
from broker.matching.specs.spec import OWN, JobSpecs, Profile, Spec
from broker.matching.versions import version_key

Kind = Literal["below", "above", "differs", "banned", "unknown", "false"]
#: Tag of sites that let jobs without need of a GPU run on nodes with GPUs.
OPPORTUNISTIC = "gpu:opportunistic-cpu-ok"


@dataclass(frozen=True)
class Miss:
    """A condition that does not hold.

    Attributes:
        field: field of the job, with the hyphens of v0.1.
        kind: the node has less, more, something else, is banned, does not report it, or the expression is false.
        request: what the job asks for.
        offered: what the node has; None: not reported.
    """

    field: str
    kind: Kind
    request: Any
    offered: Any


@dataclass(frozen=True)
class Allotment:
    """The resources of a node that a job gets; null: the node does not report the resource.

    Attributes:
        cores: number of the free cores.
        ram_mb: memory that it requests with this many cores.
        ram_limit_mb: memory at which it is stopped.
        gpus: number of the free GPUs.
        scratch_mb: scratch space that it requests.
    """

    cores: int | None
    ram_mb: int | None = None
    ram_limit_mb: int | None = None
    gpus: int = 0
    scratch_mb: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The verdict on a job and a node.

    Attributes:
        spec: place of the first spec that fits, in the order in which they were written; None: none does.
        allotment: what the job gets.
        missed: for each spec what it misses; empty where one fits.
    """

    spec: int | None
    allotment: Allotment | None = None
    missed: tuple[tuple[Miss, ...], ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the job may run at the node."""
        return self.spec is not None


def judge(job: JobSpecs, node: Node, profile: Profile = OWN) -> Verdict:
    """Whether any spec of a job fits a node."""
    missed = []
    for place, spec in enumerate(job.specs):
        lacks = misses(spec, node, profile)
        if not lacks:
            return Verdict(place, allotment(spec, node, profile))
        missed.append(lacks)
    return Verdict(None, None, tuple(missed))


def misses(spec: Spec, node: Node, profile: Profile = OWN) -> tuple[Miss, ...]:
    """What a node lacks for a spec; in v0.1 only the first."""
    lacks = (miss for miss in _checks(spec, node, profile) if miss is not None)
    return tuple(islice(lacks, 1)) if profile.v01 else tuple(lacks)


def cores_of(spec: Spec, node: Node, profile: Profile = OWN) -> int | None:
    """The cores that a job gets: all that it can use and that its memory allows; None: the node does not report any.

    v0.1 gives what the node has, up to the most that the job can use, and checks the memory for the least.
    """
    if node.cores is None:
        return None
    cores = node.cores if spec.cores.most is None else min(node.cores, spec.cores.most)
    memory = spec.ram_request
    if profile.v01 or memory is None or node.ram_mb is None:
        return cores
    left = node.ram_mb - memory.overhead_mb
    if left < 0:
        return 0
    return min(cores, left // memory.per_core_mb) if memory.per_core_mb else cores


def allotment(spec: Spec, node: Node, profile: Profile = OWN) -> Allotment:
    """What a job gets of a node that fits."""
    cores = cores_of(spec, node, profile)
    size = spec.cores.least if cores is None else cores
    return Allotment(
        cores,
        None if spec.ram_request is None else spec.ram_request.of(size),
        None if spec.ram_limit is None else spec.ram_limit.of(size),
        _gpus_of(spec, node, profile),
        spec.scratch_mb,
    )


def _gpus_of(spec: Spec, node: Node, profile: Profile) -> int:
    need, free = spec.gpu, node.gpus or 0
    if need is None:
        return free if spec.gpus_by_panda else 0
    if need.count.least == 0 and need.vendor is None:
        return 0  # it only agrees to run next to GPUs
    if profile.v01 or need.count.most is None:
        return free
    return min(free, need.count.most)


def _checks(spec: Spec, node: Node, profile: Profile) -> Iterator[Miss | None]:
    yield from _place(spec, node, profile)
    yield _least("wall-time", spec.wall_time_s, node.wall_time_s)
    yield _work(spec, node, profile)
    yield _cores(spec, node)
    yield from _memory(spec, node, profile)
    yield from _cpu(spec, node)
    yield from _gpu(spec, node, profile)
    if not (profile.skips_missing and node.scratch_mb is None):
        yield _least("io.scratch-mb", spec.scratch_mb, node.scratch_mb)
    if spec.tags is not None and not spec.tags.holds(node.tags):
        yield Miss("tags", "false", str(spec.tags), sorted(spec.tags.atoms & node.tags))
    if spec.panda_architecture is not None:
        outcome = match_at_node(read_architecture(spec.panda_architecture), node)
        if outcome != Outcome.FITS:
            yield Miss("panda-architecture", "differs", spec.panda_architecture, outcome.code)


def _place(spec: Spec, node: Node, profile: Profile) -> Iterator[Miss | None]:
    if spec.sites and node.site not in spec.sites:
        yield Miss("site", "differs", list(spec.sites), node.site)
    if node.site in spec.banned_sites:
        yield Miss("banned-sites", "banned", list(spec.banned_sites), node.site)
    if spec.system is not None and spec.system != node.system:
        yield Miss("system.name", "unknown" if node.system is None else "differs", spec.system, node.system)
    yield _version("system.glibc", spec.glibc, node.glibc)
    if spec.user_namespaces and not node.user_namespaces:
        kind: Kind = "unknown" if node.user_namespaces is None else "differs"
        yield Miss("system.user-namespaces", kind, True, node.user_namespaces)


def _cores(spec: Spec, node: Node) -> Miss | None:
    """Any node has one core, even if it does not report its cores; a node without free cores reports 0."""
    if node.cores is None and spec.cores.least <= 1:
        return None
    return _least("cpu.num-cores.min", spec.cores.least or None, node.cores)


def _work(spec: Spec, node: Node, profile: Profile) -> Miss | None:
    """DB12 seconds over all cores that the job gets, or the total that the node reports."""
    if spec.cpu_work_db12 is None:
        return None
    offered: float | None = node.cpu_work_db12
    if not profile.v01 and node.cpu_power_db12 is not None and node.wall_time_s is not None:
        cores = cores_of(spec, node, profile)
        offered = None if cores is None else node.wall_time_s * node.cpu_power_db12 * cores
    return _least("cpu-work", spec.cpu_work_db12, offered)


def _memory(spec: Spec, node: Node, profile: Profile) -> Iterator[Miss | None]:
    least = spec.cores.least
    if spec.ram_request is None or (profile.skips_missing and node.ram_mb is None):
        return
    yield _least("cpu.ram-mb.request", spec.ram_request.of(least) or None, node.ram_mb)
    if profile.v01 and spec.ram_limit is not None:
        yield _least("cpu.ram-mb.limit", spec.ram_limit.of(least), node.ram_mb)


def _cpu(spec: Spec, node: Node) -> Iterator[Miss | None]:
    if spec.architecture is not None and spec.architecture != node.architecture:
        kind: Kind = "unknown" if node.architecture is None else "differs"
        yield Miss("cpu.architecture.name", kind, spec.architecture, node.architecture)
    level = "cpu.architecture.microarchitecture-level"
    yield _least(f"{level}.min", spec.level_least, node.level)
    if spec.level_most is not None and (node.level is None or node.level > spec.level_most):
        yield Miss(f"{level}.max", "unknown" if node.level is None else "above", spec.level_most, node.level)
    if spec.arm_profile is not None and not _covers(node.arm_profile, spec.arm_profile):
        kind = "unknown" if node.arm_profile is None else "below"
        yield Miss("cpu.architecture.profile", kind, spec.arm_profile, node.arm_profile)
    lacked = sorted(set(spec.features) - (node.features or frozenset()))
    if lacked:
        kind = "unknown" if node.features is None else "differs"
        yield Miss("cpu.architecture.required-features", kind, list(spec.features), {"lacks": lacked})


@lru_cache(maxsize=1024)
def _covers(offered: str | None, request: str) -> bool:
    mine, wanted = profile_of_name(offered or ""), profile_of_name(request)
    return mine is not None and wanted is not None and profile_covers(mine, wanted)


def _gpu(spec: Spec, node: Node, profile: Profile) -> Iterator[Miss | None]:
    need = spec.gpu
    if need is None:
        if node.gpus and not (profile.v01 or spec.gpus_by_panda):
            yield Miss("gpu", "above", 0, node.gpus)
        return
    yield _least("gpu.count.min", need.count.least or None, node.gpus)
    if profile.v01 and need.count.most is not None and (node.gpus or 0) > need.count.most:
        yield Miss("gpu.count.max", "above", need.count.most, node.gpus)
    if not node.gpus:
        return
    if not profile.v01 and need.count.least == 0 and OPPORTUNISTIC not in node.tags:
        yield Miss("gpu", "above", 0, node.gpus)
    yield _least("gpu.ram-mb", need.ram_mb, node.gpu_ram_mb)
    if need.vendor is not None and need.vendor != node.gpu_vendor:
        yield Miss("gpu.vendor", "unknown" if node.gpu_vendor is None else "differs", need.vendor, node.gpu_vendor)
    yield _version("gpu.compute-capability.min", need.capability_least, node.capability)
    yield _version_most("gpu.compute-capability.max", need.capability_most, node.capability)
    yield _version("gpu.driver-version", need.driver, node.driver)
    # the table of nodes of v0.2 has no version of the runtime, though jobs may ask for one
    if not (profile.skips_missing and node.runtime is None):
        yield _version("gpu.min-runtime-version", need.runtime, node.runtime)


def _least(field: str, request: float | None, offered: float | None) -> Miss | None:
    if request is None or (offered is not None and offered >= request):
        return None
    return Miss(field, "unknown" if offered is None else "below", request, offered)


def _version(field: str, request: str | None, offered: str | None) -> Miss | None:
    return _compared(field, request, offered, "below", lambda mine, wanted: mine >= wanted)


def _version_most(field: str, request: str | None, offered: str | None) -> Miss | None:
    return _compared(field, request, offered, "above", lambda mine, wanted: mine <= wanted)


def _compared(
    field: str, request: str | None, offered: str | None, kind: Kind, holds: Callable[[Any, Any], bool]
) -> Miss | None:
    if request is None:
        return None
    mine = None if offered is None else version_key(offered)
    if mine is not None and holds(mine, version_key(request)):
        return None
    return Miss(field, "unknown" if mine is None else kind, request, offered)
