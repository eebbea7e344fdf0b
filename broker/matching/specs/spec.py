"""What a job asks of a node, the text and hash that identify equal needs, and the profiles of ``matchspec/1``.

A profile says which fields a job may have, and which rules differ. ``v0.1`` reproduces the code of DiracX's prototype,
for checks, except that an expression may begin with ``~``, arm64 and aarch64 are one, and a version that YAML reads as
another is refused. ``own`` is for jobs and pilots here: a node that states nothing gets only jobs that ask for nothing.
Memory is in MB.

Source: DiracX, schema of matching specifications, v0.1 (code) and v0.2.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from broker.json_depth import is_too_deep
from broker.matching.architecture import read as read_architecture
from broker.matching.specs.tags import Tags, parse_tags

FORMAT, PREFIX, HEX_DIGITS = "matchspec/1", "ms1-", 32
MOST_SPECS = 1024
_LARGEST_CANONICAL = 2**21
_CANONICAL_DEPTH = 6


@dataclass(frozen=True, order=True)
class Bounds:
    """A lower and an upper bound, both included; ``most`` None: no upper end."""

    least: int
    most: int | None = None


@dataclass(frozen=True, order=True)
class Memory:
    """Memory in MB: a part that does not depend on the cores, and one for each core."""

    overhead_mb: int = 0
    per_core_mb: int = 0

    def of(self, cores: int) -> int:
        """MB for a number of cores."""
        return self.overhead_mb + self.per_core_mb * cores


@dataclass(frozen=True)
class GpuNeed:
    """The GPUs that a job asks for.

    Attributes:
        count: number of GPUs.
        ram_mb: least memory of each.
        vendor: exact vendor; None: any.
        capability_least: least compute capability, a version (``sm_89`` is 8.9).
        capability_most: most compute capability.
        driver: least version of the driver.
        runtime: least version of the runtime (CUDA, ROCm, oneAPI).
    """

    count: Bounds
    ram_mb: int | None = None
    vendor: str | None = None
    capability_least: str | None = None
    capability_most: str | None = None
    driver: str | None = None
    runtime: str | None = None


@dataclass(frozen=True)
class Spec:
    """One set of conditions that all hold; a job with several fits where any of them does.

    Attributes:
        sites: sites, one of which is required, sorted; none: any.
        banned_sites: sites that are excluded, sorted.
        system: name of the operating system; None: any.
        glibc: least version.
        user_namespaces: whether the node must allow them.
        wall_time_s: least wall-clock seconds.
        cpu_work_db12: DB12 seconds, over all cores.
        cores: cores that it can use.
        ram_request: memory that the node must have.
        ram_limit: memory at which the payload is stopped; only v0.1 matches it.
        architecture: architecture of the CPU, as ``uname -m`` reports it; None: any.
        level_least: least microarchitecture level.
        level_most: most microarchitecture level.
        arm_profile: least profile of an aarch64 CPU, such as ``armv9.0-a``.
        features: flags that the CPU must have, sorted.
        gpu: None: v0.1 asks for nothing; elsewhere no node with GPUs, unless ``panda_architecture`` asks for one.
        scratch_mb: least scratch space.
        tags: expression over the tags of the node.
        panda_architecture: platform and hardware as a PanDA task writes them.
    """

    sites: tuple[str, ...] = ()
    banned_sites: tuple[str, ...] = ()
    system: str | None = None
    glibc: str | None = None
    user_namespaces: bool = False
    wall_time_s: int | None = None
    cpu_work_db12: int | None = None
    cores: Bounds = Bounds(1, 1)
    ram_request: Memory | None = None
    ram_limit: Memory | None = None
    architecture: str | None = None
    level_least: int | None = None
    level_most: int | None = None
    arm_profile: str | None = None
    features: tuple[str, ...] = ()
    gpu: GpuNeed | None = None
    scratch_mb: int | None = None
    tags: Tags | None = None
    panda_architecture: str | None = None

    def document(self) -> dict[str, Any]:
        """The spec as a JSON document, without what it does not ask for."""
        values = {name: _plain(value) for name, value in vars(self).items() if name != "tags"}
        values["tags"] = None if self.tags is None else str(self.tags)
        return {name: value for name, value in values.items() if value not in (None, False, [], {})}

    @cached_property
    def gpus_by_panda(self) -> bool:
        """Whether a GPU is asked for by the architecture of the PanDA task alone."""
        if self.gpu is not None or self.panda_architecture is None:
            return False
        return read_architecture(self.panda_architecture).requirement.gpu is not None

    @cached_property
    def canonical(self) -> str:
        """The text of the spec; equal texts ask for the same."""
        return json.dumps(self.document(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class JobSpecs:
    """What a job asks for.

    Attributes:
        specs: specs, at least one, in the order in which they were written.
        vo: virtual organisation, lower case; empty: not stated.
    """

    specs: tuple[Spec, ...]
    vo: str = ""

    @cached_property
    def canonical(self) -> str:
        """The text that defines what is asked for: the specs sorted, each once."""
        head = json.dumps([FORMAT, self.vo], ensure_ascii=False, separators=(",", ":"))[:-1]
        return f"{head},[{','.join(sorted({spec.canonical for spec in self.specs}))}]]"

    @property
    def sites(self) -> tuple[str, ...]:
        """All sites that the specs accept, sorted; none where a spec takes any."""
        if not all(spec.sites for spec in self.specs):
            return ()
        return tuple(sorted({site for spec in self.specs for site in spec.sites}))

    @property
    def words(self) -> str:
        """What is asked for, as submitters read it."""
        return f"of a node it asks {self.spec_id}: {self.canonical}"

    @cached_property
    def spec_id(self) -> str:
        """The identifier, 36 characters; compare the canonical texts where two share one identifier."""
        return PREFIX + hashlib.sha256(self.canonical.encode()).hexdigest()[:HEX_DIGITS]


class NotCanonical(ValueError):
    """A text that no ``JobSpecs`` writes."""


def parse_canonical(text: str) -> JobSpecs:
    """What a canonical text asks for, its specs in the order of the text.

    Raises:
        NotCanonical: unless it is, to the byte, what ``JobSpecs.canonical`` writes.
    """
    if len(text) > _LARGEST_CANONICAL or is_too_deep(text, _CANONICAL_DEPTH):
        raise NotCanonical("too large or too deep")
    try:
        document = json.loads(text)
        match document:
            case [str(head), str(vo), list(entries)] if head == FORMAT and 0 < len(entries) <= MOST_SPECS:
                specs = JobSpecs(tuple(_spec_of(entry) for entry in entries), vo)
            case _:
                raise NotCanonical(f"not of the form [{FORMAT!r}, VO, specs]")
    except (ValueError, TypeError, KeyError) as error:
        raise NotCanonical(str(error)) from error
    if specs.canonical != text:
        raise NotCanonical("written or ordered in another way")
    return specs


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Bounds | Memory | GpuNeed):
        inner = {name: _plain(item) for name, item in vars(value).items()}
        return {name: item for name, item in inner.items() if item is not None}
    return value


_INNER = {"cores": Bounds, "ram_request": Memory, "ram_limit": Memory}
_LISTS = ("sites", "banned_sites", "features")


def _spec_of(entry: Mapping[str, Any]) -> Spec:
    values = dict(entry)
    for name, kind in _INNER.items():
        if name in values:
            values[name] = kind(**values[name])
    if "gpu" in values:
        gpu = dict(values["gpu"])
        values["gpu"] = GpuNeed(Bounds(**gpu.pop("count")), **gpu)
    for name in _LISTS:
        if name in values:
            values[name] = tuple(values[name])
    if "tags" in values:
        values["tags"] = parse_tags(values["tags"])
    return Spec(**values)


def mentioned_tags(jobs: Iterable[JobSpecs]) -> frozenset[str]:
    """All tags that any expression mentions."""
    return frozenset().union(*(spec.tags.atoms for job in jobs for spec in job.specs if spec.tags is not None))


@dataclass(frozen=True)
class Profile:
    """The rules in which profiles differ.

    Attributes:
        name: name of the profile.
        v01: whether documents are read, and checks are made, as the code of v0.1 does.
        refused: fields of a job that it does not know.
        complete: whether jobs and nodes must state what DiracX requires; else what is missing is not asked, or unknown.
        skips_missing: whether memory and scratch that a node does not report pass.
        same_arm: whether arm64 is aarch64.
    """

    name: str
    v01: bool = False
    complete: bool = True
    refused: frozenset[str] = frozenset()
    skips_missing: bool = False
    same_arm: bool = True

    def with_distinct_arm(self) -> Profile:
        """The same profile with arm64 and aarch64 as two architectures."""
        return replace(self, same_arm=False)


OWN = Profile("own", complete=False)
V02 = Profile(
    "v0.2",
    refused=frozenset(
        (
            "system.glibc",
            "system.user-namespaces",
            "cpu.architecture.microarchitecture-level.max",
            "gpu.compute-capability.max",
            "gpu.driver-version",
            "panda-architecture",
        )
    ),
    skips_missing=True,
)
V01 = Profile("v0.1", v01=True, skips_missing=True)
PROFILES = {one.name: one for one in (OWN, V02, V01)}
