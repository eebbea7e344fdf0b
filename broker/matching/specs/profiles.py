"""Profiles of ``matchspec/1``: which fields a job may have, and which rules differ.

``v0.1`` reproduces the code of DiracX's prototype, for checks, but for: an expression may begin with ``~``; arm64 and
aarch64 are one; a version that YAML reads as another is refused. ``own`` is for jobs and pilots here: who is silent
gets only jobs that do not ask.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Profile:
    """Rules that differ.

    Attributes:
        name: of the profile.
        v01: documents are read, and checks are made, as the code of v0.1 does.
        refused: fields of a job that it does not know.
        complete: jobs and nodes must say what DiracX wants of them; else what is not said is not asked, or not known.
        skips_missing: memory and scratch that a node does not tell pass.
        same_arm: arm64 is aarch64.
    """

    name: str
    v01: bool = False
    complete: bool = True
    refused: frozenset[str] = frozenset()
    skips_missing: bool = False
    same_arm: bool = True

    def with_distinct_arm(self) -> Profile:
        """The same with arm64 and aarch64 as two architectures."""
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
