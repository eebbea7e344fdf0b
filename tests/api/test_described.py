"""The API description explains each property and parameter with unit and example; operations have short names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import cleandoc
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel

from broker.api.app import described
from broker.api.browsing import operation_shown, operations
from broker.api.property_texts import kinds_of, listed, split_attributes, unit_of

FIGURES = {"integer", "number"}


@cache
def description() -> dict[str, Any]:
    return described()


def properties() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for model, schema in description()["components"]["schemas"].items():
        for name, definition in schema.get("properties", {}).items():
            yield model, name, definition


def each_operation() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, methods in description()["paths"].items():
        for operation in methods.values():
            yield path, operation


def test_every_property_and_parameter_is_described() -> None:
    definitions = list(properties())
    assert len(definitions) > 1000
    assert [(model, name) for model, name, definition in definitions if not definition.get("description")] == []
    parameters = [
        (path, definition) for path, operation in each_operation() for definition in operation.get("parameters", ())
    ]
    assert len(parameters) > 100
    assert [(path, definition["name"]) for path, definition in parameters if not definition.get("description")] == []


def models(base: type[BaseModel] = BaseModel) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield from models(model)
        if model.__module__.startswith("broker."):
            yield model


def test_attributes_in_docstrings_of_models_are_their_fields() -> None:
    description()
    documented = {model: split_attributes(cleandoc(model.__doc__ or ""))[1] for model in models()}
    assert sum(map(len, documented.values())) > 500
    unknown = {
        model.__name__: names
        for model, texts in documented.items()
        if (names := sorted(name for name in texts if not hasattr(model, name) and name not in model.model_fields))
    }
    assert unknown == {}


def test_figures_state_their_unit() -> None:
    figures = [
        (model, name, definition["description"], unit)
        for model, name, definition in properties()
        if (unit := unit_of(name)) and kinds_of(definition) & FIGURES
    ]
    assert len(figures) > 50
    assert [(model, name) for model, name, text, unit in figures if unit not in text] == []


def test_every_plain_value_has_a_valid_example() -> None:
    missing, invalid = [], []
    for model, name, definition in properties():
        kinds = kinds_of(definition) - {"null"}
        if "examples" not in definition:
            missing += [(model, name)] if kinds and not kinds & {"object", "any", "array"} else []
            continue
        referenced = {"components": description()["components"]} if "#/components/" in json.dumps(definition) else {}
        checked_schema = {**definition, **referenced}
        if not jsonschema_rs.is_valid(checked_schema, definition["examples"][0]):
            invalid.append((model, name, definition["examples"][0]))
    assert (missing, invalid) == ([], [])


def test_operations_have_short_unique_names() -> None:
    names = [operation["operationId"] for _, operation in each_operation()]
    assert len(names) == len(set(names)) > 100
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_]{2,39}", name)] == []


def test_models_are_described_without_the_lists_of_their_properties() -> None:
    schemas = description()["components"]["schemas"]
    assert [name for name, schema in schemas.items() if "Attributes:" in schema.get("description", "")] == []


def test_every_listed_text_is_used() -> None:
    names = {name for _, name, _ in properties()} | {f"{model}.{name}" for model, name, _ in properties()}
    names |= {parameter["name"] for _, operation in each_operation() for parameter in operation.get("parameters", ())}
    assert sorted(listed().keys() - names) == []


@pytest.mark.parametrize("name", [field.operation for field in operations(described()).operations])
def test_every_operation_has_a_page_with_its_inputs_and_outputs(name: str) -> None:
    page = operation_shown(description(), name)
    assert page is not None and page.line.summary
    assert page.call.startswith("curl ") and "{" not in page.call.partition("$BROKER")[2]
    assert all(field.words for model in (*page.sent, *page.answered) for field in model.fields)


def test_an_unknown_operation() -> None:
    assert operation_shown(description(), "nothing") is None
