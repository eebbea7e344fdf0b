"""What pydantic finds wrong with a value, in our own words: what it should be, and what it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MOST_CHARACTERS = 60
_SHOULD = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float", "int_parsing_size"), "{input} is no whole number"),
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), "{input} is no number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "{input} is neither true nor false"),
    **dict.fromkeys(("string_type", "string_unicode"), "{input} is no text"),
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "mapping_type", "dataclass_type"), "{input} is no mapping"
    ),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "{input} is no list"),
    **dict.fromkeys(("literal_error", "enum"), "{input} is none of {expected}"),
    "missing": "is missing",
    **dict.fromkeys(("extra_forbidden", "unexpected_keyword_argument"), "is not known here"),
    "greater_than_equal": "{input} is less than {ge}",
    "greater_than": "{input} is not more than {gt}",
    "less_than_equal": "{input} is more than {le}",
    "less_than": "{input} is not less than {lt}",
    "string_too_short": "is shorter than {min_length} characters",
    "string_too_long": "is longer than {max_length} characters",
    "too_short": "has fewer than {min_length} entries",
    "too_long": "has more than {max_length} entries",
    "value_error": "{error}",
}


def what_is_wrong(error: ValidationError) -> str:
    """Everything that is wrong, each error after the name of its field."""
    errors = [(".".join(map(str, detail["loc"])), value_is_wrong(detail)) for detail in error.errors()]
    return "; ".join(f"{field}: {words}" if field else words for field, words in errors)


def value_is_wrong(one: ErrorDetails) -> str:
    """What is wrong with one value; in pydantic's words where we have none."""
    words = _SHOULD.get(one["type"])
    context: Mapping[str, Any] = one.get("ctx") or {}
    try:
        return str(one["msg"]) if words is None else words.format(**context, input=repr(one["input"])[:MOST_CHARACTERS])
    except (KeyError, IndexError):
        return str(one["msg"])
