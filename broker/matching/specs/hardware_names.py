"""Names of CPU levels, profiles and flags, and of compute capabilities, and their order.

Sources: x86-64 psABI, microarchitecture levels; Arm Architecture Reference Manual, mandatory features of the profiles,
by the flags that Linux shows; NVIDIA, names of compute capabilities.
"""

from __future__ import annotations

import re
from collections.abc import Collection

X86_64, AARCH64 = "x86_64", "aarch64"
ARCHITECTURES_V01 = (X86_64, AARCH64, "arm64")
#: Two spellings of one architecture: Linux and macOS.
ALIASES = {"arm64": AARCH64}

#: Flags that each level adds to those before; every x86_64 CPU has the first.
_LEVEL_FLAGS = {
    2: frozenset(("cx16", "lahf_lm", "popcnt", "sse3", "sse4_1", "sse4_2", "ssse3")),
    3: frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")),
    4: frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
}
#: The same flag under the names of Linux and of compilers.
_SAME_FLAG = {
    "pni": "sse3", "abm": "lzcnt", "osxsave": "xsave", "lahf_sahf": "lahf_lm", "cmpxchg16b": "cx16", "neon": "asimd",
    "lse": "atomics", "rdm": "asimdrdm", "dotprod": "asimddp", "crc": "crc32", "rcpc": "lrcpc", "fp16": "fphp",
}  # fmt: skip
#: Flags that show each step of the profiles armv8.x-a; armv9.x-a has those of armv8.(x+5)-a and SVE2.
_ARM_FLAGS = (
    frozenset(("fp", "asimd")),
    frozenset(("atomics", "asimdrdm", "crc32")),
    frozenset(("dcpop",)),
    frozenset(("jscvt", "fcma", "lrcpc", "paca")),
    frozenset(("asimddp", "flagm", "uscat", "ilrcpc", "dit")),
    frozenset(("sb", "flagm2", "frint")),
    frozenset(("i8mm", "bf16")),
)
_SVE2 = frozenset(("sve", "sve2"))
_STEPS_OF_V9 = 5

_LEVEL = re.compile(r"x86-64-v([1-9])")
_PROFILE = re.compile(r"armv([89])(?:\.([0-9]))?-?a")
_SM = re.compile(r"sm_([0-9]{1,3})([0-9])")


def same_architecture(name: str | None) -> str | None:
    """The canonical spelling of an architecture."""
    return None if name is None else ALIASES.get(name, name)


def flag(name: str) -> str:
    """The canonical name of a CPU flag."""
    plain = name.strip().lower().replace("-", "_").replace(".", "_")
    return _SAME_FLAG.get(plain, plain)


def level_of_name(text: str) -> int | None:
    """The number in ``x86-64-v3``; None where it is no level."""
    match = _LEVEL.fullmatch(text)
    return None if match is None else int(match[1])


def level_of_flags(flags: Collection[str]) -> int:
    """The level of an x86_64 CPU with these flags, by their canonical names."""
    level = 1
    for higher, wanted in _LEVEL_FLAGS.items():
        if not wanted.issubset(flags):
            break
        level = higher
    return level


def profile_of_name(text: str) -> tuple[int, int] | None:
    """Version and step of ``armv9.4-a``; None where it is no profile."""
    match = _PROFILE.fullmatch(text.strip().lower())
    return None if match is None else (int(match[1]), int(match[2] or 0))


def profile_of_flags(flags: Collection[str]) -> tuple[int, int] | None:
    """The profile of an aarch64 CPU with these flags; None where not even those of the first are there."""
    step = -1
    for wanted in _ARM_FLAGS:
        if not wanted.issubset(flags):
            break
        step += 1
    if step < 0:
        return None
    return (9, step - _STEPS_OF_V9) if step >= _STEPS_OF_V9 and _SVE2.issubset(flags) else (8, step)


def profile_covers(offered: tuple[int, int], request: tuple[int, int]) -> bool:
    """Whether what is built for one profile runs on another: armv9.x-a has all of armv8.(x+5)-a."""
    if request[0] == offered[0]:
        return offered[1] >= request[1]
    return offered[0] > request[0] and offered[1] + _STEPS_OF_V9 >= request[1]


def capability_of_name(text: str) -> str | None:
    """The compute capability of ``sm_89``, which is 8.9; None where it is no such name."""
    match = _SM.fullmatch(text)
    return None if match is None else f"{int(match[1])}.{match[2]}"
