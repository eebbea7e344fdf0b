"""The description of the API as it is read by people: operations, and what goes in and comes out of each. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

REFERENCE = "#/components/schemas/"
"""How the description refers to one of its objects: this, and the name."""
MOST_MODELS = 60
"""Models of one operation that are shown."""


class _Shown(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OperationLine(_Shown):
    """An operation: its short name, method, path, what it does, its group, and who may."""

    operation: str
    method: str
    path: str
    summary: str
    group: str
    policy: str


class FieldLine(_Shown):
    """A property or parameter: where it stands, its type, words with its unit, and an example as JSON."""

    name: str
    place: str
    type: str
    required: bool
    words: str
    example: str | None


class ModelShown(_Shown):
    """An object with its properties."""

    model: str
    words: str
    fields: tuple[FieldLine, ...]


class OperationShown(_Shown):
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


class OperationList(_Shown):
    """All operations, by group."""

    operations: tuple[OperationLine, ...]


def operations(description: Mapping[str, Any]) -> OperationList:
    """All operations of a description."""
    found = [_line(path, method, one) for path, method, one in _each(description)]
    return OperationList(operations=tuple(sorted(found, key=lambda one: (one.group, one.path, one.method))))


def operation_shown(description: Mapping[str, Any], name: str) -> OperationShown | None:
    """One operation by its name; None: there is none."""
    for path, method, one in _each(description):
        if one["operationId"] == name:
            body = one.get("requestBody", {}).get("content", {})
            answers = one.get("responses", {}).get("200", one.get("responses", {}).get("202", {})).get("content", {})
            parameters = tuple(_parameter(each) for each in one.get("parameters", ()))
            return OperationShown(
                line=_line(path, method, one),
                words=one.get("description", ""),
                call=_call(path, method, one.get("parameters", ()), _sample(description, _schema(body))),
                parameters=parameters,
                sent=_models(description, _schema(body)),
                answered=_models(description, _schema(answers)),
            )
    return None


def _each(description: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, one in methods.items():
            yield path, method.upper(), one


def _line(path: str, method: str, one: Mapping[str, Any]) -> OperationLine:
    words = one.get("description", "").strip().partition("\n")[0] or one.get("summary", "")
    group = next(iter(one.get("tags", ())), "")
    return OperationLine(
        operation=one["operationId"], method=method, path=path, summary=words, group=group,
        policy=one.get("x-policy", ""),
    )  # fmt: skip


def _schema(content: Mapping[str, Any]) -> Mapping[str, Any]:
    first: Mapping[str, Any] = next(iter(content.values()), {})
    found: Mapping[str, Any] = first.get("schema", {})
    return found


def _models(description: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[ModelShown, ...]:
    """The objects that a schema is made of, those that are nearer first."""
    known = description["components"]["schemas"]
    names = reachable(known, dict.fromkeys(references(schema)))
    return tuple(_model(name, known[name]) for name in names[:MOST_MODELS])


def reachable(schemas: Mapping[str, Any], roots: Iterable[str]) -> list[str]:
    """The names of some objects and of all that they are made of, those that are nearer first."""
    found = list(roots)
    for name in found:
        found += [one for one in dict.fromkeys(references(schemas[name])) if one not in found]
    return found


def references(schema: Any) -> Iterator[str]:
    """The names of the objects that a schema refers to, in their order, as often as it does."""
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
    fields = tuple(_field(field, found, field in required) for field, found in schema.get("properties", {}).items())
    return ModelShown(model=name, words=schema.get("description", ""), fields=fields)


def _field(name: str, schema: Mapping[str, Any], required: bool) -> FieldLine:
    examples = schema.get("examples") or ()
    return FieldLine(
        name=name, place="", type=type_of(schema), required=required, words=schema.get("description", ""),
        example=json.dumps(examples[0], ensure_ascii=False) if examples else None,
    )  # fmt: skip


def _parameter(one: Mapping[str, Any]) -> FieldLine:
    example = one.get("example")
    return FieldLine(
        name=one["name"], place=one["in"], type=type_of(one.get("schema", {})), required=one.get("required", False),
        words=one.get("description", ""), example=None if example is None else json.dumps(example, ensure_ascii=False),
    )  # fmt: skip


def type_of(schema: Mapping[str, Any]) -> str:
    """The type of a value, in a word or two.

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
    """A body with the examples of what must be given; None: there is no body."""
    name = next(references(schema), None)
    if name is None:
        return None
    model = description["components"]["schemas"][name]
    known = model.get("properties", {})
    return {field: (known[field].get("examples") or [None])[0] for field in model.get("required", ())}


def _call(path: str, method: str, parameters: Any, body: Mapping[str, Any] | None) -> str:
    """How an operation is asked with curl; the address and the token are variables of the shell."""
    examples = {one["name"]: one.get("example", "x") for one in parameters}
    filled = re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: str(examples.get(match[1], "x")), path)
    asked = [one for one in parameters if one["in"] == "query" and one.get("required")]
    query = "&".join(f"{one['name']}={one.get('example', 'x')}" for one in asked)
    words = ["curl", "-H", '"Authorization: Bearer $TOKEN"']
    if method != "GET":
        words += ["-X", method]
    if body is not None:
        sent = json.dumps(body).replace("'", "\\u0027")
        words += ["-H", '"Content-Type: application/json"', "-d", f"'{sent}'"]
    return " ".join([*words, f'"$BROKER{filled}{"?" + query if query else ""}"'])
