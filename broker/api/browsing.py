"""The API description for people: operations, with the input and output of each. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

REFERENCE = "#/components/schemas/"
"""Prefix of the references to objects in the description; the name follows."""
MOST_MODELS = 60
"""Maximum number of models shown for one operation."""


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OperationLine(_FrozenModel):
    """An operation: its short name, method, path, what it does, its group, and who may."""

    operation: str
    method: str
    path: str
    summary: str
    group: str
    policy: str


class FieldLine(_FrozenModel):
    """A property or parameter: where it stands, its type, words with its unit, and an example as JSON."""

    name: str
    place: str
    type: str
    required: bool
    words: str
    example: str | None


class ModelShown(_FrozenModel):
    """An object with its properties."""

    model: str
    words: str
    fields: tuple[FieldLine, ...]


class OperationShown(_FrozenModel):
    """An operation with all that goes in and comes out.

    Attributes:
        call: how it is asked with curl.
        sent: objects of the body; the first is the body itself.
        answered: objects of the answer; the first is the answer itself.
    """

    line: OperationLine
    words: str
    call: str
    parameters: tuple[FieldLine, ...]
    sent: tuple[ModelShown, ...]
    answered: tuple[ModelShown, ...]


class OperationList(_FrozenModel):
    """All operations, by group."""

    operations: tuple[OperationLine, ...]


def operations(description: Mapping[str, Any]) -> OperationList:
    """Return all operations of a description."""
    lines = [_line(path, method, operation) for path, method, operation in _each(description)]
    return OperationList(operations=tuple(sorted(lines, key=lambda line: (line.group, line.path, line.method))))


def operation_shown(description: Mapping[str, Any], name: str) -> OperationShown | None:
    """Return one operation by its name, or None if there is none."""
    for path, method, operation in _each(description):
        if operation["operationId"] == name:
            body = operation.get("requestBody", {}).get("content", {})
            answers = (
                operation.get("responses", {})
                .get("200", operation.get("responses", {}).get("202", {}))
                .get("content", {})
            )
            parameters = tuple(_parameter(each) for each in operation.get("parameters", ()))
            return OperationShown(
                line=_line(path, method, operation),
                words=operation.get("description", ""),
                call=_call(path, method, operation.get("parameters", ()), _sample(description, _schema(body))),
                parameters=parameters,
                sent=_models(description, _schema(body)),
                answered=_models(description, _schema(answers)),
            )
    return None


def _each(description: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _line(path: str, method: str, operation: Mapping[str, Any]) -> OperationLine:
    words = operation.get("description", "").strip().partition("\n")[0] or operation.get("summary", "")
    group = next(iter(operation.get("tags", ())), "")
    return OperationLine(
        operation=operation["operationId"], method=method, path=path, summary=words, group=group,
        policy=operation.get("x-policy", ""),
    )  # fmt: skip


def _schema(content: Mapping[str, Any]) -> Mapping[str, Any]:
    first: Mapping[str, Any] = next(iter(content.values()), {})
    schema: Mapping[str, Any] = first.get("schema", {})
    return schema


def _models(description: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[ModelShown, ...]:
    """Return the objects that make up a schema, nearest first."""
    schemas = description["components"]["schemas"]
    names = reachable(schemas, dict.fromkeys(references(schema)))
    return tuple(_model(name, schemas[name]) for name in names[:MOST_MODELS])


def reachable(schemas: Mapping[str, Any], roots: Iterable[str]) -> list[str]:
    """Return the names of the given objects and of all objects they consist of, nearest first."""
    names = list(roots)
    for name in names:
        names += [reference for reference in dict.fromkeys(references(schemas[name])) if reference not in names]
    return names


def references(schema: Any) -> Iterator[str]:
    """Yield the names of the objects that a schema refers to, in order and with repetitions."""
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(REFERENCE)
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def _model(name: str, schema: Mapping[str, Any]) -> ModelShown:
    required = schema.get("required", ())
    fields = tuple(
        _field(field, property_schema, field in required)
        for field, property_schema in schema.get("properties", {}).items()
    )
    return ModelShown(model=name, words=schema.get("description", ""), fields=fields)


def _field(name: str, schema: Mapping[str, Any], required: bool) -> FieldLine:
    examples = schema.get("examples") or ()
    return FieldLine(
        name=name, place="", type=type_of(schema), required=required, words=schema.get("description", ""),
        example=json.dumps(examples[0], ensure_ascii=False) if examples else None,
    )  # fmt: skip


def _parameter(entry: Mapping[str, Any]) -> FieldLine:
    example = entry.get("example")
    return FieldLine(
        name=entry["name"], place=entry["in"], type=type_of(entry.get("schema", {})),
        required=entry.get("required", False), words=entry.get("description", ""),
        example=None if example is None else json.dumps(example, ensure_ascii=False),
    )  # fmt: skip


def type_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a value, in a word or two.

    >>> type_of({"anyOf": [{"type": "integer"}, {"type": "null"}]})
    'integer or null'
    >>> type_of({"type": "array", "items": {"$ref": "#/components/schemas/Alarm"}})
    'list of Alarm'
    """
    if parts := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(type_of(part) for part in parts))
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(REFERENCE)
    if schema.get("enum"):
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    return {"date-time": "instant", "binary": "file"}.get(schema.get("format", ""), str(schema.get("type", "any")))


def _sample(description: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a body with the examples of the required properties; None if there is no body."""
    name = next(references(schema), None)
    if name is None:
        return None
    model = description["components"]["schemas"][name]
    properties = model.get("properties", {})
    return {field: (properties[field].get("examples") or [None])[0] for field in model.get("required", ())}


def _call(path: str, method: str, parameters: Any, body: Mapping[str, Any] | None) -> str:
    """Return the curl command for an operation; the address and the token are shell variables."""
    examples = {parameter["name"]: parameter.get("example", "x") for parameter in parameters}
    filled = re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: str(examples.get(match[1], "x")), path)
    required = [parameter for parameter in parameters if parameter["in"] == "query" and parameter.get("required")]
    query = "&".join(f"{parameter['name']}={parameter.get('example', 'x')}" for parameter in required)
    words = ["curl", "-H", '"Authorization: Bearer $TOKEN"']
    if method != "GET":
        words += ["-X", method]
    if body is not None:
        body_text = json.dumps(body).replace("'", "\\u0027")
        words += ["-H", '"Content-Type: application/json"', "-d", f"'{body_text}'"]
    return " ".join([*words, f'"$BROKER{filled}{"?" + query if query else ""}"'])
