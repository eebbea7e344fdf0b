"""Resources as operators write them: nested tables of sites, CEs and queues, checked value by value.

A table of the wrong shape is refused with its path. A single odd value or name does not spoil the rest: it is dropped,
or counts as not there, and is reported.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.pools.literals import NumberLiteral, number_of, plain_text
from broker.pools.resources import ComputingElement, Level, Parameters, ParameterValue, Resources, Site

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
    """Something in the resources that counts as not there.

    Attributes:
        path: of the value, with slashes.
        what: is wrong with it.
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
        WrongResources: a table is no table, or has a key that means nothing.
    """
    reader = _Reader()
    sites = {name: reader.site(value, name) for name, value in reader.named(document, "")}
    return Resources(sites), tuple(reader.findings)


def unusable_numbers(resources: Resources, numbers: frozenset[str]) -> tuple[Finding, ...]:
    """The values that are none although a number is declared: such a queue takes no job that asks for the parameter."""
    found = []
    for site_name, site in resources.sites.items():
        levels = [(site_name, site.level)]
        for ce_name, ce in site.ces.items():
            levels.append((f"{site_name}/{ce_name}", ce.level))
            levels += [(f"{site_name}/{ce_name}/{name}", queue) for name, queue in ce.queues.items()]
        for path, level in levels:
            for parameters in (level.common, *level.by_vo.values()):
                found += [
                    Finding(f"{path}/{name}", f"{value!r} is not a number")
                    for name, value in parameters.items()
                    if name in numbers and value != () and (not isinstance(value, str) or number_of(value) is None)
                ]
    return tuple(dict.fromkeys(found))


class _Reader:
    """Collects what it leaves out."""

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
        found: dict[str, ParameterValue] = {}
        for name, one in _mapping({} if value is None else value, path).items():
            found[str(name)] = self._value(one, f"{path}/{name}")
        return found

    def _value(self, value: object, path: str) -> ParameterValue:
        if not isinstance(value, list | tuple):
            return self._text(value, path) or ()
        # What is empty offers nothing; a list stays a list, even of one: no number is asked of it.
        return tuple(dict.fromkeys(text for text in (self._text(one, path) for one in value) if text))

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
        found = []
        for key, entry in _mapping({} if value is None else value, path).items():
            name = str(key)
            if not name.strip() or "/" in name or len(name) > _LONGEST_NAME or not name.isprintable():
                self._leave_out(f"{path}/{name!r}", "empty, too long, or with '/' or control characters: left out")
            else:
                found.append((name, entry))
        return found

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
