"""Converts texts of elements and attributes to values, and values to texts.

Source: Scalable Systems Software Job Object Specification 3.0.3, data types and units of measure abbreviations.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from broker.formats.model.sss import model
from broker.formats.model.sss.model import Value

#: DateTime and Duration are 32 bits without sign; the signed half would end in 2038.
LARGEST_TIME = 2**32 - 1
LARGEST_INTEGER = 2**63 - 1

UNITS: dict[str, int] = {
    unit: 1024**power for power, unit in enumerate(("B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB", "NB", "DB"))
}
DEFAULT_UNIT = "MB"
"""The unit of sizes without one: only MB makes sense of those in the specification's examples."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?[0-9]{1,19}(?:\.[0-9]{1,19})?(?:[eE][+-]?[0-9]{1,2})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

_EXPECTED: dict[str, str] = {
    "integer": "a whole number of at most 64 bits",
    "float": "a finite decimal number",
    "boolean": "true or false",
    "datetime": "whole seconds since 1970 UTC, at most 4294967295",
    "duration": "whole seconds, at most 4294967295",
    "string": "one line of printable characters",
    "text": "printable characters and line ends",
}


class BadValueError(ValueError):
    """A text that is not of its type; ``found`` says what is wrong, ``expected`` what should be there instead."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.found = found
        self.expected = expected


def value_of(kind: model.ElementKind, text: str) -> Value:
    """The value of an element; an empty one is ``None``.

    Raises:
        BadValueError: the text is not of the type, or not among the choices.
    """
    stripped = text.strip(" \t\r\n")
    if not stripped:
        return None
    expected = _EXPECTED[kind.type]
    match kind.type:
        case "string" | "text":
            return _text(kind, stripped, expected)
        case "integer":
            return _integer(stripped, expected)
        case "float":
            return _float(stripped, expected)
        case "boolean":
            if stripped not in ("true", "false"):
                raise BadValueError("not true or false", expected)
            return stripped == "true"
        case _:
            return _seconds(stripped, expected, is_time=kind.type == "datetime")


def _text(kind: model.ElementKind, text: str, expected: str) -> str:
    if (_CONTROL if kind.type == "string" else _CONTROL_BUT_LINES).search(text):
        raise BadValueError("control characters", expected)
    if kind.choices:
        spelled = {choice.lower(): choice for choice in kind.choices}.get(text.lower())
        if spelled is None:
            raise BadValueError(f"unknown value {text[:60]}", " or ".join(kind.choices))
        return spelled
    return text


def _integer(text: str, expected: str) -> int:
    if not _INTEGER.fullmatch(text) or abs(int(text)) > LARGEST_INTEGER:
        raise BadValueError("not an integer", expected)
    return int(text)


def _float(text: str, expected: str) -> float | int:
    if not _FLOAT.fullmatch(text):
        raise BadValueError("not a number", expected)
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() and abs(number) < 10**15 else float(number)


def _seconds(text: str, expected: str, *, is_time: bool) -> int:
    if not _INTEGER.fullmatch(text):
        raise BadValueError("not an integer epoch" if is_time else "not an integer", expected)
    value = int(text)
    if value < 0:
        raise BadValueError("negative", expected)
    if value > LARGEST_TIME:
        raise BadValueError("too large", expected)
    return value


def attribute_of(name: str, text: str) -> str:
    """The value of an attribute in canonical spelling.

    Raises:
        BadValueError: it is not one of the known values, or not a number.
    """
    choices = model.CHOICES.get(name)
    if choices is not None:
        spelled = {choice.lower(): choice for choice in choices} | model.ALIASES[name]
        if text.lower() not in spelled:
            raise BadValueError(f"unknown {name} {text[:60]}", " or ".join(choices))
        return spelled[text.lower()]
    if name == "group" and (not _INTEGER.fullmatch(text) or abs(int(text)) > 20):
        raise BadValueError("group is no whole number", "at most 20 parentheses")
    if name in ("consumptionRate", "preference", "performanceFactor") and (
        not _FLOAT.fullmatch(text) or (name != "preference" and Decimal(text) < 0)
    ):
        raise BadValueError(f"{name} {text[:60]} is no usable number", "a decimal number")
    if name == "dynamic" and text not in ("true", "false"):
        raise BadValueError("dynamic is not true or false", "true or false")
    if _CONTROL.search(text):
        raise BadValueError(f"{name} holds control characters", _EXPECTED["string"])
    return text


def size_bytes(value: float | int, units: str | None) -> int:
    """A size in bytes, rounded to a whole number; without units it is in MB."""
    return round(Fraction(str(value)) * UNITS[units or DEFAULT_UNIT])


def text_of(value: Value) -> str:
    """The text of a value in a document."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{Decimal(f'{value:.9g}'):f}"
    return str(value)
