"""Resources and declarations from a file: JSON, YAML or CFG.

The file is the table of sites alone, or has it under ``resources`` with ``declared_types`` or ``JobDescription`` beside
it; with both, what ``declared_types`` says counts. In CFG sites stand in ``Resources { Sites { ... } }``, below them
``CEs`` and ``Queues``, and at each level ``VOs`` for what counts for one VO.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from broker.pools.cfg import RESOURCE_LIMITS, parse_cfg
from broker.pools.declaration_documents import declarations_of, job_description_of
from broker.pools.declarations import NOTHING_DECLARED, Declarations
from broker.pools.description import Section, check_size
from broker.pools.json_tables import parse_json
from broker.pools.resource_documents import Finding, WrongResources, resources_of
from broker.pools.resources import Resources
from broker.pools.yaml_tables import yaml_tables

ResourceFormat = Literal["json", "yaml", "cfg"]
KINDS: dict[str, ResourceFormat] = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".cfg": "cfg"}
_JSON_DEPTH = 16
_BRACE_LINE = re.compile(r"^[ \t]*[^\s:#]*[ \t]*\{[ \t]*\r?$", re.MULTILINE)
_INNER = {"CEs": "ces", "Queues": "queues", "VOs": "vo_params"}


@dataclass(frozen=True)
class ResourceFile:
    """What a file says.

    Attributes:
        resources: the sites.
        declarations: None when the file has none.
        findings: what was left out of the resources.
    """

    resources: Resources
    declarations: Declarations | None
    findings: tuple[Finding, ...]


def read_resources(text: str, suffix: str = "") -> ResourceFile:
    """The resources in a text; the end of the file's name tells its kind, else its content.

    Raises:
        RequirementRefused: it cannot be read; with the place.
        WrongResources: it has another shape; with the path.
    """
    check_size(text, RESOURCE_LIMITS.largest_bytes)
    kind = KINDS.get(suffix.lower()) or _kind(text)
    if kind == "cfg":
        return _read_cfg(_plain(parse_cfg(text, RESOURCE_LIMITS)))
    document = parse_json(text, _JSON_DEPTH) if kind == "json" else yaml_tables(text)
    if not isinstance(document, Mapping):
        raise WrongResources("", "not a table")
    if "resources" not in document:
        return _file(document, None)
    declared = None
    if "JobDescription" in document:
        declared = job_description_of(document["JobDescription"])
    if "declared_types" in document:
        declared = (declared or NOTHING_DECLARED).overridden_by(declarations_of(document["declared_types"]))
    return _file(document["resources"], declared)


def _file(sites: object, declared: Declarations | None) -> ResourceFile:
    resources, findings = resources_of(sites)
    return ResourceFile(resources, declared, findings)


def _kind(text: str) -> ResourceFormat:
    start = text.lstrip("\ufeff \t\r\n")[:1]
    return "json" if start == "{" else "cfg" if _BRACE_LINE.search(text) else "yaml"


def _plain(section: Section) -> dict[str, Any]:
    return {one.name: _plain(one.value) if isinstance(one.value, Section) else one.value for one in section}


def _read_cfg(document: dict[str, Any]) -> ResourceFile:
    operations = _table(document.get("Operations", {}), "Operations")
    described = document.get("JobDescription", operations.get("JobDescription"))
    declared = None if described is None else job_description_of(described)
    outer = _table(document.get("Resources", document), "Resources")
    if "Sites" not in outer:
        raise WrongResources("Resources", "has no section Sites")
    sites = _table(outer["Sites"], "Resources/Sites")
    return _file({name: _level(_table(site, name), name) for name, site in sites.items()}, declared)


def _level(section: Mapping[str, Any], path: str) -> dict[str, Any]:
    """A site, a CE or a queue in the form that JSON has: its options are parameters, its sections the inner tables."""
    level: dict[str, Any] = {"params": {}}
    for name, value in section.items():
        inner = f"{path}/{name}"
        if name == "VO":
            level["VO"] = value
        elif name == "VOs":
            level["vo_params"] = value
        elif name in _INNER:
            named = _table(value, inner)
            level[_INNER[name]] = {
                key: _level(_table(one, f"{inner}/{key}"), f"{inner}/{key}") for key, one in named.items()
            }
        elif isinstance(value, Mapping):
            raise WrongResources(inner, f"means nothing here; known sections are {', '.join(_INNER)}")
        else:
            level["params"][name] = value
    return level


def _table(value: object, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise WrongResources(path, "not a section")
    return value
