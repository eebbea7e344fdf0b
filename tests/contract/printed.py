"""The fields that commands print with ``--json``: those of the row type if there is one, else those seen in the output.

Each command with output runs once on the example grid after a cycle of each brokerage. All declared fields of a row
type are promised, including those that are null here; of a plain object, the keys that were printed are promised.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, PydanticInvalidForJsonSchema

from broker.api import plain as plain_values
from tests.contract.promises import ROOT, Document, type_of

FILE = ROOT / "tests" / "contract" / "printed.json"


class Printed:
    """Records the fields that commands print.

    Attributes:
        fields: the fields of each command, by its words.
    """

    def __init__(self) -> None:
        self.fields: Document = {}
        self._command, self._depth = "", 0

    @contextmanager
    def of_command(self, command: str) -> Iterator[None]:
        """Attribute all output of the block to this command."""
        self._command = command
        yield

    def attach(self, patch: pytest.MonkeyPatch) -> None:
        """Record each object that is printed from now on."""
        original = plain_values.plain

        def record(value: Any) -> Any:
            self._depth += 1
            try:
                plain_value = original(value)
            finally:
                self._depth -= 1
            if self._depth == 0:
                self.fields.setdefault(self._command, {}).update(fields_of(value, plain_value))
            return plain_value

        patch.setattr(plain_values, "plain", record)


def fields_of(value: Any, printed: Any) -> Document:
    """Return the fields of one printed object."""
    kind = type(value)
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(kind):
        declared_fields = _declared_fields(kind)
        if declared_fields is not None:
            return declared_fields
    if not isinstance(printed, Mapping):
        return {}
    return {name: {"fields": _keys(field_value)} if _keys(field_value) else {} for name, field_value in printed.items()}


def _declared_fields(kind: Any) -> Document | None:
    """Return the fields of a row type with their types, or None if the type has no schema."""
    try:
        schema = TypeAdapter(kind).json_schema(mode="serialization", schema_generator=_Lenient)
    except PydanticInvalidForJsonSchema:
        return None
    return {name: {"type": type_of(field_schema)} for name, field_schema in schema.get("properties", {}).items()}


class _Lenient(GenerateJsonSchema):
    """Accepts any value for a field whose type has no schema."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        return {}


def _keys(value: Any) -> Document:
    """Return the keys of a nested object, or of the first object of a list."""
    example = value[0] if isinstance(value, list) and value else value
    if not isinstance(example, Mapping) or not all(name.isidentifier() and name.islower() for name in example):
        return {}
    return {name: {} for name in example}
