"""The public interface as one document: commands, routes, codes, keys, entry points, variables and table columns.

``tests/contract/promises.json`` holds the promised interface. A missing or changed entry is incompatible; a new entry
is an addition, unless it is a required argument.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import typer
from pydantic import BaseModel
from typer.core import TyperArgument, TyperCommand, TyperGroup

import gridbroker_client
from agents.brokerage.agent import tables_class
from agents.service import registry
from agents.service.configuration import AgentsConfiguration, ProcessSettings
from broker.api.configuration import ApiConfiguration
from broker.api.problem_codes import PROBLEM_CODES
from broker.brokerages.offered import offered
from broker.brokerages.registry import brokerage
from broker.cli.application import build_app
from broker.decisions.answers.known_reasons import known_reasons
from broker.errors import EXIT_STATUSES
from broker.feature import agent_classes
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.rules import contract
from broker.settings import Settings
from broker.snapshot.source_list import GRID_SOURCES, OFFERED_SOURCES
from tests.docs.source_tree import ROOT

FILE = ROOT / "tests" / "contract" / "promises.json"
OPENAPI = ROOT / "docs" / "reference" / "openapi.json"
GROUPS = ("broker.brokerages", "broker.features", "broker.rules", "broker.sources", "broker.steps", "broker.policies")
METHODS = ("get", "put", "post", "delete", "patch")
Document = dict[str, Any]


def promises(connection: sa.Connection) -> Document:
    """Return the current interface; the connection leads to a database with the newest schema."""
    api = json.loads(OPENAPI.read_text(encoding="utf-8"))
    return {
        "agents": {key: {} for key in [*agent_classes(), *offered()]},
        "client": {key: {} for key in gridbroker_client.__all__},
        "configuration": dict(_configuration()),
        "commands": dict(_commands(typer.main.get_command(build_app()), "broker")),
        "entry_points": {key: {} for key in GROUPS},
        "exit_statuses": {str(status): name for status, (name, _) in EXIT_STATUSES.items()},
        "gdpconfig": {key.key: {"type": str(key.type), "unit": key.unit} for key in shipped_catalogue()},
        "problem_codes": {key: {} for key in PROBLEM_CODES},
        "reason_codes": {key: {} for key in known_reasons()},
        "rule_contract": {key: {} for key in contract.__all__},
        "routes": dict(_routes(api)),
        "schemas": dict(_schemas(api)),
        "sources": {key: {} for key in (source.name for source in (*GRID_SOURCES, *OFFERED_SOURCES))},
        "tables": _tables(connection),
        "variables": {f"BROKER_{name.upper()}": {} for name in Settings.model_fields},
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, bool]]:
    """Yield each difference as a text and whether it breaks users of the interface."""
    for name in sorted(before.keys() | now.keys()):
        path = f"{place}{name}"
        if name not in now:
            yield f"{path} is gone", True
        elif name not in before:
            breaks = isinstance(now[name], Mapping) and now[name].get("required") is True and bool(place.count("/") > 1)
            yield f"{path} is new{' and must be given' if breaks else ''}", breaks
        elif isinstance(before[name], Mapping) and isinstance(now[name], Mapping):
            yield from differences(before[name], now[name], f"{path}/")
        elif before[name] != now[name]:
            relaxed = name == "required" and before[name] is True
            yield f"{path} is {now[name]!r}, was {before[name]!r}", not relaxed


def with_additions(before: Mapping[str, Any], now: Mapping[str, Any]) -> Document:
    """Add new entries to the promised ones; missing and changed entries stay as promised."""
    merged: Document = dict(before)
    for name, value in now.items():
        if name not in before:
            merged[name] = value
        elif isinstance(before[name], Mapping) and isinstance(value, Mapping):
            merged[name] = with_additions(before[name], value)
    return merged


def _configuration() -> Iterator[tuple[str, Document]]:
    """Yield the keys of the files in ``config/`` with their types, and the options of each agent."""
    models: dict[str, type[BaseModel]] = {
        "api.yaml": ApiConfiguration,
        "broker.yaml": ProcessSettings,
        "agents.yaml": AgentsConfiguration,
    }
    for name in registry.NAMES:
        models[f"agents.yaml, options of {name}"] = _options(name)
    for file, model in models.items():
        schema = model.model_json_schema()
        yield file, _properties(schema)
        for part, part_schema in schema.get("$defs", {}).items():
            if "properties" in part_schema:
                yield f"{file}, {part}", _properties(part_schema)


def _options(agent: str) -> type[BaseModel]:
    if agent in registry.BROKERAGES:
        return tables_class(brokerage(agent)).options_type
    module, _, name = registry.CLASSES[agent].partition(":")
    options_type: type[BaseModel] = getattr(importlib.import_module(module), name).options_type
    return options_type


def _properties(schema: Mapping[str, Any]) -> Document:
    required = schema.get("required", ())
    fields = schema.get("properties", {}).items()
    return {name: {"type": type_of(field_schema), "required": name in required} for name, field_schema in fields}


def _commands(command: object, words: str) -> Iterator[tuple[str, Document]]:
    if isinstance(command, TyperCommand):
        options = {
            name: {"required": bool(parameter.required), "type": _kind(parameter)}
            for parameter in command.params
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        yield words, options
    elif isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from _commands(inner, f"{words} {name}")


def _kind(parameter: Any) -> str:
    """Return ``argument``, ``flag`` or ``value``, in the plural if several may be given."""
    if isinstance(parameter, TyperArgument):
        return "argument" if parameter.nargs == 1 else "arguments"
    if parameter.is_flag:
        return "flag"
    return "values" if parameter.multiple else "value"


def _routes(api: Mapping[str, Any]) -> Iterator[tuple[str, Document]]:
    for path, operations in api["paths"].items():
        for method in METHODS:
            if method not in operations:
                continue
            operation = operations[method]
            parameters = {
                part["name"]: {
                    "in": part["in"],
                    "required": part.get("required", False),
                    "type": type_of(part["schema"]),
                }
                for part in operation.get("parameters", ())
            }
            bodies = {
                kind: type_of(part["schema"])
                for kind, part in operation.get("requestBody", {}).get("content", {}).items()
            }
            answers = {
                status: {kind: type_of(part.get("schema", {})) for kind, part in response.get("content", {}).items()}
                for status, response in operation["responses"].items()
                if status.startswith("2")
            }
            yield f"{method.upper()} {path}", {"parameters": parameters, "body": bodies, "answers": answers}


def _schemas(api: Mapping[str, Any]) -> Iterator[tuple[str, Document]]:
    """Yield the fields of each schema; for schemas that clients send, also which fields are required."""
    schemas = api["components"]["schemas"]
    request_schemas = _reachable(
        schemas,
        {
            name
            for path in api["paths"].values()
            for operation in path.values()
            for name in _request_references(operation)
        },
    )
    for name, schema in schemas.items():
        required = schema.get("required", ()) if name in request_schemas else None
        fields = {}
        for field, value in schema.get("properties", {}).items():
            fields[field] = {"type": type_of(value)} | ({} if required is None else {"required": field in required})
        yield name, fields | {f"value {value}": {} for value in schema.get("enum", ())}


def _request_references(operation: Mapping[str, Any]) -> set[str]:
    return _references(operation.get("requestBody", {}))


def _references(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        reference = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set()
        return reference.union(*(_references(item) for item in value.values()))
    return set().union(*(_references(item) for item in value)) if isinstance(value, list) else set()


def _reachable(schemas: Mapping[str, Any], names: set[str]) -> set[str]:
    reached: set[str] = set()
    todo = set(names)
    while todo:
        name = todo.pop()
        reached.add(name)
        todo |= _references(schemas.get(name, {})) - reached
    return reached


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a short name of a type, such as ``array of TaskLine`` or ``integer or null``."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(sorted({type_of(option) for option in schema.get("anyOf", schema.get("oneOf"))}))
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"array of {type_of(schema.get('items', {}))}"
    form = schema.get("format")
    return f"{kind} ({form})" if form else kind


def _tables(connection: sa.Connection) -> Document:
    """Return the columns and types of the broker's own tables; a partitioned table counts once."""
    tables: Document = {}
    rows = connection.execute(
        sa.text("""
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE n.nspname = 'broker' AND c.relkind IN ('r', 'p', 'v', 'm') AND NOT c.relispartition
          AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY 1, 2""")
    )
    for table, column, kind in rows:
        tables.setdefault(f"broker.{table}", {})[column] = {"type": kind}
    return tables


def read_promises(path: Path = FILE) -> Document:
    """Read the promised interface from its file."""
    document: Document = json.loads(path.read_text(encoding="utf-8"))
    return document


def as_text(document: Mapping[str, Any]) -> str:
    """Format the document for its file: one line for each entry, so that a review sees each change."""
    lines = ["{"]
    kinds = sorted(document)
    for kind in kinds:
        entries = sorted(document[kind])
        lines.append(f"  {json.dumps(kind)}: {{")
        for entry in entries:
            comma = "" if entry == entries[-1] else ","
            lines.append(f"    {json.dumps(entry)}: {json.dumps(document[kind][entry], sort_keys=True)}{comma}")
        lines.append("  }" + ("" if kind == kinds[-1] else ","))
    return "\n".join([*lines, "}", ""])
