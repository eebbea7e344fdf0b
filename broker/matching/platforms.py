"""Platforms that are patterns, and the platform of a queue that they stand for.

Source: PanDA software and hardware matching, platform resolution.
"""

from __future__ import annotations

import re

from broker.domain.queues import QueueSoftware
from broker.matching.cpu_language import split_outside, unwrapped
from broker.matching.patterns import PatternUnsupportedError, compiled

#: What makes a platform a pattern: any sign with a meaning, but not a dot between digits.
_PATTERN_SIGN = re.compile(r"[\\^$*+?{}\[\]|()]|(?<!\d)\.|\.(?!\d)", re.ASCII)
_ANY = "any"


def is_pattern(platform: str) -> bool:
    """Whether a platform stands for others."""
    return _PATTERN_SIGN.search(platform) is not None


def resolved(platform: str, software: QueueSoftware | None) -> str | None:
    """The platform of the queue that ``platform`` stands for: itself unless it is a pattern.

    The first that matches from end to end, in the queue's order. Without one, a choice of architectures in front of a
    fixed rest, ``(a|b)-rest``, is resolved by the architectures of the queue's CPUs. None if there is neither.

    Raises:
        PatternUnsupportedError: the engine cannot take the pattern.
    """
    if not is_pattern(platform):
        return platform
    if software is None:
        return None
    if platform in software.cmtconfigs:
        return platform
    try:
        pattern = compiled(platform)
    except PatternUnsupportedError:
        chosen = resolved_by_cpu(platform, software)
        if chosen is None:
            raise
        return chosen
    for candidate in software.cmtconfigs:
        if pattern.covers(candidate):
            return candidate
    return resolved_by_cpu(platform, software)


def resolved_by_cpu(platform: str, software: QueueSoftware) -> str | None:
    """The platform with the first of its choice of architectures that the queue's CPUs have; None without one."""
    head, *rest = (part for _, part in split_outside(platform, "-"))
    choice, tail = unwrapped(head), "-".join(("", *rest))
    archs = software.hardware.cpu.arch if software.hardware.cpu is not None else None
    if choice == head or not rest or is_pattern(tail) or not archs:
        return None
    for _, arch in split_outside(choice, "|"):
        if arch and not is_pattern(arch) and (arch in archs or _ANY in archs):
            return arch + tail
    return None
