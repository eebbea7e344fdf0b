"""What others depend on, as one document: commands, routes, codes, keys, entry points, variables and columns of tables.

``tests/contract/promises.json`` is what was promised. An entry that is gone or different is incompatible; one that is
new is an addition, unless it is an argument that must be given.
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
    """All that is promised now; the connection is to a database with the newest schema."""
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
        "sources": {key: {} for key in (one.name for one in (*GRID_SOURCES, *OFFERED_SOURCES))},
        "tables": _tables(connection),
        "variables": {f"BROKER_{name.upper()}": {} for name in Settings.model_fields},
    }


def differences(promised: Mapping[str, Any], now: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, bool]]:
    """What differs, each with whether it breaks somebody: place and what is the matter."""
    for name in sorted(promised.keys() | now.keys()):
        where = f"{place}{name}"
        if name not in now:
            yield f"{where} is gone", True
        elif name not in promised:
            needed = isinstance(now[name], Mapping) and now[name].get("required") is True and bool(place.count("/") > 1)
            yield f"{where} is new{' and must be given' if needed else ''}", needed
        elif isinstance(promised[name], Mapping) and isinstance(now[name], Mapping):
            yield from differences(promised[name], now[name], f"{where}/")
        elif promised[name] != now[name]:
            relaxed = name == "required" and promised[name] is True
            yield f"{where} is {now[name]!r}, was {promised[name]!r}", not relaxed


def with_additions(promised: Mapping[str, Any], now: Mapping[str, Any]) -> Document:
    """What was promised with what is new beside it; what is gone or different stays as it was promised."""
    found: Document = dict(promised)
    for name, value in now.items():
        if name not in promised:
            found[name] = value
        elif isinstance(promised[name], Mapping) and isinstance(value, Mapping):
            found[name] = with_additions(promised[name], value)
    return found


def _configuration() -> Iterator[tuple[str, Document]]:
    """Keys of the files in ``config/`` that operators write, with their types; options of agents by agent."""
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
        for part, one in schema.get("$defs", {}).items():
            if "properties" in one:
                yield f"{file}, {part}", _properties(one)


def _options(agent: str) -> type[BaseModel]:
    if agent in registry.BROKERAGES:
        return tables_class(brokerage(agent)).options_type
    module, _, name = registry.CLASSES[agent].partition(":")
    found: type[BaseModel] = getattr(importlib.import_module(module), name).options_type
    return found


def _properties(schema: Mapping[str, Any]) -> Document:
    needed = schema.get("required", ())
    fields = schema.get("properties", {}).items()
    return {name: {"type": type_of(one), "required": name in needed} for name, one in fields}


def _commands(command: object, words: str) -> Iterator[tuple[str, Document]]:
    if isinstance(command, TyperCommand):
        options = {
            name: {"required": bool(one.required), "type": _kind(one)}
            for one in command.params
            for name in (*one.opts, *one.secondary_opts)
        }
        yield words, options
    elif isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from _commands(inner, f"{words} {name}")


def _kind(parameter: Any) -> str:
    """``argument``, ``flag``, or ``value``, with whether several may be given."""
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
            given = {
                one["name"]: {"in": one["in"], "required": one.get("required", False), "type": type_of(one["schema"])}
                for one in operation.get("parameters", ())
            }
            body = {
                kind: type_of(one["schema"])
                for kind, one in operation.get("requestBody", {}).get("content", {}).items()
            }
            answers = {
                status: {kind: type_of(one.get("schema", {})) for kind, one in response.get("content", {}).items()}
                for status, response in operation["responses"].items()
                if status.startswith("2")
            }
            yield f"{method.upper()} {path}", {"parameters": given, "body": body, "answers": answers}


def _schemas(api: Mapping[str, Any]) -> Iterator[tuple[str, Document]]:
    """Fields by schema; of those that clients send, whether a field must be given."""
    schemas = api["components"]["schemas"]
    sent = _reached(schemas, {name for path in api["paths"].values() for one in path.values() for name in _sent(one)})
    for name, schema in schemas.items():
        required = schema.get("required", ()) if name in sent else None
        fields = {}
        for field, value in schema.get("properties", {}).items():
            fields[field] = {"type": type_of(value)} | ({} if required is None else {"required": field in required})
        yield name, fields | {f"value {value}": {} for value in schema.get("enum", ())}


def _sent(operation: Mapping[str, Any]) -> set[str]:
    return _references(operation.get("requestBody", {}))


def _references(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        own = {value["$ref"].rpartition("/")[2]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(one) for one in value.values()))
    return set().union(*(_references(one) for one in value)) if isinstance(value, list) else set()


def _reached(schemas: Mapping[str, Any], names: set[str]) -> set[str]:
    found: set[str] = set()
    todo = set(names)
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= _references(schemas.get(name, {})) - found
    return found


def type_of(schema: Mapping[str, Any]) -> str:
    """A type in one word, such as ``array of TaskLine`` or ``integer or null``."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(sorted({type_of(one) for one in schema.get("anyOf", schema.get("oneOf"))}))
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"array of {type_of(schema.get('items', {}))}"
    form = schema.get("format")
    return f"{kind} ({form})" if form else kind


def _tables(connection: sa.Connection) -> Document:
    """Columns and types of the tables of ours; the days of partitioned ones are one table."""
    found: Document = {}
    rows = connection.execute(
        sa.text("""
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE n.nspname = 'broker' AND c.relkind IN ('r', 'p', 'v', 'm') AND NOT c.relispartition
          AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY 1, 2""")
    )
    for table, column, kind in rows:
        found.setdefault(f"broker.{table}", {})[column] = {"type": kind}
    return found


def promised(path: Path = FILE) -> Document:
    """What is on record."""
    found: Document = json.loads(path.read_text(encoding="utf-8"))
    return found


def as_text(document: Mapping[str, Any]) -> str:
    """The document as it is stored: one line an entry of a kind, so that a review sees each change."""
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
