"""Declarations of parameters as operators write them: in a table of their own, or in a ``JobDescription``."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from broker.pools.declarations import Declaration, Declarations, PropertyType
from broker.pools.literals import number_of, plain_text
from broker.pools.resource_documents import WrongResources

_KEYS = frozenset({"Type", "Unit", "Min", "Max", "Choices"})
_PREFIXES = ("Min", "Max", "Choices")


def declarations_of(document: object, path: str = "declared_types") -> Declarations:
    """The declarations in ``{name: "number" | "text"}``, or ``{name: {"Type", "Unit", "Min", "Max", "Choices"}}``.

    Raises:
        WrongResources: a table is no table, a key or a type means nothing, or a limit is no number.
    """
    if not isinstance(document, Mapping):
        raise WrongResources(path, "not a table")
    return Declarations({str(name): _declaration(value, f"{path}/{name}") for name, value in document.items()})


def job_description_of(document: object, path: str = "JobDescription") -> Declarations:
    """The declarations in a section ``JobDescription``.

    It has a section ``Requirements`` with a section for each name, and options ``Min<Name>``, ``Max<Name>`` and
    ``Choices<Name>`` beside it; its other options are of no concern here.

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
    own = document.get("Requirements", {})
    if not isinstance(own, Mapping):
        raise WrongResources(f"{path}/Requirements", "not a table")
    for name, value in own.items():
        said = value if isinstance(value, Mapping) else {"Type": value}
        tables[str(name)] = tables.get(str(name), {}) | dict(said)
    return declarations_of(tables, path)


def _declaration(value: object, path: str) -> Declaration:
    if isinstance(value, str):
        return Declaration(_kind(value, path))
    if not isinstance(value, Mapping):
        raise WrongResources(path, "neither a type nor a table")
    for key in value:
        if key not in _KEYS:
            raise WrongResources(f"{path}/{key}", f"means nothing here; known are {', '.join(sorted(_KEYS))}")
    kind = value.get("Type")
    unit = value.get("Unit")
    return Declaration(
        None if kind is None else _kind(kind, f"{path}/Type"),
        None if unit is None else str(unit),
        _limit(value.get("Min"), f"{path}/Min"),
        _limit(value.get("Max"), f"{path}/Max"),
        _choices(value.get("Choices", ()), f"{path}/Choices"),
    )


def _kind(value: object, path: str) -> PropertyType:
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
