"""The description says what each property and parameter means, with unit and example; operations have short names."""

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
        for name, found in schema.get("properties", {}).items():
            yield model, name, found


def each_operation() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, methods in description()["paths"].items():
        for one in methods.values():
            yield path, one


def test_every_property_and_parameter_is_described() -> None:
    found = list(properties())
    assert len(found) > 1000
    assert [(model, name) for model, name, one in found if not one.get("description")] == []
    parameters = [(path, one) for path, operation in each_operation() for one in operation.get("parameters", ())]
    assert len(parameters) > 100
    assert [(path, one["name"]) for path, one in parameters if not one.get("description")] == []


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


def test_figures_say_their_unit() -> None:
    figures = [
        (model, name, one["description"], unit)
        for model, name, one in properties()
        if (unit := unit_of(name)) and kinds_of(one) & FIGURES
    ]
    assert len(figures) > 50
    assert [(model, name) for model, name, words, unit in figures if unit not in words] == []


def test_every_plain_value_has_an_example_that_fits() -> None:
    without, wrong = [], []
    for model, name, one in properties():
        kinds = kinds_of(one) - {"null"}
        if "examples" not in one:
            without += [(model, name)] if kinds and not kinds & {"object", "any", "array"} else []
            continue
        referred = {"components": description()["components"]} if "#/components/" in json.dumps(one) else {}
        checked = {**one, **referred}
        if not jsonschema_rs.is_valid(checked, one["examples"][0]):
            wrong.append((model, name, one["examples"][0]))
    assert (without, wrong) == ([], [])


def test_operations_have_short_names_of_their_own() -> None:
    names = [one["operationId"] for _, one in each_operation()]
    assert len(names) == len(set(names)) > 100
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_]{2,39}", name)] == []


def test_models_are_described_without_the_lists_of_their_properties() -> None:
    schemas = description()["components"]["schemas"]
    assert [name for name, one in schemas.items() if "Attributes:" in one.get("description", "")] == []


def test_every_line_of_the_list_is_used() -> None:
    names = {name for _, name, _ in properties()} | {f"{model}.{name}" for model, name, _ in properties()}
    names |= {one["name"] for _, operation in each_operation() for one in operation.get("parameters", ())}
    assert sorted(listed().keys() - names) == []


@pytest.mark.parametrize("name", [one.operation for one in operations(described()).operations])
def test_every_operation_has_a_page_with_all_that_goes_in_and_comes_out(name: str) -> None:
    found = operation_shown(description(), name)
    assert found is not None and found.line.summary
    assert found.call.startswith("curl ") and "{" not in found.call.partition("$BROKER")[2]
    assert all(one.words for model in (*found.sent, *found.answered) for one in model.fields)


def test_an_operation_that_there_is_not() -> None:
    assert operation_shown(description(), "nothing") is None
