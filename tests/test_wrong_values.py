"""Validation errors are reported in our own words, with the offending value."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from broker.wrong_values import what_is_wrong


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int = Field(default=1, ge=1, le=9)
    share: float = Field(default=0.5, gt=0)
    on: bool = True
    name: str = ""
    kind: Literal["a", "b"] = "a"
    items: list[int] = []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"number": "abc"}, "number: 'abc' is no whole number"),
        ({"number": 1.5}, "number: 1.5 is no whole number"),
        ({"number": 0}, "number: 0 is less than 1"),
        ({"number": 10}, "number: 10 is more than 9"),
        ({"share": 0}, "share: 0 is not more than 0.0"),
        ({"share": "x"}, "share: 'x' is no number"),
        ({"on": "perhaps"}, "on: 'perhaps' is neither true nor false"),
        ({"name": 5}, "name: 5 is no text"),
        ({"kind": "c"}, "kind: 'c' is none of 'a' or 'b'"),
        ({"items": 5}, "items: 5 is no list"),
        ({"items": ["x", 2]}, "items.0: 'x' is no whole number"),
        ({"other": 5, "number": 0}, "number: 0 is less than 1; other: is not known here"),
    ],
)
def test_the_message_names_field_value_and_problem(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        _Model.model_validate(values)
    assert what_is_wrong(error.value) == message
