"""A task's requirements on software platform and hardware, in one form for all notations.

Source: ATLAS Production Job Brokerage, checks for CPU and/or GPU hardware; PanDA software and hardware matching.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from broker.matching.versions import Constraint

#: Any value.
WILDCARD = "*"
#: GPU constraints on versions: attribute of the request, key in JSON, key in the shorthand.
VERSION_KEYS = (("vram", "vram", "vram"), ("cuda", "version", "cuda"), ("driver", "driver_version", "driver"))


@dataclass(frozen=True, order=True)
class CpuAlternative:
    """One acceptable kind of CPU. ``arch`` is a pattern for the whole text, the others are literal."""

    arch: str = WILDCARD
    vendor: str = WILDCARD
    instr: str = WILDCARD


@dataclass(frozen=True)
class GpuRequest:
    """Requested GPU attributes, each on its own. A request without any is still a request.

    Attributes:
        vendor: pattern from the first character, any case; ``*`` for any.
        model: pattern as ``vendor``; with ``model_excluded`` no GPU of the queue may match it.
        generations: microarchitectures, one of which is required, or none of which may be there; None for any.
        generations_excluded: whether the second of the two holds.
        vram: constraint on the memory in MB.
        cuda: constraint on the CUDA version of the driver.
        driver: constraint on the kernel driver.
    """

    vendor: str = WILDCARD
    model: str = WILDCARD
    model_excluded: bool = False
    generations: tuple[str, ...] | None = None
    generations_excluded: bool = False
    vram: Constraint | None = None
    cuda: Constraint | None = None
    driver: Constraint | None = None

    @property
    def specific(self) -> bool:
        """Whether any attribute is asked for, so that the GPUs of the queue must be known."""
        attributes = (self.generations, self.vram, self.cuda, self.driver)
        named = (self.vendor, self.model) != (WILDCARD, WILDCARD)
        return named or self.model_excluded or any(value is not None for value in attributes)


@dataclass(frozen=True)
class Requirement:
    """A task's requirement in canonical form: equal meaning, equal requirement.

    Attributes:
        platform: the software platform, which may be a pattern; empty for none.
        base_platform: platform of the container, with its image after ``+``; None for none.
        cpus: alternatives, sorted; empty for no request.
        cpu_implied: the CPU is only the first part of the platform, not a request.
        gpu: the request, None for none.
        preferred_cpu_level: a preference that excludes no queue, such as ``x86-64-v3``.
    """

    platform: str = ""
    base_platform: str | None = None
    cpus: tuple[CpuAlternative, ...] = ()
    cpu_implied: bool = False
    gpu: GpuRequest | None = None
    preferred_cpu_level: str | None = None

    @property
    def asks_hardware(self) -> bool:
        """Whether the task requests a CPU or a GPU."""
        return self.gpu is not None or (bool(self.cpus) and not self.cpu_implied)

    @property
    def job_platform(self) -> str:
        """The platform for a job, with the base platform after ``@`` if there is one."""
        return with_base(self.platform, self.base_platform)


def with_base(platform: str, base_platform: str | None) -> str:
    """``platform@base_platform``, or the platform alone without one."""
    return platform if base_platform is None else f"{platform}@{base_platform}"


def document(requirement: Requirement) -> dict[str, Any]:
    """The canonical form as a JSON object; unrequested parts are omitted."""
    body: dict[str, Any] = {}
    if requirement.platform:
        body["sw_platform"] = requirement.platform
    if requirement.base_platform is not None:
        body["base_platform"] = requirement.base_platform
    if requirement.cpus:
        body["cpu_specs"] = [{"arch": cpu.arch, "vendor": cpu.vendor, "instr": cpu.instr} for cpu in requirement.cpus]
    if requirement.cpu_implied:
        body["cpu_implied"] = True
    if requirement.gpu is not None:
        body["gpu_spec"] = _gpu_document(requirement.gpu)
    if requirement.preferred_cpu_level is not None:
        body["cpu_pref"] = {"preferred_architecture_level": requirement.preferred_cpu_level}
    return body


def _gpu_document(gpu: GpuRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"vendor": gpu.vendor}
    if gpu.model_excluded:
        body["model"] = {"pattern": gpu.model, "excl": True}
    elif gpu.model != WILDCARD:
        body["model"] = gpu.model
    if gpu.generations is not None:
        names = list(gpu.generations)
        body["microarchitecture"] = {"names": names, "excl": True} if gpu.generations_excluded else names
    for attribute, key, _ in VERSION_KEYS:
        constraint: Constraint | None = getattr(gpu, attribute)
        if constraint is not None:
            body[key] = str(constraint)
    return body


def canonical(requirement: Requirement) -> str:
    """The canonical form as text; it is a JSON architecture and reads as the same requirement."""
    return json.dumps(document(requirement), sort_keys=True)


@dataclass(frozen=True)
class Problem:
    """One problem of a requirement.

    Attributes:
        position: character of the text, from 1.
        what: what is wrong there.
        accepted: the forms that are accepted instead.
        fatal: the meaning cannot be known, so that nothing matches; otherwise the part has no effect, or a known one.
        is_text: whether the text looks like JSON but is none, so that it is read as an old string.
    """

    position: int
    what: str
    accepted: str
    fatal: bool = False
    is_text: bool = False

    def __str__(self) -> str:
        return f"character {self.position}: {self.what}; accepted: {self.accepted}"


class RequirementError(ValueError):
    """A requirement with problems; the text is that of the first of them."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(str(problems[0]))
        self.problems = problems
