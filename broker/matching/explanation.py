"""Explain why a queue is refused: the requirement, the queue's offer, and its best match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from broker.domain.decisions import Observation, Operator, Value
from broker.domain.queues import Hardware, HardwareEntry, QueueOffer
from broker.matching.need import Need
from broker.matching.outcomes import TITLES, Outcome
from broker.matching.patterns import why_unsupported
from broker.matching.requirement import WILDCARD, GpuRequest
from broker.matching.versions import Constraint, version_key

#: Most values of a list that are shown.
MAX_SHOWN = 8
#: Value of a queue that has what was excluded.
EXCLUDED_THERE = "there are some"
#: Outcomes whose value is what the queue has, and those whose value is what the task asks for. For the others the title
#: says everything.
_OF_THE_QUEUE = frozenset(
    {
        Outcome.NOT_OFFERED,
        Outcome.CPU,
        Outcome.GPU_VENDOR,
        Outcome.GPU_MODEL,
        Outcome.GPU_MICROARCHITECTURE,
        Outcome.GPU_VRAM,
        Outcome.GPU_CUDA,
        Outcome.GPU_DRIVER,
    }
)
_EXCLUDED = frozenset({Outcome.GPU_MODEL_EXCLUDED, Outcome.GPU_MICROARCHITECTURE})
_OF_THE_TASK = frozenset({Outcome.CONTAINER, Outcome.RELEASE, Outcome.PLATFORM, Outcome.PLATFORM_UNRESOLVED})


@dataclass(frozen=True)
class MatchObservation(Observation):
    """The deciding comparison: the queue fits where ``value operator limit`` holds.

    ``part`` is the code of the outcome; ``inputs`` holds ``best_available`` where a queue can be better or worse.
    """

    part: str = field(kw_only=True)

    @property
    def sentence(self) -> str:
        """One line for users."""
        outcome = Outcome[self.part.upper()]
        best = self.inputs.get("best_available")
        request = self.inputs.get("asked", self.limit)
        if outcome in _EXCLUDED and self.value == EXCLUDED_THERE:
            seen, best = f"excluded {request}, the queue has {best}", None
        elif outcome in _OF_THE_QUEUE:
            seen = f"asked {request}, the queue has {self.value}"
        elif outcome in _OF_THE_TASK:
            seen = f"asked {self.value}, which is not in {self.limit}"
        elif outcome == Outcome.PATTERN_UNSUPPORTED:
            seen = f"{self.value}: {self.inputs.get('why')}"
        elif outcome == Outcome.ARCHITECTURE_INVALID:
            seen = str(self.value)
        else:
            seen = ""
        there = f"best there {best}" if best is not None and best != self.value else ""
        return "; ".join(part for part in (TITLES[outcome], seen, there) if part)


def explain(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    """The comparison behind an outcome of :func:`broker.matching.match_queue.match_queue`."""
    return _EXPLAINERS.get(outcome, _of_releases)(need, offer, outcome)


def _listed(values: Iterable[str] | None) -> str:
    if values is None:
        return "nothing described"
    words = list(values)
    more = f" and {len(words) - MAX_SHOWN} more" if len(words) > MAX_SHOWN else ""
    return ", ".join(word or repr(word) for word in words[:MAX_SHOWN]) + more if words else "nothing"


def _of_releases(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    asks = need.requirement.asks_hardware or outcome == Outcome.HARDWARE_UNKNOWN
    limit = "AUTO" if asks else "AUTO, ANY"
    return MatchObservation(_listed(offer.releases), "in", limit, "-", "queue.releases", part=outcome.code)


def _of_tags(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    value = "no row" if offer.software is None else "unreadable"
    return MatchObservation(value, "==", "a readable row", "-", "queue.sw_tags", part=outcome.code)


def _of_task(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    value = "readable" if need.fault is None else str(need.fault)
    return MatchObservation(value, "==", "readable", "-", "task.architecture", part=outcome.code)


def _of_pattern(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    unsupported = unsupported_patterns(need)
    value, why = unsupported[0] if unsupported else (need.requirement.platform, None)
    limit = "patterns without look-around and back references"
    return MatchObservation(value, "in", limit, "-", "task.architecture", {"why": why}, part=outcome.code)


def unsupported_patterns(need: Need) -> list[tuple[str, str]]:
    """The patterns of a need that the engine does not support, each with the reason."""
    wanted = need.requirement
    written = [(cpu.arch, False) for cpu in wanted.cpus if cpu.arch != WILDCARD]
    if wanted.gpu is not None:
        written += [(pattern, True) for pattern in (wanted.gpu.vendor, wanted.gpu.model) if pattern != WILDCARD]
        if wanted.gpu.model_excluded:
            written.append((wanted.gpu.model, True))
    written.append((wanted.platform, False))
    reasons = ((pattern, why_unsupported(pattern, ignore_case=any_case)) for pattern, any_case in written)
    return [(pattern, why) for pattern, why in reasons if why is not None]


def _hardware_of(offer: QueueOffer) -> Hardware:
    return offer.software.hardware if offer.software is not None else Hardware()


def _cpus(need: Need) -> str:
    return _listed(f"{cpu.arch}-{cpu.vendor}-{cpu.instr}" for cpu in need.requirement.cpus)


def _of_cpu(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    entry = _hardware_of(offer).cpu or HardwareEntry()
    value = f"{_listed(entry.arch)} / {_listed(entry.vendor)} / {_listed(entry.instr)}"
    described: dict[str, Value] = {
        "arch": _listed(entry.arch),
        "vendor": _listed(entry.vendor),
        "instr": _listed(entry.instr),
        "implied": need.requirement.cpu_implied,
    }
    return MatchObservation(value, "in", _cpus(need), "-", "task.architecture", described, part=outcome.code)


def _of_reserve(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    kind = "CPU" if outcome == Outcome.RESERVED_CPU else "GPU"
    return MatchObservation(
        f"no {kind} request", "==", f"a {kind} request", "-", "queue.architectures", part=outcome.code
    )


def _of_missing(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    hardware = _hardware_of(offer)
    kinds = [name for name, entry in (("cpu", hardware.cpu), ("gpu", hardware.gpu)) if entry is not None]
    return MatchObservation(
        _listed(kinds), "in", "gpu" if kinds else "cpu, gpu", "-", "queue.architectures", part=outcome.code
    )


def _of_monitoring(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    rows = None if outcome == Outcome.GPU_SOURCE else len(offer.gpus)
    return MatchObservation(rows, ">=", 1, "rows", "queue.mv_worker_node_gpu_summary", part=outcome.code)


_SELECTED: dict[Outcome, tuple[str, str]] = {
    Outcome.GPU_VENDOR: ("vendor", "vendor"),
    Outcome.GPU_MODEL: ("model", "model"),
    Outcome.GPU_MODEL_EXCLUDED: ("model", "model"),
    Outcome.GPU_MICROARCHITECTURE: ("generation", "generations"),
}
_COMPARED: dict[Outcome, tuple[str, str]] = {
    Outcome.GPU_VRAM: ("vram", "MB"),
    Outcome.GPU_CUDA: ("cuda", "version"),
    Outcome.GPU_DRIVER: ("driver", "version"),
}


def _of_selection(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    attribute, request_field = _SELECTED[outcome]
    request = need.requirement.gpu or GpuRequest()
    selection = getattr(request, request_field)
    limit = _listed(selection) if isinstance(selection, tuple) else selection
    there = _listed(sorted({getattr(gpu, attribute) or "unknown" for gpu in offer.gpus}))
    inputs: dict[str, Value] = {"asked": limit, "best_available": there}
    excluded = attribute == "generation" and request.generations_excluded
    if excluded or outcome == Outcome.GPU_MODEL_EXCLUDED:
        key = "task.architecture"
        return MatchObservation(EXCLUDED_THERE, "==", "no GPU of those excluded", "-", key, inputs, part=outcome.code)
    return MatchObservation(there, "in", limit, "-", "task.architecture", inputs, part=outcome.code)


def _of_comparison(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    attribute, unit = _COMPARED[outcome]
    request = need.requirement.gpu or GpuRequest()
    constraint: Constraint = getattr(request, attribute) or Constraint("", "")
    values = [getattr(gpu, attribute) for gpu in offer.gpus]
    failing = [value for value in values if not constraint.fulfilled_by(value)]
    inputs: dict[str, Value] = {
        "asked": str(constraint),
        "best_available": _best(values, constraint.operator),
        "rows": len(values),
        "rows_failing": len(failing),
    }
    known = [value for value in failing if value and version_key(value) is not None]
    if constraint.usable and len(known) == len(failing) > 0:
        operator = cast(Operator, constraint.operator)
        return MatchObservation(
            known[0], operator, constraint.version, unit, "task.architecture", inputs, part=outcome.code
        )
    shown = next((value or "unknown" for value in failing if value not in known), "unknown")
    return MatchObservation(shown, "matches", str(constraint), unit, "task.architecture", inputs, part=outcome.code)


def _best(values: Sequence[str | None], operator: str) -> str | None:
    """The value that comes nearest to the constraint: the lowest where less is required, else the highest."""
    known = [value for value in values if value and version_key(value) is not None]
    choose: Callable[..., str] = min if operator in ("<", "<=") else max
    return choose(known, key=version_key) if known else None


def _of_container(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    prefixes = offer.software.containers if offer.software is not None else ()
    inputs: dict[str, Value] = {"only_tags": need.only_tags, "containers": _listed(prefixes)}
    place = "tags of the queue" if need.only_tags else "tags or containers of the queue"
    return MatchObservation(need.container_name, "in", place, "-", "queue.sw_tags", inputs, part=outcome.code)


def _of_release(need: Need, offer: QueueOffer, outcome: Outcome) -> MatchObservation:
    tags, release = offer.software, need.release
    published = {} if tags is None else {"cvmfs": sorted(tags.cvmfs), "containers": tags.containers}
    inputs: dict[str, Value] = {key: _listed(words) for key, words in published.items()}
    inputs["cmtconfigs"] = _listed(tags.cmtconfigs) if tags is not None else None
    inputs["base_platform"] = need.requirement.base_platform
    if outcome == Outcome.RELEASE and release is not None:
        value = release.cvmfs_tag if release.project is None else f"{release.project}-{release.version}"
        return MatchObservation(
            value, "in", "cvmfs or tags of the queue", "-", "queue.sw_tags", inputs, part=outcome.code
        )
    place = "cmtconfigs of the queue"
    return MatchObservation(need.requirement.platform, "in", place, "-", "queue.sw_tags", inputs, part=outcome.code)


_EXPLAINERS: dict[Outcome, Callable[[Need, QueueOffer, Outcome], MatchObservation]] = {
    Outcome.NOT_PUBLISHED: _of_tags,
    Outcome.UNREADABLE: _of_tags,
    Outcome.RESERVED_CPU: _of_reserve,
    Outcome.RESERVED_GPU: _of_reserve,
    Outcome.NO_HARDWARE: _of_missing,
    Outcome.GPU: _of_missing,
    Outcome.CPU: _of_cpu,
    Outcome.GPU_NO_MONITORING: _of_monitoring,
    Outcome.GPU_SOURCE: _of_monitoring,
    **dict.fromkeys(_SELECTED, _of_selection),
    **dict.fromkeys(_COMPARED, _of_comparison),
    Outcome.CONTAINER: _of_container,
    Outcome.RELEASE: _of_release,
    Outcome.PLATFORM: _of_release,
    Outcome.PLATFORM_UNRESOLVED: _of_release,
    Outcome.PATTERN_UNSUPPORTED: _of_pattern,
    Outcome.ARCHITECTURE_INVALID: _of_task,
}
