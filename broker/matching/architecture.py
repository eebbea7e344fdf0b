"""Reading the architecture of a task, an old string with the GPU shorthand or JSON, as one requirement.

``sw_platform<@base_platform><#host_cpu_spec><&host_gpu_spec>``, or an object. A new architecture is checked for every
problem (:func:`parse`); a task that already has one is brokered by its meaning (:func:`read`): a part without meaning
has no effect, and when the meaning cannot be known, nothing matches.

Source: ATLAS Production Job Brokerage, checks for CPU and/or GPU hardware; PanDA software and hardware matching.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from broker.domain.estimates import MAX_CHARACTERS
from broker.json_depth import is_too_deep
from broker.matching.cpu_language import alternatives, read_cpus, split_outside
from broker.matching.gpu_language import read_gpu
from broker.matching.json_language import JsonReader, place_of
from broker.matching.requirement import CpuAlternative, Problem, Requirement, RequirementError

ACCEPTED = (
    "sw_platform<@base_platform><#cpu><&gpu>, such as x86_64-el9-gcc13-opt#x86_64-intel&nvidia:vram>=40960, "
    'or a JSON object such as {"sw_platform": "...", "gpu_spec": {"vendor": "nvidia", "vram": ">=40960"}}'
)


@dataclass(frozen=True)
class Reading:
    """The meaning of an architecture, as far as it can be read, and its problems."""

    requirement: Requirement
    problems: tuple[Problem, ...] = ()

    @property
    def fault(self) -> Problem | None:
        """The problem because of which the meaning cannot be known."""
        return next((problem for problem in self.problems if problem.fatal), None)


def parse(text: str) -> Requirement:
    """Parse the requirement in a text strictly: every problem is an error.

    Raises:
        RequirementError: a problem; the message names the position and what is accepted there.
    """
    reading = read(text)
    if reading.problems:
        raise RequirementError(tuple(sorted(reading.problems, key=lambda problem: not problem.fatal)))
    return reading.requirement


@lru_cache(maxsize=4096)
def read(text: str | None) -> Reading:
    """The requirement in the architecture of a task; None asks for nothing."""
    if text is None or not text.strip():
        return Reading(Requirement())
    if len(text) > MAX_CHARACTERS:
        many = Problem(MAX_CHARACTERS, f"longer than {MAX_CHARACTERS} characters", ACCEPTED, fatal=True)
        return Reading(Requirement(), (many,))
    problems: list[Problem] = []
    body = _json_object(text, problems)
    requirement = _from_old(text, problems) if body is None else _from_json(text, body, problems)
    return Reading(requirement, tuple(problems))


def _json_object(text: str, problems: list[Problem]) -> dict[str, Any] | None:
    """Parse a JSON object; None for an old string. Text that looks like JSON but is none is a problem."""
    stripped = text.strip()
    if stripped[0] not in "{'\"":
        return None
    start = text.index(stripped) + 1
    if stripped[0] != "{":
        what = "it begins with a quotation mark: the quotation marks around it are part of the value"
        problems.append(Problem(start, what, "the same without the quotation marks", fatal=True, is_text=True))
        return None
    if is_too_deep(text):
        problems.append(Problem(start, "nested too deeply", ACCEPTED, fatal=True))
        return None
    try:
        body = json.loads(text, object_pairs_hook=_distinct)
    except RecursionError:
        problems.append(Problem(start, "nested too deeply", ACCEPTED, fatal=True))
    except json.JSONDecodeError as error:
        problems.append(Problem(error.pos + 1, f"no JSON: {error.msg}", ACCEPTED, fatal=True, is_text=True))
    except ValueError as error:
        problems.append(Problem(start, f"no JSON: {str(error)[:60]}", ACCEPTED, fatal=True))
    else:
        return dict(body)
    return None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key is there twice")
    return table


def _from_json(text: str, body: dict[str, Any], problems: list[Problem]) -> Requirement:
    reader = JsonReader(text, body)
    requirement = reader.read()
    problems.extend(reader.problems)
    return _with_encoded(requirement, body.get("encoded_platform"), text, problems)


def _with_encoded(requirement: Requirement, encoded: Any, text: str, problems: list[Problem]) -> Requirement:
    """The requirement completed by the old string next to it, where the object itself states nothing."""
    if not encoded:
        return requirement
    position = place_of(text, ("encoded_platform",))
    if not isinstance(encoded, str):
        problems.append(Problem(position + 1, "encoded_platform: is no text", "an old string", fatal=True))
        return requirement
    old_problems: list[Problem] = []
    old = _from_old(encoded, old_problems)
    problems.extend(replace(problem, position=position + 1) for problem in old_problems)
    return replace(
        requirement,
        platform=requirement.platform or old.platform,
        base_platform=requirement.base_platform if requirement.base_platform is not None else old.base_platform,
        cpus=requirement.cpus or (() if old.cpu_implied else old.cpus),
        gpu=requirement.gpu if requirement.gpu is not None else old.gpu,
    )


_PLATFORM = re.compile(r"[^@#&]*")
_PARTS = {
    "base": re.compile(r"@([^#&]*)"),
    "cpu": re.compile(r"#([^\^@&]*)"),
    "gpu": re.compile(r"&([^\^@#]*)"),
}


def _from_old(text: str, problems: list[Problem]) -> Requirement:
    start = _PLATFORM.match(text)
    platform = (start[0] if start else "").strip()
    parts = {name: pattern.search(text) for name, pattern in _PARTS.items()}
    base, cpu, gpu = parts["base"], parts["cpu"], parts["gpu"]
    cpus: tuple[CpuAlternative, ...] = ()
    if cpu is None:
        cpus = _implied(platform)
    elif cpu[1].strip():
        cpus = read_cpus(cpu[1], cpu.start(1), problems)
    return Requirement(
        platform=platform,
        base_platform=(base[1].strip() or None) if base is not None else None,
        cpus=cpus,
        cpu_implied=cpu is None and bool(cpus),
        gpu=read_gpu(gpu[1], gpu.start(1), problems) if gpu is not None and gpu[1].strip() else None,
    )


def _implied(platform: str) -> tuple[CpuAlternative, ...]:
    """The CPU that a platform of the old format implies: its first part, if it has one."""
    if not platform or platform.startswith("^"):
        return ()
    arch = split_outside(platform, "-")[0][1]
    return alternatives([CpuAlternative(arch)], 1, []) if arch else ()
