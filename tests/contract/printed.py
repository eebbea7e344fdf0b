"""What commands print with ``--json``, as fields: of the row type where they print one, else as they were seen.

Each command that answers is run once on the example grid after a cycle of each brokerage. What a row type declares is
promised whole, also what is null here; of a plain object its keys are.
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
    """Collects what is printed.

    Attributes:
        fields: of each command, by its words.
    """

    def __init__(self) -> None:
        self.fields: Document = {}
        self._command, self._depth = "", 0

    @contextmanager
    def by(self, command: str) -> Iterator[None]:
        """What is printed in the block is of this command."""
        self._command = command
        yield

    def attach(self, patch: pytest.MonkeyPatch) -> None:
        """See each object that is printed from now on."""
        original = plain_values.plain

        def seen(value: Any) -> Any:
            self._depth += 1
            try:
                found = original(value)
            finally:
                self._depth -= 1
            if self._depth == 0:
                self.fields.setdefault(self._command, {}).update(fields_of(value, found))
            return found

        patch.setattr(plain_values, "plain", seen)


def fields_of(value: Any, printed: Any) -> Document:
    """The fields of one object that is printed."""
    kind = type(value)
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(kind):
        declared = _declared(kind)
        if declared is not None:
            return declared
    if not isinstance(printed, Mapping):
        return {}
    return {name: {"fields": _keys(one)} if _keys(one) else {} for name, one in printed.items()}


def _declared(kind: Any) -> Document | None:
    """The fields of a row type with their types; None where it has no schema."""
    try:
        schema = TypeAdapter(kind).json_schema(mode="serialization", schema_generator=_Lenient)
    except PydanticInvalidForJsonSchema:
        return None
    return {name: {"type": type_of(one)} for name, one in schema.get("properties", {}).items()}


class _Lenient(GenerateJsonSchema):
    """A field of a type without a schema is anything."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        return {}


def _keys(value: Any) -> Document:
    """The keys of an object within another, or of the first in a list of them."""
    one = value[0] if isinstance(value, list) and value else value
    if not isinstance(one, Mapping) or not all(name.isidentifier() and name.islower() for name in one):
        return {}
    return {name: {} for name in one}
