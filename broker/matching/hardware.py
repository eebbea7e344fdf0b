"""Checking the hardware that a task asks for against the hardware of a queue.

CPUs are compared with what the queue describes. GPUs are checked in two stages: the description says whether there are
any, and the reports of pilots say what they are. Vendor, model and microarchitecture must be found on one GPU, memory
and versions on every one, so that a job fits wherever it lands. Source: ATLAS Production Job Brokerage, checks for CPU
and/or GPU hardware; PanDA software and hardware matching, mixed-node queues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.domain.queues import EXCLUSIVE, GpuSummary, Hardware, HardwareEntry
from broker.matching.outcomes import Outcome
from broker.matching.patterns import PatternUnsupportedError, compiled
from broker.matching.requirement import WILDCARD, CpuAlternative, GpuRequest, Requirement

#: Words in a list of a queue that stand for every value.
ANY_WORDS = ("any", "")
EVERY_ROW = (("vram", Outcome.GPU_VRAM), ("cuda", Outcome.GPU_CUDA), ("driver", Outcome.GPU_DRIVER))


def match_hardware(requirement: Requirement, hardware: Hardware, gpus: Sequence[GpuSummary]) -> Outcome:
    """How the hardware of a queue with a description meets a requirement."""
    cpu, gpu = hardware.cpu, hardware.gpu
    if cpu is not None and cpu.exclusive and not requirement.cpus:
        return Outcome.RESERVED_CPU
    if gpu is not None and gpu.exclusive and requirement.gpu is None:
        return Outcome.RESERVED_GPU
    if not requirement.cpus and requirement.gpu is None:
        return Outcome.FITS
    if cpu is None and gpu is None:
        return Outcome.NO_HARDWARE
    outcome = match_cpu(requirement.cpus, cpu) if requirement.cpus else Outcome.FITS
    if outcome == Outcome.FITS and requirement.gpu is not None:
        outcome = match_gpu(requirement.gpu, gpus) if gpu is not None else Outcome.GPU
    return outcome


def match_cpu(alternatives: Sequence[CpuAlternative], entry: HardwareEntry | None) -> Outcome:
    """Whether one alternative fits in all its attributes together."""
    if entry is None:
        return Outcome.CPU
    unsupported = False
    for cpu in alternatives:
        if not (_literal(cpu.vendor, entry.vendor) and _literal(cpu.instr, entry.instr)):
            continue
        try:
            if _architecture(cpu.arch, entry.arch):
                return Outcome.FITS
        except PatternUnsupportedError:
            unsupported = True
    return Outcome.PATTERN_UNSUPPORTED if unsupported else Outcome.CPU


def _literal(request: str, offered: tuple[str, ...] | None) -> bool:
    if request == WILDCARD:
        return offered is None or EXCLUSIVE not in offered
    return offered is not None and (any(word in offered for word in ANY_WORDS) or _listed(request, offered))


def _listed(request: str, offered: tuple[str, ...]) -> bool:
    return request != EXCLUSIVE and request in offered


def _architecture(request: str, offered: tuple[str, ...] | None) -> bool:
    if _literal(request, offered):
        return True
    if request == WILDCARD or offered is None:
        return False
    pattern = compiled(request)
    return any(pattern.covers(word) for word in offered if word != EXCLUSIVE)


def match_gpu(request: GpuRequest, gpus: Sequence[GpuSummary]) -> Outcome:
    """How the GPUs that pilots have reported meet a request, at a queue that has GPUs."""
    if not request.specific:
        return Outcome.FITS
    if not gpus:
        return Outcome.GPU_NO_MONITORING
    try:
        if request.vendor != WILDCARD and not _some(request.vendor, [gpu.vendor for gpu in gpus]):
            return Outcome.GPU_VENDOR
        models = [gpu.model for gpu in gpus]
        if request.model_excluded:
            if _some(request.model, models):
                return Outcome.GPU_MODEL_EXCLUDED
        elif request.model != WILDCARD and not _some(request.model, models):
            return Outcome.GPU_MODEL
    except PatternUnsupportedError:
        return Outcome.PATTERN_UNSUPPORTED
    if request.generations is not None:
        is_present = any(gpu.generation in request.generations for gpu in gpus)
        if is_present == request.generations_excluded:
            return Outcome.GPU_MICROARCHITECTURE
    for attribute, outcome in EVERY_ROW:
        constraint = getattr(request, attribute)
        if constraint is not None and not all(constraint.fulfilled_by(getattr(gpu, attribute)) for gpu in gpus):
            return outcome
    return Outcome.FITS


def _some(pattern: str, values: Sequence[str | None]) -> bool:
    matches: Callable[[str], bool] = compiled(pattern, ignore_case=True).starts
    return any(value is not None and matches(value) for value in values)
