"""CPU requests as they are written: ``architecture<-vendor<-instruction set>>``, alternatives separated by ``|``.

The architecture is a pattern that may have alternatives of its own, in parentheses; each becomes one alternative of the
request, so that ``(x86_64|aarch64)-intel`` and ``x86_64-intel|aarch64-intel`` are the same request.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.matching.requirement import WILDCARD, CpuAlternative, Problem

ACCEPTED = "architecture-vendor-instructions, such as x86_64-intel-avx2 or (x86_64|aarch64)"
#: A request with more alternatives is refused.
MAX_ALTERNATIVES = 64


def split_outside(text: str, separator: str) -> list[tuple[int, str]]:
    """The parts of a text between separators that are outside parentheses, each with its offset."""
    parts, depth, start, escaped = [], 0, 0, False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        elif character == separator and depth == 0:
            parts.append((start, text[start:index]))
            start = index + 1
    return [*parts, (start, text[start:])]


def unwrapped(text: str) -> str:
    """The text without the pair of parentheses around all of it, if it has one that only groups."""
    if not (text.startswith("(") and text.endswith(")")) or text.startswith("(?"):
        return text
    depth, escaped = 0, False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "()":
            depth += 1 if character == "(" else -1
            if depth == 0:
                return text[1:-1] if index == len(text) - 1 else text
    return text


def read_cpus(text: str, offset: int, problems: list[Problem]) -> tuple[CpuAlternative, ...]:
    """The alternatives of the old format; ``offset`` is the place of ``text`` in the whole text."""
    inner = unwrapped(text.strip())
    offset += text.find(inner)
    cpus = []
    for start, alternative in split_outside(inner, "|"):
        fields = [field.strip() for _, field in split_outside(alternative, "-")][:3]
        if not any(fields):
            problems.append(Problem(offset + start + 1, "an alternative with nothing in it", ACCEPTED))
            continue
        arch, vendor, instr = (*(field or WILDCARD for field in fields), WILDCARD, WILDCARD)[:3]
        cpus.append(CpuAlternative(arch, vendor, instr))
    return alternatives(cpus, offset + 1, problems)


def alternatives(
    written: Iterable[CpuAlternative], position: int, problems: list[Problem]
) -> tuple[CpuAlternative, ...]:
    """The alternatives in canonical form: one architecture each, sorted, without duplicates."""
    cpus: set[CpuAlternative] = set()
    for cpu in written:
        for arch in _architectures(cpu.arch):
            if arch:
                cpus.add(CpuAlternative(arch, cpu.vendor, cpu.instr))
            else:
                problems.append(Problem(position, "an architecture with an empty alternative", ACCEPTED))
            if len(cpus) > MAX_ALTERNATIVES:
                many = f"more than {MAX_ALTERNATIVES} alternatives"
                problems.append(Problem(position, many, f"up to {MAX_ALTERNATIVES} alternatives", fatal=True))
                return ()
    if not cpus:
        problems.append(Problem(position, "a CPU request without any alternative", ACCEPTED, fatal=True))
    return tuple(sorted(cpus))


def _architectures(pattern: str) -> list[str]:
    """The alternatives of a pattern that has nothing but alternatives at its outermost level."""
    waiting, architectures = [pattern], list[str]()
    while waiting and len(architectures) <= MAX_ALTERNATIVES:
        whole = waiting.pop()
        inner = unwrapped(whole)
        parts = [part for _, part in split_outside(inner, "|")]
        if len(parts) == 1 and inner == whole:
            architectures.append(inner)
        else:
            waiting.extend(parts)
    return architectures
