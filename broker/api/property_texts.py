"""Texts for each property of the description: from the model's docstring or a list, with its unit and an example.

The list is ``config/api-fields.yaml``: a name has the same meaning everywhere, unless listed as ``Model.name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from broker.resources import path
from broker.yaml_text import read_yaml

FILE = "config/api-fields.yaml"
PARAMETERS = "parameters"
"""Section of the list for parameter names, in place of a model."""
UNITS: Mapping[str, str] = {
    "_s": "seconds", "_min": "minutes", "_h": "hours", "_days": "days", "_bytes": "bytes", "_kb": "kB", "_mb": "MB",
    "_mib": "MiB", "_gb": "GB", "_percent": "per cent", "_hs06": "HS06", "_hs06h": "HS06 hours", "_at": "UTC, ISO 8601",
    "_24h": "in 24 hours", "core_hours": "core hours", "_core_h": "core hours", "_ln": "natural logarithm",
}  # fmt: skip
"""The unit that the end of a name denotes."""
_ATTRIBUTES = re.compile(r"^ {4}(\w+(?:, \w+)*): ?(.*)$")
_EXAMPLES: Mapping[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "string": "text", "null": None}
_FORMATS: Mapping[str, Any] = {"date-time": "2026-08-01T12:00:00Z", "binary": "bytes", "date": "2026-08-01"}


def add_texts(schemas: Mapping[str, dict[str, Any]]) -> None:
    """Give each property its text, unit and example, and remove the attributes from the text of their model."""
    for name, schema in schemas.items():
        text, of_attributes = split_attributes(schema.get("description", ""))
        if text:
            schema["description"] = text
        for field, property_schema in schema.get("properties", {}).items():
            words = property_schema.get("description") or of_attributes.get(field) or listed_text(name, field)
            if words is not None:
                property_schema["description"] = with_unit(field, words, property_schema)
            if "examples" not in property_schema and (example := example_of(name, field, property_schema)) is not None:
                property_schema["examples"] = [example]


def describe_parameter(parameter: dict[str, Any]) -> None:
    """Give a parameter a text if its route has none, its unit, and an example."""
    name, schema = parameter["name"], parameter.get("schema", {})
    words = parameter.get("description") or schema.get("description") or listed_text(PARAMETERS, name)
    if words is not None:
        parameter["description"] = with_unit(name, words, schema)
    if (
        not {"example", "examples"} & {*parameter, *schema}
        and (example := example_of(PARAMETERS, name, schema)) is not None
    ):
        parameter["example"] = example


def split_attributes(docstring: str) -> tuple[str, dict[str, str]]:
    r"""Split the docstring of a model into its text and the text of each attribute in ``Attributes``.

    Attributes that share a line share its text.

    >>> split_attributes("A thing.\n\nAttributes:\n    one: first\n        line.\n    two, three: others.")
    ('A thing.', {'one': 'first line.', 'two': 'others.', 'three': 'others.'})
    """
    text, _, section = docstring.partition("\nAttributes:\n")
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if match := _ATTRIBUTES.match(line):
            names = match[1].split(", ")
            texts |= dict.fromkeys(names, match[2])
        elif line.strip():
            texts |= {name: f"{texts[name]} {line.strip()}" for name in names}
    return text.strip(), {name: words.strip() for name, words in texts.items()}


def unit_of(field: str) -> str | None:
    """Return the unit that a name denotes, or None.

    >>> unit_of("age_s"), unit_of("ram_mb"), unit_of("queue")
    ('seconds', 'MB', None)
    """
    return next((unit for end, unit in UNITS.items() if field.endswith(end)), None)


def with_unit(field: str, words: str, schema: Mapping[str, Any]) -> str:
    """Return the text as a sentence, followed by the unit if the property is a figure or an instant."""
    sentence = words[0].upper() + words[1:].rstrip(".") + "."
    unit = unit_of(field)
    is_figure = bool(kinds_of(schema) & {"integer", "number"}) or "date-time" in str(schema)
    return sentence if unit is None or not is_figure or unit in sentence else f"{sentence} Unit: {unit}."


def kinds_of(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a property may have; a referenced schema counts as ``object``."""
    parts = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return {str(part.get("type", "object" if "$ref" in part else "any")) for part in parts}


def example_of(model: str, field: str, schema: Mapping[str, Any]) -> Any:
    """Return an example of a plain value; None for objects, whose own properties have examples."""
    entry = _listed_entry(model, field)
    if entry is not None and len(entry) > 1 and any(_fits(entry[1], part) for part in _parts(schema)):
        return entry[1]
    for part in _parts(schema):
        if "const" in part:
            return part["const"]
        if part.get("enum"):
            return part["enum"][0]
        if "default" in schema and schema["default"] not in (None, "", [], {}):
            return schema["default"]
        if part.get("type") == "array":
            inner = example_of(model, field, part.get("items", {}))
            return None if inner is None else [inner]
        if part.get("format") in _FORMATS:
            return _FORMATS[part["format"]]
        if part.get("type") in _EXAMPLES and part.get("type") != "null":
            return max(part.get("minimum", 1), 1) if part["type"] == "integer" else _EXAMPLES[part["type"]]
    return None


_OF_TYPE: Mapping[str, tuple[type, ...]] = {
    "integer": (int,), "number": (int, float), "boolean": (bool,), "string": (str,), "array": (list,),
}  # fmt: skip


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a listed value fits a property: names shared by many models differ in their types."""
    if "enum" in schema or "const" in schema:
        return value in schema.get("enum", [schema.get("const")])
    kind = schema.get("type", "")
    is_one = isinstance(value, _OF_TYPE.get(kind, ())) and isinstance(value, bool) == (kind == "boolean")
    if kind == "array" and is_one:
        return all(_fits(item, schema.get("items", {})) for item in value)
    return is_one and schema.get("format") not in _FORMATS


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from schema.get("anyOf") or schema.get("oneOf") or [schema]


def listed_text(model: str, field: str) -> str | None:
    """Return the text in the list, or None."""
    entry = _listed_entry(model, field)
    return None if entry is None else str(entry[0])


def _listed_entry(model: str, field: str) -> list[Any] | None:
    entries = listed()
    entry = entries.get(f"{model}.{field}", entries.get(field))
    return entry if entry is None or isinstance(entry, list) else [entry]


@cache
def listed() -> dict[str, Any]:
    """Return the shipped list: a text, or a text and an example, by name or ``Model.name``."""
    entries: dict[str, Any] = read_yaml(path(FILE).read_text(encoding="utf-8"))
    return entries
