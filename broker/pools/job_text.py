"""The requirements in a file of any kind: JDL, CFG, or a JSON object that has nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from broker.pools.cfg import parse_cfg
from broker.pools.declarations import Declarations
from broker.pools.description import Section, check_size, requirements_of
from broker.pools.jdl import parse_jdl
from broker.pools.json_tables import parse_json
from broker.pools.literals import RawValue
from broker.pools.problems import Place, RequirementRefused
from broker.pools.requirement import SHOWN_NAME, SubmitPool
from broker.pools.resolve import resolve_requirements

JobFormat = Literal["jdl", "cfg", "json"]
KINDS: dict[str, JobFormat] = {".jdl": "jdl", ".cfg": "cfg", ".json": "json"}
"""The kind of a file, by the end of its name."""

_BEFORE = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|#[^\n]*|/\*(?s:.*?)\*/)*+")
_JSON_DEPTH = 8


@dataclass(frozen=True)
class JobText:
    """A job as it was written.

    Attributes:
        description: everything that a JDL or CFG file says; empty for JSON.
        requirements: raw values by name; None when there is no section.
        places: of the requirements, where the syntax knows them.
    """

    description: Section
    requirements: Mapping[str, RawValue] | None
    places: Mapping[str, Place] = field(default_factory=dict)

    def pool(self, vo: str, declarations: Declarations) -> SubmitPool | None:
        """The pool that is meant.

        Raises:
            RequirementRefused: with name and place of the requirement.
        """
        try:
            return resolve_requirements(self.requirements or {}, vo, declarations)
        except RequirementRefused as refused:
            # names that are too long are cut where they are told
            places = (place for name, place in self.places.items() if name[:SHOWN_NAME] == refused.name)
            raise refused.at(next(places, None)) from refused


def kind_of(text: str, suffix: str = "") -> JobFormat:
    """The kind of a file: by the end of its name, else by its first character."""
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
    values = {one.name: one.value for one in section if not isinstance(one.value, Section)}
    return JobText(description, values, {one.name: one.place for one in section})


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
