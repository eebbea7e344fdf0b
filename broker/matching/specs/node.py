"""What a node has: the other side of a spec. Source: DiracX, node specifications, v0.1 (code) and v0.2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Node:
    """What a pilot has to give; None: not known.

    Attributes:
        site: site that it runs at.
        system: name of the operating system.
        glibc: version of glibc.
        user_namespaces: whether they are allowed.
        wall_time_s: seconds that are left.
        cpu_work_db12: DB12 seconds that are left, over all cores.
        cpu_power_db12: DB12 of a core.
        cores: free cores.
        ram_mb: free memory, as it was allotted.
        architecture: architecture of the CPU, as ``uname -m`` reports it.
        level: microarchitecture level.
        arm_profile: profile of an aarch64 CPU.
        features: flags of the CPU; None: not known.
        cpu_vendor: as PanDA writes it, such as ``intel``.
        gpus: free GPUs; None: not known.
        gpu_ram_mb: memory of each GPU.
        gpu_vendor: vendor of the GPUs.
        gpu_model: model of the GPUs.
        gpu_generation: their microarchitecture, as PanDA writes it, such as ``Ampere``.
        capability: compute capability.
        driver: version of the driver.
        runtime: version of the runtime.
        scratch_mb: free scratch space, as it was allotted.
        tags: tags of the node and of its place.
        number: identifier for messages to the pilot; decides nothing.
    """

    site: str
    system: str | None = None
    glibc: str | None = None
    user_namespaces: bool | None = None
    wall_time_s: int | None = None
    cpu_work_db12: int | None = None
    cpu_power_db12: float | None = None
    cores: int | None = None
    ram_mb: int | None = None
    architecture: str | None = None
    level: int | None = None
    arm_profile: str | None = None
    features: frozenset[str] | None = None
    cpu_vendor: str | None = None
    gpus: int | None = None
    gpu_ram_mb: int | None = None
    gpu_vendor: str | None = None
    gpu_model: str | None = None
    gpu_generation: str | None = None
    capability: str | None = None
    driver: str | None = None
    runtime: str | None = None
    scratch_mb: int | None = None
    tags: frozenset[str] = field(default_factory=frozenset)
    number: str | None = field(default=None, compare=False)

    def with_changes(self, changes: Mapping[str, Any]) -> Node:
        """Like :func:`dataclasses.replace`, which takes five times as long for so many fields."""
        changed = object.__new__(Node)
        changed.__dict__.update(self.__dict__)
        changed.__dict__.update(changes)
        return changed

    def __hash__(self) -> int:
        """Hash what tells most nodes apart: each request has a node, and hashing all fields takes ten times as long."""
        return hash((self.site, self.wall_time_s, self.ram_mb, self.cores, self.scratch_mb, self.tags))
