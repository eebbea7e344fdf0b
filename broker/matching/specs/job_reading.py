"""The specs in the document of a job: the form of v0.1 (``matching_specs``) or of v0.2 (``requirements``).

Sources: DiracX, schema of matching specifications, v0.1 (code) and v0.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from broker.matching.architecture import parse as parse_architecture
from broker.matching.requirement import RequirementError
from broker.matching.specs.blocks import Block
from broker.matching.specs.documents import Number
from broker.matching.specs.hardware_names import (
    ARCHITECTURES_V01,
    X86_64,
    capability_of_name,
    flag,
    level_of_name,
    profile_of_name,
    same_architecture,
)
from broker.matching.specs.problems import Faults, SpecRefused
from broker.matching.specs.spec import MOST_SPECS, OWN, Bounds, GpuNeed, JobSpecs, Memory, Profile, Spec
from broker.matching.specs.tags import Tags, TagsRefused, parse_tags
from broker.matching.versions import version_key

SPECS, REQUIREMENTS = "matching_specs", "requirements"
SYSTEMS = ("Linux", "GNU", "FreeBSD", "OpenBSD", "Windows_NT", "MS-DOS", "Darwin")
TYPES = (
    "MCSimulation", "MCFastSimulation", "WGProduction", "User", "Sprucing", "Merge", "MCRConstruction", "APMerge",
    "APPostProc", "MCMerge", "LbAPI",
)  # fmt: skip
STATUSES = (
    "Submitting", "Received", "Checking", "Staging", "Scouting", "Waiting", "Matched", "Running", "Stalled",
    "Completing", "Done", "Completed", "Failed", "Deleted", "Killed",
)  # fmt: skip
_SECONDS = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
ARCH_TAG, SITE_TAG = "arch:", "site:"
#: Where no limit of memory is written, it is this many times the request.
LIMIT_OF_REQUEST = 2
_Size = tuple[Bounds, Memory | None, Memory | None]


def asks_specs(document: object) -> bool:
    """Whether a document has specs, in one of the two forms."""
    if not isinstance(document, Mapping):
        return False
    return isinstance(document.get(SPECS), list | Mapping) or isinstance(document.get(REQUIREMENTS), Mapping)


def read_job(document: object, profile: Profile = OWN, vo: str = "") -> JobSpecs:
    """Read what a job asks for.

    Raises:
        SpecRefused: with the field and the value.
    """
    job, faults = Block("", {} if document is None else document, profile), Faults()
    if profile.v01:
        faults.of(None, _check_job_v01, job)
    specs = faults.of(None, _specs_of, job, vo)
    faults.check()
    return specs or JobSpecs((), vo.lower())


def _specs_of(job: Block, vo: str) -> JobSpecs:
    profile = job.profile
    written = job.raw(_key(SPECS, profile))
    alone = None if profile.v01 else job.raw(REQUIREMENTS)
    if written is not None and alone is not None:
        raise SpecRefused(REQUIREMENTS, None, f"stands beside {SPECS}; write one of the two")
    if alone is not None:
        return JobSpecs((_read_alone(job, alone),), vo.lower())
    if written is None:
        raise SpecRefused(SPECS, None, "is missing")
    if isinstance(written, Mapping) and not profile.v01:
        written = list(written.values())
    if not isinstance(written, list) or not written:
        raise SpecRefused(SPECS, written, "a list of at least one spec is wanted")
    if len(written) > MOST_SPECS:
        raise SpecRefused(SPECS, Number(str(len(written)), len(written)), f"more than {MOST_SPECS} specs")
    faults = Faults()
    specs = [faults.of(Spec(), _spec_at, place, entry, profile) for place, entry in enumerate(written)]
    faults.check()
    return JobSpecs(tuple(specs), vo.lower())


def _spec_at(place: int, written: object, profile: Profile) -> Spec:
    return _read_spec(Block(f"{SPECS}[{place}]", written, profile))


def _key(name: str, profile: Profile) -> str:
    return name if profile.v01 else name.replace("_", "-")


def _check_job_v01(job: Block) -> None:
    """Check what the code of v0.1 requires of a job in addition to its specs."""
    job.needed("submit_time")
    submitted = job.raw("submit_time")
    try:
        is_time = isinstance(submitted, Number) or bool(_SECONDS.fullmatch(submitted))
        is_time = is_time or bool(datetime.fromisoformat(submitted))
    except (TypeError, ValueError):
        is_time = False
    if not is_time:
        raise SpecRefused("submit_time", submitted, "a time is wanted, such as 2026-03-28T10:00:00Z")
    for name in ("owner", "group"):
        job.needed(name)
        job.text(name, empty=True)
    job.needed("type")
    job.choice("type", TYPES)
    job.refuse_null("status")
    job.choice("status", STATUSES)
    job.text("job_id", empty=True)
    job.check_format_version()


def _read_alone(job: Block, written: object) -> Spec:
    """Read the one spec of v0.2, with the sites next to it."""
    sites, banned = job.texts("sites"), job.texts("banned-sites")
    if sites and banned:
        raise SpecRefused("banned_sites", list(banned), "stands together with sites; write one of the two")
    spec = _read_spec(Block(REQUIREMENTS, written, job.profile))
    if (sites or banned) and (spec.sites or spec.banned_sites):
        raise SpecRefused(f"{REQUIREMENTS}.sites", list(spec.sites or spec.banned_sites), "stands twice")
    return replace(spec, sites=sites, banned_sites=banned) if sites or banned else spec


def _read_spec(block: Block) -> Spec:
    """Read one spec; all problems of its parts are reported together."""
    faults = Faults()
    sites, banned = faults.of(((), ()), _sites, block)
    system, glibc, namespaces = faults.of((None, None, False), _system, block)
    wall, work = faults.of((None, None), _time, block)
    tags = faults.of(None, _tags, block)
    (cores, request, limit), hardware = faults.of(((Bounds(1, 1), None, None), {}), _cpu, block, tags)
    gpu = faults.of(None, _gpu, block)
    scratch = faults.of(None, _scratch, block)
    panda = faults.of(None, _panda_architecture, block)
    faults.check()
    block.finish()
    return Spec(
        sites, banned, system, glibc, namespaces, wall, work, cores, request, limit,
        **hardware, gpu=gpu, scratch_mb=scratch, tags=tags, panda_architecture=panda,
    )  # fmt: skip


def _time(block: Block) -> tuple[int | None, int | None]:
    """Least wall-clock seconds, and DB12 seconds."""
    wall, work = block.whole("wall-time", 1), block.whole(block.one_of("cpu-work", "cpu-work-db12"), 1)
    if block.profile.complete and wall is None and work is None:
        raise SpecRefused(block.at("wall-time"), None, "is missing, and so is cpu-work; one of the two is wanted")
    return wall, work


def _cpu(spec: Block, tags: Tags | None) -> tuple[_Size, dict[str, Any]]:
    """Cores with the memory that is requested and its limit; and the architecture."""
    block = spec.block("cpu") if spec.profile.v01 or spec.has("cpu") else Block(spec.at("cpu"), {}, spec.profile)
    faults = Faults()
    size = faults.of((Bounds(1, 1), None, None), _cores, block)
    hardware = faults.of({}, _architecture, block, tags)
    faults.check()
    block.finish()
    return size, hardware


def _sites(block: Block) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if block.profile.v01:
        site = block.text("site", empty=True)
        return ((site,) if site else ()), ()
    sites, banned = block.texts(block.one_of("site", "sites")), block.texts("banned-sites")
    if sites and banned:
        raise SpecRefused(block.at("banned-sites"), list(banned), "stands together with sites; write one of the two")
    return sites, banned


def _system(block: Block) -> tuple[str | None, str | None, bool]:
    """Name, least glibc and whether user namespaces are wanted; in v0.2 the name is Linux where none is written."""
    fallback = "Linux" if block.profile.complete else None
    if not block.profile.v01 and not block.has("system"):
        return fallback, None, False
    system = block.block("system")
    if block.profile.v01:
        system.needed("name")
    system.refuse_unknown("glibc", "system.glibc")
    system.refuse_unknown("user-namespaces", "system.user-namespaces")
    name = system.choice("name", SYSTEMS) or fallback
    result = name, system.version("glibc"), bool(system.truth("user-namespaces"))
    system.finish()
    return result


def _cores(cpu: Block) -> _Size:
    v01 = cpu.profile.v01
    if v01:
        cpu.needed("num-cores")
    cores = cpu.bounds("num-cores", 0 if v01 else 1, open_end=not v01) or Bounds(1, 1)
    ram = cpu.maybe("ram-mb")
    if ram is None:
        return cores, None, None
    request = _memory(ram.block("request"))
    if v01:
        ram.needed("limit")
    limit = _memory(ram.block("limit")) if ram.has("limit") else None
    if not v01:
        limit = _checked_limit(ram, request, limit)
    ram.finish()
    return cores, request, limit


def _memory(block: Block) -> Memory:
    memory = Memory(block.whole("overhead", 0) or 0, block.whole("per-core", 0) or 0)
    if block.profile.v01:
        # a null is no number there, though the key may be missing
        for name in ("overhead", "per-core"):
            block.refuse_null(name)
    block.finish()
    return memory


def _checked_limit(ram: Block, request: Memory, limit: Memory | None) -> Memory:
    if limit is None:
        if 0 in (request.overhead_mb, request.per_core_mb):
            raise SpecRefused(ram.at("limit"), None, "is missing, though a term of the request is 0")
        return Memory(LIMIT_OF_REQUEST * request.overhead_mb, LIMIT_OF_REQUEST * request.per_core_mb)
    terms = (
        ("overhead", limit.overhead_mb, request.overhead_mb),
        ("per-core", limit.per_core_mb, request.per_core_mb),
    )
    for name, most, least in terms:
        if most < least:
            raise SpecRefused(f"{ram.at('limit')}.{name}", Number(str(most), most), f"is below the request, {least}")
    return limit


def _tags(block: Block) -> Tags | None:
    text = block.needed("tags") if block.profile.v01 else block.raw("tags")
    if text is None:
        return None
    if isinstance(text, list) and not block.profile.v01:
        text = " & ".join(f"({tag})" for tag in block.texts("tags"))
    if not isinstance(text, str):
        raise SpecRefused(block.at("tags"), text, "a text is wanted, such as 'cvmfs:lhcb & ~test'")
    try:
        tags = parse_tags(text, v01=block.profile.v01)
    except TagsRefused as refused:
        raise SpecRefused(block.at("tags"), text, str(refused)) from refused
    if tags is not None and not block.profile.v01:
        for atom in sorted(tags.atoms):
            if atom.startswith(SITE_TAG):
                raise SpecRefused(block.at("tags"), text, f"{atom} is no tag; write sites or banned_sites")
    return tags


def _architecture(cpu: Block, tags: Tags | None) -> dict[str, Any]:
    v01 = cpu.profile.v01
    by_tag = sorted(atom for atom in (() if tags is None else tags.atoms) if atom.startswith(ARCH_TAG))
    if not v01 and not cpu.has("architecture"):
        if by_tag or not cpu.profile.complete:
            return {}
        raise SpecRefused(cpu.at("architecture"), None, "is missing; name it, or require a tag such as arch:ppc64le")
    block = cpu.block("architecture")
    if by_tag and not v01:
        raise SpecRefused(block.path, None, f"stands together with the tag {by_tag[0]}; write one of the two")
    block.needed("name")
    name = block.choice("name", ARCHITECTURES_V01)
    if v01:
        block.needed("microarchitecture-level")
    if cpu.profile.same_arm:
        name = same_architecture(name)
    level = _level(block)
    profile = _arm_profile(block, name)
    features = tuple(sorted({flag(feature) for feature in block.texts("required-features")})) if not v01 else ()
    if features and level.least > 0:
        raise SpecRefused(block.at("required-features"), list(features), "stands together with a level; write one")
    block.finish()
    return {
        "architecture": name,
        "level_least": level.least or None,
        "level_most": level.most,
        "arm_profile": profile,
        "features": features,
    }


def _level(block: Block) -> Bounds:
    """Least and most level; a least of 0 asks for none."""
    if block.has("microarchitecture-level"):
        inner = block.block("microarchitecture-level")
        inner.refuse_unknown("max", "cpu.architecture.microarchitecture-level.max")
        bounds = block.bounds("microarchitecture-level", 1, open_end=True) or Bounds(0)
    else:
        bounds = Bounds(0)
    if block.profile.v01 or not block.has("level"):
        return bounds
    text = block.raw("level")
    number = level_of_name(text) if isinstance(text, str) else None
    if number is None:
        raise SpecRefused(block.at("level"), text, "is no level, such as x86-64-v3")
    if bounds.least:
        raise SpecRefused(block.at("level"), text, "stands beside microarchitecture-level, which is the same")
    if block.raw("name") != X86_64:
        raise SpecRefused(block.at("level"), text, f"is a level of {X86_64}")
    return Bounds(number)


def _arm_profile(block: Block, name: str | None) -> str | None:
    if block.profile.v01 or not block.has("profile"):
        return None
    text = block.text("profile") or ""
    if name == X86_64 or profile_of_name(text) is None:
        raise SpecRefused(block.at("profile"), text, "is no profile of aarch64, such as armv9.0-a")
    return text.strip().lower()


def _gpu(spec: Block) -> GpuNeed | None:
    block = spec.maybe("gpu")
    if block is None:
        return None
    v01 = block.profile.v01
    block.needed("count")
    count = block.bounds("count", 0, open_end=not v01) or Bounds(0)
    if v01:
        for name in ("ram-mb", "vendor", "compute-capability"):
            block.needed(name)
    elif count.least > 0:
        block.needed("vendor")
    ram = block.whole(block.one_of("ram-mb", "vram-mb-per-gpu") if not v01 else "ram-mb", 1)
    vendor = block.text("vendor", empty=v01)
    least, most = _capability(block)
    block.refuse_unknown("driver-version", "gpu.driver-version")
    driver = block.version("driver-version")
    runtime = None if v01 else block.version("min-runtime-version")
    block.finish()
    return GpuNeed(count, ram, vendor, least, most, driver, runtime)


def _capability(block: Block) -> tuple[str | None, str | None]:
    """Least and most compute capability, by number or as ``sm_89``."""
    least, most = None, None
    inner = block.maybe("compute-capability")
    if inner is not None:
        inner.needed("min")
        inner.refuse_unknown("max", "gpu.compute-capability.max")
        least, most = inner.version("min"), inner.version("max")
        if most is not None and least is not None and (version_key(most) or ()) < (version_key(least) or ()):
            raise SpecRefused(inner.at("max"), inner.raw("max"), f"is less than min, {least}")
        inner.finish()
    if block.profile.v01 or not block.has("arch"):
        return least, most
    text = block.text("arch") or ""
    capability = capability_of_name(text)
    if capability is None:
        raise SpecRefused(block.at("arch"), text, "is no compute capability, such as sm_89")
    if least is not None:
        raise SpecRefused(block.at("arch"), text, "stands beside compute-capability, which is the same")
    return capability, None


def _scratch(spec: Block) -> int | None:
    block = spec.maybe("io")
    if block is None:
        return None
    if block.profile.v01:
        block.needed("scratch-mb")
        block.needed("scratch-iops")
    scratch = block.whole("scratch-mb", 1)
    block.whole("scratch-iops", 1)  # nobody can measure it, so that it is not compared
    block.finish()
    return scratch


def _panda_architecture(spec: Block) -> str | None:
    """The architecture of a PanDA task: an old string, the shorthand, or JSON."""
    if spec.profile.v01:
        return None
    spec.refuse_unknown("panda-architecture", "panda-architecture")
    value = spec.raw("panda-architecture")
    if value is None:
        return None
    if not isinstance(value, str):
        raise SpecRefused(spec.at("panda-architecture"), value, "a text is wanted, as the architecture of a task")
    try:
        parse_architecture(value)
    except RequirementError as error:
        raise SpecRefused(spec.at("panda-architecture"), value, str(error)) from error
    return value
