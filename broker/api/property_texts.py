"""What each property of the description means: words of the model's docstring, else of a list; its unit; an example.

The list is ``config/api-fields.yaml``: the same name means the same wherever it stands, or says so as ``Model.name``.
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
"""Instead of a model: names of parameters."""
UNITS: Mapping[str, str] = {
    "_s": "seconds", "_min": "minutes", "_h": "hours", "_days": "days", "_bytes": "bytes", "_kb": "kB", "_mb": "MB",
    "_mib": "MiB", "_gb": "GB", "_percent": "per cent", "_hs06": "HS06", "_hs06h": "HS06 hours", "_at": "UTC, ISO 8601",
    "_24h": "in 24 hours", "core_hours": "core hours", "_core_h": "core hours", "_ln": "natural logarithm",
}  # fmt: skip
"""The unit that the end of a name says."""
_ATTRIBUTE = re.compile(r"^ {4}(\w+): ?(.*)$")
_EXAMPLES: Mapping[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "string": "text", "null": None}
_FORMATS: Mapping[str, Any] = {"date-time": "2026-08-01T12:00:00Z", "binary": "bytes", "date": "2026-08-01"}


def add_texts(schemas: Mapping[str, dict[str, Any]]) -> None:
    """Give each property its words, unit and example; the attributes leave the words of their model."""
    for name, schema in schemas.items():
        whole, of_attributes = split_attributes(schema.get("description", ""))
        if whole:
            schema["description"] = whole
        for field, found in schema.get("properties", {}).items():
            words = found.get("description") or of_attributes.get(field) or listed_text(name, field)
            if words is not None:
                found["description"] = with_unit(field, words, found)
            if "examples" not in found and (example := example_of(name, field, found)) is not None:
                found["examples"] = [example]


def describe_parameter(parameter: dict[str, Any]) -> None:
    """Give a parameter words where the route has none, its unit, and an example."""
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
    r"""The words of a model without its section ``Attributes``, and the words of each attribute.

    >>> split_attributes("A thing.\n\nAttributes:\n    one: first\n        line.\n    two: second.")
    ('A thing.', {'one': 'first line.', 'two': 'second.'})
    """
    whole, _, section = docstring.partition("\nAttributes:\n")
    found: dict[str, str] = {}
    last = ""
    for line in section.splitlines():
        if match := _ATTRIBUTE.match(line):
            last = match[1]
            found[last] = match[2]
        elif last and line.strip():
            found[last] += f" {line.strip()}"
    return whole.strip(), {name: words.strip() for name, words in found.items()}


def unit_of(field: str) -> str | None:
    """The unit that a name says; None: none.

    >>> unit_of("age_s"), unit_of("ram_mb"), unit_of("queue")
    ('seconds', 'MB', None)
    """
    return next((unit for end, unit in UNITS.items() if field.endswith(end)), None)


def with_unit(field: str, words: str, schema: Mapping[str, Any]) -> str:
    """The words as a sentence with the unit behind them, where the property is a figure or an instant."""
    sentence = words[0].upper() + words[1:].rstrip(".") + "."
    unit = unit_of(field)
    is_figure = bool(kinds_of(schema) & {"integer", "number"}) or "date-time" in str(schema)
    return sentence if unit is None or not is_figure or unit in sentence else f"{sentence} Unit: {unit}."


def kinds_of(schema: Mapping[str, Any]) -> set[str]:
    """The types that a property may have; that of another schema is ``object``."""
    parts = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return {str(part.get("type", "object" if "$ref" in part else "any")) for part in parts}


def example_of(model: str, field: str, schema: Mapping[str, Any]) -> Any:
    """An example of a plain value; None for objects, whose own properties have them."""
    given = _given(model, field)
    if given is not None and len(given) > 1 and any(_fits(given[1], part) for part in _parts(schema)):
        return given[1]
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
    """Whether a value of the list is one of a property: names that stand in many models differ in their types."""
    if "enum" in schema or "const" in schema:
        return value in schema.get("enum", [schema.get("const")])
    kind = schema.get("type", "")
    is_one = isinstance(value, _OF_TYPE.get(kind, ())) and isinstance(value, bool) == (kind == "boolean")
    if kind == "array" and is_one:
        return all(_fits(one, schema.get("items", {})) for one in value)
    return is_one and schema.get("format") not in _FORMATS


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from schema.get("anyOf") or schema.get("oneOf") or [schema]


def listed_text(model: str, field: str) -> str | None:
    """The words of the list; None: it has none."""
    given = _given(model, field)
    return None if given is None else str(given[0])


def _given(model: str, field: str) -> list[Any] | None:
    known = listed()
    found = known.get(f"{model}.{field}", known.get(field))
    return found if found is None or isinstance(found, list) else [found]


@cache
def listed() -> dict[str, Any]:
    """The list as it is shipped: words, or words and an example, by name or ``Model.name``."""
    found: dict[str, Any] = read_yaml(path(FILE).read_text(encoding="utf-8"))
    return found
