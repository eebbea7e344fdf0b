"""Software and hardware as PanDA 1.0.4 reads and compares them, where that differs from the specification.

A CPU that only the platform implies is a request; alternatives are cut at every ``|``; a platform is a pattern if it
does not match itself, and is resolved after it was compared; a base platform needs containers; tags are not consulted
where CVMFS has the release; ``uarch!=`` asks as ``uarch=``; the empty string in a list of hardware stands for nothing.
Source: PanDA software and hardware matching, where the two differ.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import Ints
from broker.domain.queues import ANY, AUTO, ContainerSources, HardwareEntry, QueueOffer, QueueSoftware, tag_key
from broker.matching.architecture import read
from broker.matching.availability import takes_containers
from broker.matching.hardware import match_gpu
from broker.matching.match_queue import SoftwareMatcher
from broker.matching.need import Need, Release
from broker.matching.outcomes import Outcome
from broker.matching.patterns import PatternUnsupportedError, compiled
from broker.matching.platforms import resolved_by_cpu
from broker.matching.requirement import WILDCARD, GpuRequest

_ANY, _EXCLUSIVE = "any", "excl"
#: Architecture (None where a JSON request leaves it out), vendor, instruction set.
CpuSpec = tuple[str | None, str, str]


@dataclass(frozen=True)
class PandaNeed:
    """The needs of a task as PanDA reads them.

    Attributes:
        need: as the specification reads it; for explanations.
        cpus: alternatives in the order in which they were written, None for no request.
        gpu: the request, None for none.
        containers_for_base: whether a base platform needs a queue that takes containers, as in production.
        cvmfs_only: whether tags do not count, as for nightlies of analysis.
        unchecked: whether nothing is checked, as for production tasks without a release.
    """

    need: Need
    cpus: tuple[CpuSpec, ...] | None
    gpu: GpuRequest | None
    containers_for_base: bool = True
    cvmfs_only: bool = False
    unchecked: bool = False


def panda_need(
    need: Need,
    architecture: str | None,
    *,
    containers_for_base: bool = True,
    cvmfs_only: bool = False,
    unchecked: bool = False,
) -> PandaNeed:
    """The need of a task by its architecture."""
    gpu = read(architecture).requirement.gpu
    if gpu is not None:
        gpu = dataclasses.replace(gpu, generations_excluded=False)
    return PandaNeed(need, _cpus(architecture), gpu, containers_for_base, cvmfs_only, unchecked)


def _cpus(architecture: str | None) -> tuple[CpuSpec, ...] | None:
    if not architecture:
        return None
    body = _object(architecture)
    if body is not None:
        specs = body.get("cpu_specs")
        if not isinstance(specs, list) or not specs:
            return None
        return tuple(_spec(spec) for spec in specs if isinstance(spec, dict))
    if "#" not in architecture:
        arch = "" if architecture[0] in "^@&" else architecture.split("-")[0]
        return ((arch, WILDCARD, WILDCARD),) if arch else None
    match = re.search(r"#([^\^@&]*)", architecture)
    text = match[1] if match else ""
    text = text.removeprefix("(").removesuffix(")") if text else ""
    if not text:
        return None
    return tuple(_alternative(part) for part in text.split("|"))


def _object(text: str) -> dict[str, Any] | None:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _spec(spec: dict[str, Any]) -> CpuSpec:
    arch = spec.get("arch")
    words = [str(spec.get(key, WILDCARD)) for key in ("vendor", "instr")]
    return (arch if isinstance(arch, str) else None, words[0], words[1])


def _alternative(text: str) -> CpuSpec:
    arch, vendor, instr = (*text.split("-"), WILDCARD, WILDCARD)[:3]
    return arch, vendor, instr


class PandaJudge(SoftwareMatcher):
    """Judges needs as PanDA does; equal needs at equal offers once."""

    def panda_outcomes(self, need: PandaNeed) -> Ints:
        """(U,): the outcome at each queue."""
        known: dict[Any, Outcome] = {}
        result = np.zeros(len(self.offers), dtype=np.int64)
        for index, offer in enumerate(self.offers):
            key = (offer.releases, offer.software, offer.gpus)
            if key not in known:
                known[key] = judge_as_panda(need, offer, self.sources)
            result[index] = known[key]
        return result


def judge_as_panda(need: PandaNeed, offer: QueueOffer, sources: ContainerSources) -> Outcome:
    """How a queue meets a need."""
    if need.unchecked:
        return Outcome.FITS
    what = need.need
    if offer.releases == ANY:
        if need.cpus is not None or need.gpu is not None:
            return Outcome.HARDWARE_UNKNOWN
        tagged = need.containers_for_base and what.container_name and what.only_tags
        return Outcome.CONTAINER if tagged else Outcome.FITS
    if offer.releases != AUTO:
        return Outcome.NOT_OFFERED
    if offer.software is None:
        return Outcome.NOT_PUBLISHED
    if not offer.software.readable:
        return Outcome.UNREADABLE
    outcome = _hardware(need, offer)
    if outcome == Outcome.FITS:
        outcome = _software(need, offer.software, sources)
    platform = what.requirement.platform
    if outcome == Outcome.FITS and platform and _is_pattern(platform) and _resolved(platform, offer.software) is None:
        return Outcome.PLATFORM_UNRESOLVED
    return outcome


def _hardware(need: PandaNeed, offer: QueueOffer) -> Outcome:
    hardware = offer.software.hardware if offer.software is not None else None
    cpu, gpu = (None, None) if hardware is None else (hardware.cpu, hardware.gpu)
    if cpu is not None and cpu.exclusive and need.cpus is None:
        return Outcome.RESERVED_CPU
    if gpu is not None and gpu.exclusive and need.gpu is None:
        return Outcome.RESERVED_GPU
    if not need.cpus and need.gpu is None:
        return Outcome.FITS
    if cpu is None and gpu is None:
        return Outcome.NO_HARDWARE
    if need.cpus and (cpu is None or not _some_cpu(need.cpus, cpu)):
        return Outcome.CPU
    if need.gpu is None:
        return Outcome.FITS
    return Outcome.GPU if gpu is None else match_gpu(need.gpu, offer.gpus)


def _some_cpu(specs: Sequence[CpuSpec], entry: HardwareEntry) -> bool:
    """Whether an alternative fits; one that cannot be compared refuses the queue before later ones are tried."""
    for arch, vendor, instr in specs:
        if arch is None or entry.arch is None:
            return False
        try:
            if _arch(arch, entry.arch) and _word(vendor, entry.vendor) and _word(instr, entry.instr):
                return True
        except PatternUnsupportedError:
            return False
    return False


def _arch(request: str, offered: tuple[str, ...]) -> bool:
    if request == WILDCARD:
        return _EXCLUSIVE not in offered
    if _ANY in offered or request in offered:
        return True
    pattern = compiled(f"^{request}$")
    return any(pattern.occurs_in(word) for word in offered)


def _word(request: str, offered: tuple[str, ...] | None) -> bool:
    if request == WILDCARD:
        return offered is None or _EXCLUSIVE not in offered
    return offered is not None and (_ANY in offered or request in offered)


def _software(need: PandaNeed, software: QueueSoftware, sources: ContainerSources) -> Outcome:
    what = need.need
    if what.container_name:
        return _container(what.container_name, what.only_tags, software, sources)
    if what.release is None:
        return Outcome.FITS
    return _release(need, what.release, software)


def _container(name: str, only_tags: bool, software: QueueSoftware, sources: ContainerSources) -> Outcome:
    if (not only_tags and takes_containers(software)) or name in software.container_names:
        return Outcome.FITS
    if only_tags:
        return Outcome.CONTAINER
    paths = (name, *sources.by_name.get(name, ()))
    fits = any(path.startswith(prefix) for prefix in software.containers for path in paths)
    return Outcome.FITS if fits else Outcome.CONTAINER


def _release(need: PandaNeed, release: Release, software: QueueSoftware) -> Outcome:
    if not release.readable:
        return Outcome.RELEASE
    requirement = need.need.requirement
    based = need.containers_for_base and requirement.base_platform is not None
    if _ANY in software.cvmfs or release.cvmfs_tag in software.cvmfs:
        there = takes_containers(software) or (not based and requirement.platform in software.cmtconfigs)
        return Outcome.FITS if there else Outcome.PLATFORM
    if need.cvmfs_only or (based and _ANY not in software.containers):
        return Outcome.RELEASE
    if release.project is None or release.version is None:
        return Outcome.RELEASE
    tagged = tag_key(requirement.platform, release.project, release.version) in software.tags
    return Outcome.FITS if tagged else Outcome.RELEASE


def _is_pattern(platform: str) -> bool:
    try:
        return not compiled(platform).starts(platform)
    except PatternUnsupportedError:
        return True


def _resolved(platform: str, software: QueueSoftware) -> str | None:
    if platform in software.cmtconfigs:
        return None
    try:
        pattern = compiled(f"^{platform}$")
    except PatternUnsupportedError:
        return None
    candidate = next((name for name in software.cmtconfigs if pattern.occurs_in(name)), None)
    return candidate or resolved_by_cpu(platform, software)
