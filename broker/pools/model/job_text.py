"""The requirements in a file of any kind (JDL, CFG, JSON), and the pool that they define."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from broker.pools.model.cfg import parse_cfg
from broker.pools.model.declarations import NOTHING_DECLARED, Declaration, Declarations, PropertyType
from broker.pools.model.description import (
    NumberLiteral,
    Place,
    RawValue,
    RequirementRefused,
    Scalar,
    Section,
    check_size,
    checked_text,
    decimal_text,
    requirements_of,
)
from broker.pools.model.jdl import parse_jdl
from broker.pools.model.requirement import (
    MOST_VALUES,
    SHOWN_NAME,
    Requirement,
    SubmitPool,
    check_names,
    pool_of,
    vo_name,
)
from broker.pools.model.tables import parse_json


def resolve_requirements(
    written: Mapping[str, RawValue], vo: str, declarations: Declarations = NOTHING_DECLARED
) -> SubmitPool | None:
    """The pool of a job's requirements; None if it has none: it is then matched as if there were no pools.

    The kind is that of the declaration, else that of the literal. Resources are never read: the identifier must not
    depend on them.

    Raises:
        RequirementRefused: with the name of the requirement.
    """
    vo_name(vo)
    check_names(written)
    return pool_of(vo, [_requirement(name, value, declarations.of(name)) for name, value in written.items()])


def _requirement(name: str, value: RawValue, declared: Declaration) -> Requirement:
    try:
        if _kind(value, declared.effective_kind) == "number":
            return Requirement(name, "ge", (_number(value, declared),))
        return Requirement(name, "any", _texts(value, declared))
    except RequirementRefused as refused:
        raise RequirementRefused(refused.code, refused.detail, name, refused.place) from refused


def _kind(value: RawValue, declared: PropertyType | None) -> PropertyType:
    if isinstance(value, Scalar):
        literal: PropertyType = "number" if isinstance(value, NumberLiteral) else "text"
        return declared or literal
    members = list(value)
    if any(not isinstance(member, Scalar) for member in members):
        raise RequirementRefused("nested-list", "a list has texts only")
    if not members:
        raise RequirementRefused("empty-list", "the list is empty: nothing could be eligible")
    if len(members) > MOST_VALUES:
        raise RequirementRefused("too-many-values", f"{len(members)} in the list; {MOST_VALUES} are allowed")
    numbers = sum(isinstance(member, NumberLiteral) for member in members)
    if declared == "number" or (declared is None and numbers == len(members)):
        raise RequirementRefused("numeric-list", "any of several numbers would mean the smallest; write that one")
    if declared is None and numbers:
        raise RequirementRefused("mixed-list", "texts and numbers in one list; put the numbers in quotes")
    return "text"


def _number(value: RawValue, declared: Declaration) -> str:
    try:
        text = decimal_text(_literal_text(value))
    except RequirementRefused as refused:
        unit = f" in {declared.unit}" if declared.unit else ""
        wanted = f"; declared as a number{unit}" if declared.effective_kind == "number" else ""
        raise RequirementRefused(refused.code, refused.detail + wanted) from refused
    number = Decimal(text)
    low, high = declared.smallest, declared.largest
    if (low is not None and number < low) or (high is not None and number > high):
        limits = f"{'' if low is None else low} .. {'' if high is None else high}"
        raise RequirementRefused("outside-declared-range", f"{text} is outside the declared range {limits}")
    return text


def _texts(value: RawValue, declared: Declaration) -> tuple[str, ...]:
    members = [value] if isinstance(value, Scalar) else list(value)
    texts = sorted({checked_text(_literal_text(member)) for member in members})
    if declared.choices:
        for text in texts:
            if text not in declared.choices:
                known = ", ".join(sorted(declared.choices))
                raise RequirementRefused("not-a-choice", f"{text!r} is none of the declared choices: {known}")
    return tuple(texts)


def _literal_text(value: RawValue) -> str:
    return value.text if isinstance(value, NumberLiteral) else str(value)


JobFormat = Literal["jdl", "cfg", "json"]
KINDS: dict[str, JobFormat] = {".jdl": "jdl", ".cfg": "cfg", ".json": "json"}
"""The kind of a file, by its suffix."""

_BEFORE = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|#[^\n]*|/\*(?s:.*?)\*/)*+")
_JSON_DEPTH = 8


@dataclass(frozen=True)
class JobText:
    """A job as it was written.

    Attributes:
        description: the whole content of a JDL or CFG file; empty for JSON.
        requirements: raw values by name; None if there is no section.
        places: places of the requirements, if the syntax has them.
    """

    description: Section
    requirements: Mapping[str, RawValue] | None
    places: Mapping[str, Place] = field(default_factory=dict)

    def pool(self, vo: str, declarations: Declarations) -> SubmitPool | None:
        """The pool that the requirements define.

        Raises:
            RequirementRefused: with name and place of the requirement.
        """
        try:
            return resolve_requirements(self.requirements or {}, vo, declarations)
        except RequirementRefused as refused:
            # errors cut names that are too long
            places = (place for name, place in self.places.items() if name[:SHOWN_NAME] == refused.name)
            raise refused.at(next(places, None)) from refused


def kind_of(text: str, suffix: str = "") -> JobFormat:
    """The kind of a file: by its suffix, else by its first character."""
    known = KINDS.get(suffix.lower())
    if known is not None:
        return known
    before = _BEFORE.match(text)
    first = text[before.end() if before else 0 :][:1]
    return "jdl" if first == "[" else "json" if first == "{" else "cfg"


def read_job(text: str, kind: JobFormat) -> JobText:
    """The job in a text.

    Raises:
        RequirementRefused: with the place or the name.
    """
    if kind == "json":
        return JobText(Section(), _read_json(text))
    description = parse_jdl(text) if kind == "jdl" else parse_cfg(text)
    section = requirements_of(description)
    if section is None:
        return JobText(description, None)
    values = {attribute.name: attribute.value for attribute in section if not isinstance(attribute.value, Section)}
    return JobText(description, values, {attribute.name: attribute.place for attribute in section})


def _read_json(text: str) -> dict[str, RawValue]:
    check_size(text)
    document = parse_json(text, _JSON_DEPTH)
    if not isinstance(document, dict):
        raise RequirementRefused("requirements-not-a-section", "the requirements are a JSON object", None, Place(1, 1))
    for name, value in document.items():
        members = value if isinstance(value, list) else [value]
        for member in members:
            _check_json(name, member, in_list=member is not value)
    return document


def _check_json(name: str, value: Any, *, in_list: bool) -> None:
    if value is None:
        raise RequirementRefused("missing-value", "null is no value", name)
    if isinstance(value, bool):
        raise RequirementRefused("boolean-not-supported", 'write "true" or "false" as text', name)
    if isinstance(value, dict):
        raise RequirementRefused("nested-section", "a requirement is a text, a number or a list of texts", name)
    if in_list and isinstance(value, list):
        raise RequirementRefused("nested-list", "a list has texts only", name)
