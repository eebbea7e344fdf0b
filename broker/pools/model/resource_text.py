"""Resources and declarations from a file (JSON, YAML or CFG): nested tables, checked value by value."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from broker.pools.model.cfg import RESOURCE_LIMITS, parse_cfg
from broker.pools.model.declarations import NOTHING_DECLARED, Declaration, Declarations, PropertyType
from broker.pools.model.description import NumberLiteral, Section, check_size, number_of, plain_text
from broker.pools.model.resources import ComputingElement, Level, Parameters, ParameterValue, Resources, Site
from broker.pools.model.tables import parse_json, yaml_tables

_LONGEST_NAME = 255
_SITE_KEYS = frozenset({"VO", "params", "vo_params", "ces"})
_CE_KEYS = frozenset({"VO", "params", "vo_params", "queues"})
_QUEUE_KEYS = frozenset({"VO", "params", "vo_params"})


class WrongResources(ValueError):
    """A document that does not have the shape of resources; ``path`` is where."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path or 'the document'}: {what}")
        self.path = path


@dataclass(frozen=True)
class Finding:
    """A value in the resources that is ignored.

    Attributes:
        path: path of the value, with slashes.
        what: what is wrong with it.
    """

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def resources_of(document: object) -> tuple[Resources, tuple[Finding, ...]]:
    """The resources in a document, and what was left out.

    A site is ``{"VO": [...], "params": {...}, "vo_params": {vo: {...}}, "ces": {name: CE}}``; a CE has ``queues`` in
    place of ``ces``, a queue neither. The document is ``{name: site}``.

    Raises:
        WrongResources: a table is no table, or has an unknown key.
    """
    reader = _Reader()
    sites = {name: reader.site(value, name) for name, value in reader.named(document, "")}
    return Resources(sites), tuple(reader.findings)


def unusable_numbers(resources: Resources, numbers: frozenset[str]) -> tuple[Finding, ...]:
    """The values that are no numbers though declared as such: these queues take no job that requires the parameter."""
    findings = []
    for site_name, site in resources.sites.items():
        levels = [(site_name, site.level)]
        for ce_name, ce in site.ces.items():
            levels.append((f"{site_name}/{ce_name}", ce.level))
            levels += [(f"{site_name}/{ce_name}/{name}", queue) for name, queue in ce.queues.items()]
        for path, level in levels:
            for parameters in (level.common, *level.by_vo.values()):
                findings += [
                    Finding(f"{path}/{name}", f"{value!r} is not a number")
                    for name, value in parameters.items()
                    if name in numbers and value != () and (not isinstance(value, str) or number_of(value) is None)
                ]
    return tuple(dict.fromkeys(findings))


class _Reader:
    """Reads resources and collects what it leaves out."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def site(self, value: object, path: str) -> Site:
        table = self._table(value, path, _SITE_KEYS)
        ces = {name: self._ce(ce, f"{path}/{name}") for name, ce in self.named(table.get("ces", {}), path)}
        return Site(self._level(table, path), ces)

    def _ce(self, value: object, path: str) -> ComputingElement:
        table = self._table(value, path, _CE_KEYS)
        queues = {
            name: self._level(self._table(queue, f"{path}/{name}", _QUEUE_KEYS), f"{path}/{name}")
            for name, queue in self.named(table.get("queues", {}), path)
        }
        return ComputingElement(self._level(table, path), queues)

    def _level(self, table: Mapping[str, Any], path: str) -> Level:
        by_vo: dict[str, Parameters] = {}
        for vo, own in _mapping(table.get("vo_params", {}), f"{path}/vo_params").items():
            lower = str(vo).strip().lower()
            if lower in by_vo:
                self._leave_out(f"{path}/vo_params/{vo}", "the VO stands twice; the last one counts")
            by_vo[lower] = self._parameters(own, f"{path}/vo_params/{vo}")
        return Level(self._parameters(table.get("params", {}), f"{path}/params"), by_vo, self._vos(table, path))

    def _vos(self, table: Mapping[str, Any], path: str) -> tuple[str, ...]:
        value = table.get("VO", ())
        names = value.split(",") if isinstance(value, str) else () if value is None else value
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise WrongResources(f"{path}/VO", "not a list of names; nobody knows who may use it")
        return tuple(sorted({name.strip().lower() for name in names} - {""}))

    def _parameters(self, value: object, path: str) -> Parameters:
        parameters: dict[str, ParameterValue] = {}
        for name, parameter in _mapping({} if value is None else value, path).items():
            parameters[str(name)] = self._value(parameter, f"{path}/{name}")
        return parameters

    def _value(self, value: object, path: str) -> ParameterValue:
        if not isinstance(value, list | tuple):
            return self._text(value, path) or ()
        # Empty texts offer nothing. A list stays a list, even of one text: it is never compared as a number.
        return tuple(dict.fromkeys(text for text in (self._text(member, path) for member in value) if text))

    def _text(self, value: object, path: str) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int | float | NumberLiteral):
            text = plain_text(value.text if isinstance(value, NumberLiteral) else str(value))
            if all(unicodedata.category(character) not in ("Cc", "Cs") for character in text):
                return text
            self._leave_out(path, "has a control character; it counts as not there")
        else:
            self._leave_out(path, "neither a text nor a list of texts; it counts as not there")
        return ""

    def named(self, value: object, path: str) -> list[tuple[str, object]]:
        """The entries of a table of sites, CEs or queues."""
        entries = []
        for key, entry in _mapping({} if value is None else value, path).items():
            name = str(key)
            if not name.strip() or "/" in name or len(name) > _LONGEST_NAME or not name.isprintable():
                self._leave_out(f"{path}/{name!r}", "empty, too long, or with '/' or control characters: left out")
            else:
                entries.append((name, entry))
        return entries

    def _table(self, value: object, path: str, known: frozenset[str]) -> Mapping[str, Any]:
        table = _mapping({} if value is None else value, path)
        for key in table:
            if key not in known:
                raise WrongResources(f"{path}/{key}", f"means nothing here; known are {', '.join(sorted(known))}")
        return table

    def _leave_out(self, path: str, what: str) -> None:
        self.findings.append(Finding(path, what))


def _mapping(value: object, path: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise WrongResources(path, "not a table")
    return value


_KEYS = frozenset({"Type", "Unit", "Min", "Max", "Choices"})
_PREFIXES = ("Min", "Max", "Choices")


def declarations_of(document: object, path: str = "declared_types") -> Declarations:
    """The declarations in ``{name: "number" | "text"}``, or ``{name: {"Type", "Unit", "Min", "Max", "Choices"}}``.

    Raises:
        WrongResources: a table is no table, a key or a type is unknown, or a limit is no number.
    """
    if not isinstance(document, Mapping):
        raise WrongResources(path, "not a table")
    return Declarations({str(name): _declaration(value, f"{path}/{name}") for name, value in document.items()})


def job_description_of(document: object, path: str = "JobDescription") -> Declarations:
    """The declarations in a section ``JobDescription``.

    It has a section ``Requirements`` with a section for each name, and next to it options ``Min<Name>``, ``Max<Name>``
    and ``Choices<Name>``; other options are ignored.

    Raises:
        WrongResources: as ``declarations_of``.
    """
    if not isinstance(document, Mapping):
        raise WrongResources(path, "not a table")
    tables: dict[str, dict[str, Any]] = {}
    for option, value in document.items():
        for prefix in _PREFIXES:
            if str(option).startswith(prefix) and len(option) > len(prefix):
                tables.setdefault(str(option)[len(prefix) :], {})[prefix] = value
    requirements = document.get("Requirements", {})
    if not isinstance(requirements, Mapping):
        raise WrongResources(f"{path}/Requirements", "not a table")
    for name, value in requirements.items():
        table = value if isinstance(value, Mapping) else {"Type": value}
        tables[str(name)] = tables.get(str(name), {}) | dict(table)
    return declarations_of(tables, path)


def _declaration(value: object, path: str) -> Declaration:
    if isinstance(value, str):
        return Declaration(_property_kind(value, path))
    if not isinstance(value, Mapping):
        raise WrongResources(path, "neither a type nor a table")
    for key in value:
        if key not in _KEYS:
            raise WrongResources(f"{path}/{key}", f"means nothing here; known are {', '.join(sorted(_KEYS))}")
    kind = value.get("Type")
    unit = value.get("Unit")
    return Declaration(
        None if kind is None else _property_kind(kind, f"{path}/Type"),
        None if unit is None else str(unit),
        _limit(value.get("Min"), f"{path}/Min"),
        _limit(value.get("Max"), f"{path}/Max"),
        _choices(value.get("Choices", ()), f"{path}/Choices"),
    )


def _property_kind(value: object, path: str) -> PropertyType:
    match str(value).strip().lower():
        case "number":
            return "number"
        case "text":
            return "text"
    raise WrongResources(path, f"{str(value)[:40]!r} is no type; known are Number and Text")


def _limit(value: object, path: str) -> Decimal | None:
    if value is None:
        return None
    number = number_of(value if isinstance(value, str) else str(getattr(value, "text", value)))
    if number is None:
        raise WrongResources(path, "not a number")
    return number


def _choices(value: object, path: str) -> frozenset[str]:
    members = [value] if isinstance(value, str) else value
    if not isinstance(members, list | tuple) or not all(isinstance(member, str) for member in members):
        raise WrongResources(path, "not a list of texts")
    return frozenset(plain_text(member) for member in members) - {""}


ResourceFormat = Literal["json", "yaml", "cfg"]
KINDS: dict[str, ResourceFormat] = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".cfg": "cfg"}
_JSON_DEPTH = 16
_BRACE_LINE = re.compile(r"^[ \t]*[^\s:#]*[ \t]*\{[ \t]*\r?$", re.MULTILINE)
_INNER = {"CEs": "ces", "Queues": "queues", "VOs": "vo_params"}


@dataclass(frozen=True)
class ResourceFile:
    """The content of a file with resources.

    Attributes:
        resources: the sites.
        declarations: None when the file has none.
        findings: what was left out of the resources.
    """

    resources: Resources
    declarations: Declarations | None
    findings: tuple[Finding, ...]


def read_resources(text: str, suffix: str = "") -> ResourceFile:
    """The resources in a text; the suffix of the file gives its kind, else its content does.

    Raises:
        RequirementRefused: the text cannot be read; with the place.
        WrongResources: it does not have the shape of resources; with the path.
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
    declarations = None
    if "JobDescription" in document:
        declarations = job_description_of(document["JobDescription"])
    if "declared_types" in document:
        declarations = (declarations or NOTHING_DECLARED).overridden_by(declarations_of(document["declared_types"]))
    return _file(document["resources"], declarations)


def _file(sites: object, declared: Declarations | None) -> ResourceFile:
    resources, findings = resources_of(sites)
    return ResourceFile(resources, declared, findings)


def _kind(text: str) -> ResourceFormat:
    start = text.lstrip("\ufeff \t\r\n")[:1]
    return "json" if start == "{" else "cfg" if _BRACE_LINE.search(text) else "yaml"


def _plain(section: Section) -> dict[str, Any]:
    return {
        attribute.name: _plain(attribute.value) if isinstance(attribute.value, Section) else attribute.value
        for attribute in section
    }


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
    """A site, a CE or a queue in its JSON form: options become parameters, sections become inner tables."""
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
