"""The node in the document of a pilot, in the form of v0.1 or of v0.2.

Sources: DiracX, node specifications, v0.1 (code) and v0.2.
"""

from __future__ import annotations

from typing import Any

from broker.matching.specs.blocks import Block
from broker.matching.specs.hardware_names import (
    ARCHITECTURES_V01,
    X86_64,
    capability_of_name,
    flag,
    level_of_flags,
    level_of_name,
    profile_of_flags,
    profile_of_name,
    same_architecture,
)
from broker.matching.specs.job_reading import SYSTEMS
from broker.matching.specs.node import Node
from broker.matching.specs.problems import Faults, SpecRefused
from broker.matching.specs.spec import OWN, Profile
from broker.matching.versions import version_key

_NEEDED_GPU_V01 = ("ram-mb", "vendor", "compute-capability", "driver-version")


def read_node(document: object, profile: Profile = OWN) -> Node:
    """Read the node that a pilot presents. v0.1 and v0.2 require their fields; the own profile only requires the site.

    Raises:
        SpecRefused: with the field and the value.
    """
    node, faults = Block("", {} if document is None else document, profile), Faults()
    is_own = not profile.complete
    site = faults.of("", _site, node)
    system, glibc, namespaces = faults.of((None, None, None), _system, node, is_own=is_own)
    wall = faults.of(None, _wall, node)
    work, power = faults.of((None, None), _work, node)
    (cores, ram), hardware = faults.of(((None, None), {}), _size, node, is_own=is_own)
    gpu = faults.of({}, _gpu, node, is_own=is_own)
    scratch = faults.of(None, _scratch, node)
    tags = faults.of((), _tags, node)
    number = faults.of(None, _number, node)
    faults.check()
    return Node(
        site, system, glibc, namespaces, wall, work, power, cores, ram,
        **hardware, **gpu, scratch_mb=scratch, tags=frozenset(tags), number=number,
    )  # fmt: skip


def _site(node: Block) -> str:
    if node.profile.v01:
        node.check_format_version()
    site = node.text("site", empty=node.profile.v01)
    if site is None:
        raise SpecRefused("site", None, "is missing")
    return site


def _wall(node: Block) -> int | None:
    if node.profile.complete:
        node.needed("wall-time")
    return node.whole("wall-time", 1)


def _work(node: Block) -> tuple[int | None, float | None]:
    """DB12 seconds that are left over all cores, and DB12 of a core."""
    profile = node.profile
    work = node.whole("cpu-work" if profile.v01 else node.one_of("cpu-work", "cpu-work-db12"), 1)
    power = None if profile.v01 else node.power("cpu-power-db12")
    if profile.complete and work is None and power is None:
        raise SpecRefused(node.at("cpu-work" if profile.v01 else "cpu_power_db12"), None, "is missing")
    return work, power


def _size(node: Block, *, is_own: bool) -> tuple[tuple[int | None, int | None], dict[str, Any]]:
    """Cores and memory; and the CPU."""
    profile, faults = node.profile, Faults()
    cpu = node.block("cpu") if not is_own or node.has("cpu") else Block("cpu", {}, profile)

    def whole(name: str, least: int, *, needed: bool) -> int | None:
        if needed:
            cpu.needed(name)
        return cpu.whole(name, least)

    cores = faults.of(None, whole, "num-cores", 1 if profile.v01 else 0, needed=not is_own)
    ram = faults.of(None, whole, "ram-mb", 1, needed=profile.v01)
    hardware = faults.of({}, _cpu, cpu, is_own=is_own)
    faults.check()
    return (cores, ram), hardware


def _tags(node: Block) -> tuple[str, ...]:
    if node.profile.v01:
        node.needed("tags")
    return node.texts("tags")


def _number(node: Block) -> str | None:
    return node.text("node_id" if node.profile.v01 else "node-id", empty=True)


def _system(node: Block, *, is_own: bool) -> tuple[str | None, str | None, bool | None]:
    block = node.block("system") if not is_own or node.has("system") else Block("system", {}, node.profile)
    if not is_own:
        block.needed("name")
    if node.profile.v01:
        block.needed("glibc")
        block.needed("user-namespaces")
    return block.choice("name", SYSTEMS), block.version("glibc"), block.truth("user-namespaces")


def _cpu(cpu: Block, *, is_own: bool) -> dict[str, Any]:
    profile = cpu.profile
    if is_own and not cpu.has("architecture"):
        return {}
    block = cpu.block("architecture")
    block.needed("name")
    # for a CPU without a name of its own, pilots report the output of uname -m, and present the tag arch:
    name = block.choice("name", ARCHITECTURES_V01) if profile.v01 else block.text("name")
    if profile.v01:
        block.needed("microarchitecture-level")
    if profile.same_arm:
        name = same_architecture(name)
    level = block.whole("microarchitecture-level", 1)
    features = None
    if not profile.v01 and block.has("features"):
        features = frozenset(flag(feature) for feature in block.texts("features"))
    return {
        "architecture": name,
        "level": _level(block, name, level, features),
        "arm_profile": _arm_profile(block, name, features),
        "features": features,
        "cpu_vendor": None if profile.v01 else block.text("vendor"),
    }


def _level(block: Block, name: str | None, level: int | None, features: frozenset[str] | None) -> int | None:
    """The level that is stated, else the one that the flags show."""
    if level is not None or block.profile.v01:
        return level
    if block.has("level"):
        text = block.text("level") or ""
        number = level_of_name(text)
        if number is None:
            raise SpecRefused(block.at("level"), text, "is no level, such as x86-64-v3")
        return number
    return level_of_flags(features) if features is not None and name == X86_64 else None


def _arm_profile(block: Block, name: str | None, features: frozenset[str] | None) -> str | None:
    if block.profile.v01 or name == X86_64:
        return None
    text = block.text("profile")
    if text is not None:
        if profile_of_name(text) is None:
            raise SpecRefused(block.at("profile"), text, "is no profile, such as armv9.0-a")
        return text.strip().lower()
    version = None if features is None else profile_of_flags(features)
    return None if version is None else f"armv{version[0]}.{version[1]}-a"


def _gpu(node: Block, *, is_own: bool) -> dict[str, Any]:
    if is_own and not node.has("gpu"):
        return {}
    block = node.block("gpu")
    v01 = block.profile.v01
    block.needed("count")
    count = block.whole("count", 0) or 0
    ram = block.whole(block.one_of("ram-mb", "vram-mb-per-gpu") if not v01 else "ram-mb", 1)
    vendor, driver = block.text("vendor", empty=v01), block.version("driver-version")
    capability = _capability(block)
    if count and not is_own:
        values = {"ram-mb": ram, "vendor": vendor, "compute-capability": capability, "driver-version": driver}
        for name in _NEEDED_GPU_V01 if v01 else _NEEDED_GPU_V01[:3]:
            if values[name] is None:
                raise SpecRefused(block.at(name), None, f"is missing, though the node has {count} GPUs")
    return {
        "gpus": count,
        "gpu_ram_mb": ram,
        "gpu_vendor": vendor,
        "capability": capability,
        "driver": driver,
        "runtime": None if v01 else block.version("runtime-version"),
        "gpu_model": None if v01 else block.text("model"),
        "gpu_generation": None if v01 else block.text("generation"),
    }


def _capability(block: Block) -> str | None:
    capability = block.version("compute-capability")
    if block.profile.v01 or not block.has("arch"):
        return capability
    text = block.text("arch") or ""
    of_arch = capability_of_name(text)
    if of_arch is None:
        raise SpecRefused(block.at("arch"), text, "is no compute capability, such as sm_89")
    if capability is not None and version_key(capability) != version_key(of_arch):
        raise SpecRefused(block.at("arch"), text, f"is another than compute-capability, {capability}")
    return of_arch


def _scratch(node: Block) -> int | None:
    block = node.maybe("io")
    if block is None:
        return None
    if block.profile.v01:
        block.needed("scratch-mb")
        block.needed("scratch-iops")
        block.whole("scratch-iops", 1)
    return block.whole("scratch-mb", 1)
