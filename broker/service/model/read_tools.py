"""The API's answers as tools for an assistant, generated from the API description, without a second list. Pure.

A tool is an operation whose policy only reads and whose answer is JSON. A description with no policy, or with an
unknown one, yields no tool.
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
"""Topics that repeat others in PanDA's own form."""
ROLLED_BACK = frozenset({"ask_feasibility"})
"""Operations that write and roll back: they are not tools, since they use up numbers of the database."""
PEOPLE = frozenset({"user"})
"""Path parameters that are encoded as names of people are."""
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
    """One tool, which returns one answer.

    Attributes:
        name: name of the operation.
        topic: the part of the API it belongs to.
        about: what it answers.
        method: HTTP method.
        path: path below ``/api/v1/``, with parameter names in braces.
        answers: name of the schema of its answer; empty if it has none.
        in_path: names of the path parameters.
        in_query: names of the query parameters.
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
        """The first sentence of what it answers."""
        return self.about.replace("\n", " ").partition(_FIRST_SENTENCE)[0].rstrip(".") + "."


@dataclass(frozen=True)
class Question:
    """The API request for a call of a tool.

    Attributes:
        method: HTTP method.
        path: path below ``/api/v1/``, quoted.
        query: parameters by name.
        body: the document to send; None without one.
    """

    method: str
    path: str
    query: Mapping[str, Any]
    body: Any = None


class WrongName(BrokerError):
    """A value in the path is not a number or name."""

    exit_status = WRONG_USAGE


class UnknownTopic(BrokerError):
    """No tool has this topic."""

    exit_status = WRONG_USAGE


def read_tools(description: Mapping[str, Any], reading: Set[str]) -> tuple[Tool, ...]:
    """Return the tools, in the order of the description.

    Args:
        description: the API description (OpenAPI 3.1).
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
    """Return the tools about any of ``topics``; all if there are none.

    Raises:
        UnknownTopic: no tool is about one of them.
    """
    all_tools, topic_names = tuple(tools), tuple(topics)
    known_topics = sorted({tool.topic for tool in all_tools})
    for topic in topic_names:
        if topic not in known_topics:
            remedy = did_you_mean(topic, known_topics, f"known are {', '.join(known_topics)}")
            raise UnknownTopic(f"there is no topic {topic}", "--topic", remedy)
    return all_tools if not topic_names else tuple(tool for tool in all_tools if tool.topic in topic_names)


def question_of(tool: Tool, arguments: Mapping[str, Any], after: Any = None) -> Question:
    """Return the API request for a call of a tool.

    Args:
        tool: the tool to call.
        arguments: arguments that its schema allows.
        after: the API's own cursor, to continue with a further page.

    Raises:
        WrongName: a value cannot be part of the path.
    """
    path = tool.path
    for name in tool.in_path:
        path = path.replace("{" + name + "}", _part(name, str(arguments[name]), tool.method))
    query = {name: arguments[name] for name in tool.in_query if arguments.get(name) is not None}
    if after is not None and AFTER in tool.in_query:
        query[AFTER] = after
    return Question(tool.method, path, query, arguments.get(BODY))


def _part(name: str, value: str, method: str) -> str:
    """Quote a value as a path segment that leads nowhere else; queue names may hold ``/`` if nothing is sent."""
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
    parameters = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] in ("path", "query")]
    properties = {parameter["name"]: _described(parameter) for parameter in parameters if parameter["name"] != AFTER}
    required = [parameter["name"] for parameter in parameters if parameter.get("required")]
    body_content = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if body_content is not None:
        properties[BODY], required = body_content["schema"], [*required, BODY]
    properties |= _OWN if method == "get" else {CURSOR: _OWN[CURSOR]}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    in_query = [parameter["name"] for parameter in parameters if parameter["in"] == "query"]
    return Tool(
        name=operation["operationId"],
        topic=next(iter(operation.get("tags", ())), ""),
        about=str(operation.get("description") or operation.get("summary") or operation["operationId"]),
        method=method.upper(),
        path=path.removeprefix(V1),
        answers=_schema_of(operation),
        in_path=tuple(parameter["name"] for parameter in parameters if parameter["in"] == "path"),
        in_query=(*in_query, *((FIELDS,) if method == "get" else ())),
        schema=_with_definitions(schema, schemas),
    )


def _schema_of(operation: Mapping[str, Any]) -> str:
    schema = operation["responses"]["200"]["content"][JSON].get("schema", {})
    return str(schema.get("$ref", "")).removeprefix(_COMPONENTS)


def _described(parameter: Mapping[str, Any]) -> dict[str, Any]:
    schema = dict(parameter.get("schema", {}))
    if parameter.get("description"):
        schema["description"] = parameter["description"]
    return schema


def _with_definitions(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with everything it refers to, so that it is self-contained."""
    names: dict[str, Any] = {}
    result: dict[str, Any] = _referring(schema, names)
    while missing := [name for name, definition in names.items() if definition is None]:
        for name in missing:
            names[name] = _referring(schemas.get(name, {}), names)
    return result | ({"$defs": names} if names else {})


def _referring(value: Any, names: dict[str, Any]) -> Any:
    if isinstance(value, Mapping):
        target = value.get("$ref")
        if isinstance(target, str) and target.startswith(_COMPONENTS):
            name = target.removeprefix(_COMPONENTS)
            names.setdefault(name, None)
            return {**value, "$ref": _DEFINITIONS + name}
        return {name: _referring(item, names) for name, item in value.items()}
    return [_referring(item, names) for item in value] if isinstance(value, list) else value
