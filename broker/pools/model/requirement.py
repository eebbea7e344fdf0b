"""Requirements, and sets of them: SubmitPools with their canonical text and identifier.

Two jobs with the same requirements have the same identifier, however they write them. Source: DIRAC RFC 7, SubmitPools.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from broker.json_depth import is_too_deep
from broker.pools.model.description import RequirementRefused, checked_text, decimal_text

FORMAT, PREFIX = "submitpool/1", "sp1-"
MOST_REQUIREMENTS, MOST_VALUES = 64, 64
HEX_DIGITS = 32
#: Maximum characters of a wrong name in an error.
SHOWN_NAME = 80
Operator = Literal["ge", "any"]
#: Operators that a later format may define; nothing reads them yet.
RESERVED_OPERATORS = ("all", "le", "between")

#: Keywords of a job description, by their lower-case spelling: they are matched without this mechanism.
STANDARD_KEYWORDS = {
    name.lower(): name
    for name in (
        "Site", "BannedSite", "BannedSites", "Platform", "CPUTime", "JobType", "GridCE", "Tag", "Tags", "Owner",
        "OwnerGroup",
    )
}  # fmt: skip

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_VO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LARGEST_CANONICAL = 2**21
_CANONICAL_DEPTH = 4


@dataclass(frozen=True)
class Requirement:
    """One requirement in canonical form.

    Attributes:
        name: exact name of the parameter.
        operator: ``ge``: the resource has at least the number; ``any``: it has at least one of the texts.
        values: the number as decimal text, or the texts sorted by code point without repetition.
    """

    name: str
    operator: Operator
    values: tuple[str, ...]

    def entry(self) -> list[Any]:
        """The requirement in the form of the canonical text."""
        return [self.name, self.operator, self.values[0] if self.operator == "ge" else list(self.values)]


@dataclass(frozen=True)
class SubmitPool:
    """A set of requirements of one VO; made by ``pool_of``, ``resolve_requirements`` or ``parse_canonical``.

    Attributes:
        vo: virtual organisation, lower case; part of the identity, as sections for a VO select other queues.
        requirements: at least one, sorted by name.
    """

    vo: str
    requirements: tuple[Requirement, ...]

    @cached_property
    def canonical(self) -> str:
        """The text that defines the pool; equal texts mean equal pools."""
        document = [FORMAT, self.vo, [requirement.entry() for requirement in self.requirements]]
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"))

    @cached_property
    def pool_id(self) -> str:
        """The identifier, 36 characters; compare the canonical texts if two pools share an identifier."""
        return PREFIX + hashlib.sha256(self.canonical.encode()).hexdigest()[:HEX_DIGITS]


def pool_of(vo: str, requirements: Iterable[Requirement]) -> SubmitPool | None:
    """The pool of requirements in any order; None if there are none.

    Raises:
        RequirementRefused: a name or the VO cannot be used, or a value is not in canonical form.
    """
    members = list(requirements)
    checked_vo = vo_name(vo)
    check_names([requirement.name for requirement in members])
    for requirement in members:
        _check_values(requirement)
    return SubmitPool(checked_vo, tuple(sorted(members, key=lambda requirement: requirement.name))) if members else None


def parse_canonical(text: str) -> SubmitPool:
    """The pool that a canonical text defines.

    Raises:
        RequirementRefused: ``not-canonical`` unless the text is byte for byte what ``SubmitPool.canonical`` writes.
    """
    if len(text) > _LARGEST_CANONICAL or is_too_deep(text, _CANONICAL_DEPTH):
        raise _not_canonical("too large or too deep")
    try:
        document = json.loads(text)
    except ValueError as error:
        raise _not_canonical("not JSON") from error
    match document:
        case [str(head), str(vo), list(entries)] if head == FORMAT:
            pool = pool_of(vo, [_read_entry(entry) for entry in entries])
        case _:
            raise _not_canonical(f"not of the form [{FORMAT!r}, VO, requirements]")
    if pool is None or pool.canonical != text:
        raise _not_canonical("written or ordered in another way")
    return pool


def vo_name(vo: str) -> str:
    """A VO in the form used in pools: lower case.

    Raises:
        RequirementRefused: ``vo-invalid``.
    """
    name = vo.strip()
    if _VO.fullmatch(name) is None:
        raise RequirementRefused("vo-invalid", f"{vo[:80]!r} is no VO: up to 64 letters, digits, '.', '_', '-'")
    return name.lower()


def check_names(names: Iterable[str]) -> None:
    """Check the names of one set of requirements.

    Raises:
        RequirementRefused: ``too-many-requirements``, ``name-invalid``, ``standard-keyword``, ``duplicate-name``
            or ``name-case-clash``.
    """
    by_lower: dict[str, str] = {}
    for name in names:
        if len(by_lower) == MOST_REQUIREMENTS:
            raise RequirementRefused("too-many-requirements", f"more than {MOST_REQUIREMENTS}", name)
        if _NAME.fullmatch(name) is None:
            raise RequirementRefused(
                "name-invalid", "a name is a letter and up to 63 of letters, digits and '_'", name[:SHOWN_NAME]
            )
        lower = name.lower()
        if lower in STANDARD_KEYWORDS:
            hint = f"write {STANDARD_KEYWORDS[lower]} outside the section Requirements"
            raise RequirementRefused("standard-keyword", hint, name)
        if lower in by_lower:
            if by_lower[lower] == name:
                raise RequirementRefused("duplicate-name", "stands twice", name)
            raise RequirementRefused("name-case-clash", f"differs from {by_lower[lower]} by case only", name)
        by_lower[lower] = name


def _check_values(requirement: Requirement) -> None:
    if requirement.operator == "ge":
        is_canonical = len(requirement.values) == 1 and decimal_text(requirement.values[0]) == requirement.values[0]
    else:
        texts = tuple(sorted({checked_text(value) for value in requirement.values}))
        is_canonical = 0 < len(texts) <= MOST_VALUES and texts == requirement.values
    if not is_canonical:
        raise RequirementRefused("not-canonical", "the values are not in canonical form", requirement.name)


def _read_entry(entry: object) -> Requirement:
    match entry:
        case [str(name), "ge", str(number)]:
            return Requirement(name, "ge", (number,))
        case [str(name), "any", list(values)] if all(isinstance(value, str) for value in values):
            return Requirement(name, "any", tuple(values))
        case [str(name), str(operator), _] if operator in RESERVED_OPERATORS:
            raise RequirementRefused("operator-reserved", f"{operator!r} has no meaning in {FORMAT}", name[:80])
        case _:
            raise _not_canonical("an entry is not of the form [name, 'ge', number] or [name, 'any', texts]")


def _not_canonical(detail: str) -> RequirementRefused:
    return RequirementRefused("not-canonical", detail)
