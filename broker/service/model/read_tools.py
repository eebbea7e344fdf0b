"""The answers of the API as tools of an assistant, made from its own description: there is no second list. Pure.

A tool is an operation whose policy writes nothing and whose answer is JSON. A description that marks no policy, or one
that is not known here, gives none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from broker.errors import WRONG_USAGE, BrokerError, did_you_mean
from gridbroker_client.names import name_in_path

V1 = "/api/v1/"
JSON, EVENTS = "application/json", "text/event-stream"
DIALECTS = frozenset({"panda-client"})
"""Topics that say in PanDA's own form what others say."""
ROLLED_BACK = frozenset({"ask_feasibility"})
"""Operations that write, and roll it back: they are no tools, as numbers of the database are used up."""
PEOPLE = frozenset({"user"})
"""Names in a path that stand there as names of people do."""
AFTER, CURSOR, FIELDS, BODY = "after", "cursor", "fields", "body"
_COMPONENTS, _DEFINITIONS = "#/components/schemas/", "#/$defs/"
_OWN = {
    CURSOR: {"type": "string", "description": "A cursor of an answer to the same question: what follows, or was cut."},
    FIELDS: {
        "type": "string",
        "description": "The fields that are wanted, as `a,b.c`, of the answer or of each item of a list; none: all.",
    },
}
_FIRST_SENTENCE = ". "


@dataclass(frozen=True)
class Tool:
    """One answer.

    Attributes:
        name: of the operation.
        topic: the part of the API that it belongs to.
        about: what it answers.
        method: of HTTP.
        path: below ``/api/v1/``, with names in braces.
        answers: name of the schema of its answer; empty where it has none.
        in_path: these names.
        in_query: parameters of the query.
        schema: JSON Schema of the arguments.
    """

    name: str
    topic: str
    about: str
    method: str
    path: str
    answers: str
    in_path: tuple[str, ...]
    in_query: tuple[str, ...]
    schema: Mapping[str, Any] = field(hash=False)

    @property
    def first_sentence(self) -> str:
        """What it answers, in one sentence."""
        return self.about.replace("\n", " ").partition(_FIRST_SENTENCE)[0].rstrip(".") + "."


@dataclass(frozen=True)
class Question:
    """A request that asks what a tool is asked.

    Attributes:
        method: of HTTP.
        path: below ``/api/v1/``, quoted.
        query: parameters by name.
        body: the document that is sent; None without one.
    """

    method: str
    path: str
    query: Mapping[str, Any]
    body: Any = None


class WrongName(BrokerError):
    """A value of a path that is no number or name."""

    exit_status = WRONG_USAGE


class UnknownTopic(BrokerError):
    """No tool is about it."""

    exit_status = WRONG_USAGE


def read_tools(description: Mapping[str, Any], reading: Set[str]) -> tuple[Tool, ...]:
    """The tools, in the order of the description.

    Args:
        description: of the API (OpenAPI 3.1).
        reading: names of the policies of routes that write nothing.
    """
    schemas = description.get("components", {}).get("schemas", {})
    return tuple(
        _tool(path, method, operation, schemas)
        for path, operations in description.get("paths", {}).items()
        for method, operation in operations.items()
        if path.startswith(V1) and operation.get("x-policy") in reading and _answers_json(operation)
    )


def about_topics(tools: Iterable[Tool], topics: Iterable[str]) -> tuple[Tool, ...]:
    """The tools that are about any of ``topics``; all without one.

    Raises:
        UnknownTopic: there is none about it.
    """
    found, wanted = tuple(tools), tuple(topics)
    known = sorted({one.topic for one in found})
    for topic in wanted:
        if topic not in known:
            remedy = did_you_mean(topic, known, f"known are {', '.join(known)}")
            raise UnknownTopic(f"there is no topic {topic}", "--topic", remedy)
    return found if not wanted else tuple(one for one in found if one.topic in wanted)


def question_of(tool: Tool, arguments: Mapping[str, Any], after: Any = None) -> Question:
    """What to ask the API.

    Args:
        tool: that is asked.
        arguments: that its schema allows.
        after: the API's own cursor, where a page follows another.

    Raises:
        WrongName: what is to stand in the path cannot stand there.
    """
    path = tool.path
    for name in tool.in_path:
        path = path.replace("{" + name + "}", _part(name, str(arguments[name]), tool.method))
    query = {name: arguments[name] for name in tool.in_query if arguments.get(name) is not None}
    if after is not None and AFTER in tool.in_query:
        query[AFTER] = after
    return Question(tool.method, path, query, arguments.get(BODY))


def _part(name: str, value: str, method: str) -> str:
    """A value as a part of a path, which leads nowhere else; names of queues may hold ``/`` where nothing is sent."""
    if {"", ".", ".."}.intersection(value.split("/")):
        raise WrongName(f"no name: {value[:100]!r}", name, "give a number or name as an answer shows it")
    if name in PEOPLE:
        return name_in_path(value)
    return quote(value, safe="/" if method == "GET" else "")


def _answers_json(operation: Mapping[str, Any]) -> bool:
    content = operation.get("responses", {}).get("200", {}).get("content", {})
    left_out = operation["operationId"] in ROLLED_BACK or DIALECTS.intersection(operation.get("tags", ()))
    return JSON in content and EVENTS not in content and not left_out


def _tool(path: str, method: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Tool:
    parameters = [one for one in operation.get("parameters", ()) if one["in"] in ("path", "query")]
    properties = {one["name"]: _described(one) for one in parameters if one["name"] != AFTER}
    required = [one["name"] for one in parameters if one.get("required")]
    sent = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if sent is not None:
        properties[BODY], required = sent["schema"], [*required, BODY]
    properties |= _OWN if method == "get" else {CURSOR: _OWN[CURSOR]}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    in_query = [one["name"] for one in parameters if one["in"] == "query"]
    return Tool(
        name=operation["operationId"],
        topic=next(iter(operation.get("tags", ())), ""),
        about=str(operation.get("description") or operation.get("summary") or operation["operationId"]),
        method=method.upper(),
        path=path.removeprefix(V1),
        answers=_schema_of(operation),
        in_path=tuple(one["name"] for one in parameters if one["in"] == "path"),
        in_query=(*in_query, *((FIELDS,) if method == "get" else ())),
        schema=_with_definitions(schema, schemas),
    )


def _schema_of(operation: Mapping[str, Any]) -> str:
    schema = operation["responses"]["200"]["content"][JSON].get("schema", {})
    return str(schema.get("$ref", "")).removeprefix(_COMPONENTS)


def _described(parameter: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(parameter.get("schema", {}))
    if parameter.get("description"):
        found["description"] = parameter["description"]
    return found


def _with_definitions(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with all that it refers to, so that it stands alone."""
    names: dict[str, Any] = {}
    found: dict[str, Any] = _referring(schema, names)
    while missing := [name for name, one in names.items() if one is None]:
        for name in missing:
            names[name] = _referring(schemas.get(name, {}), names)
    return found | ({"$defs": names} if names else {})


def _referring(value: Any, names: dict[str, Any]) -> Any:
    if isinstance(value, Mapping):
        target = value.get("$ref")
        if isinstance(target, str) and target.startswith(_COMPONENTS):
            name = target.removeprefix(_COMPONENTS)
            names.setdefault(name, None)
            return {**value, "$ref": _DEFINITIONS + name}
        return {name: _referring(one, names) for name, one in value.items()}
    return [_referring(one, names) for one in value] if isinstance(value, list) else value
