"""Readers of single task parameters: each returns the value as it is stored, or raises what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.errors import WRONG_USAGE, BrokerError
from broker.matching.specs.job_reading import SPECS, read_job
from broker.matching.specs.problems import SpecRefused
from broker.matching.specs.spec import Spec

MOST_CHARACTERS = 60


class BadParameter(BrokerError):
    """The task cannot be submitted as described; nothing was submitted.

    Attributes:
        field: the parameter, such as ``jobParameters[2].dataset``.
    """

    exit_status = WRONG_USAGE
    http_status = 422

    def __init__(self, field: str, value: Any, why: str, remedy: str) -> None:
        shown = "" if value is None else f" is {_shown(value)}"
        super().__init__(f"{field}{shown}: {why}", "task parameters", remedy)
        self.field = field


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


Reader = Callable[[str, Any], Any]
LARGEST_INTEGER = 2**31 - 1


def text(width: int) -> Reader:
    """A text that is not empty and fits its column."""

    def read(field: str, value: Any) -> str:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise BadParameter(field, value, "it must be a text", "write a text that is not empty")
        if len(value) > width:
            raise BadParameter(field, value, f"it has {len(value)} characters", f"write at most {width}")
        return value.encode("utf-8", "replace").decode("utf-8")

    return read


def whole(least: int, most: int = LARGEST_INTEGER, *, unit: str = "", hint: str = "") -> Reader:
    """A whole number from ``least`` to ``most``; ``hint`` is the remedy for any other value.

    >>> whole(1, unit="GB")("nGBPerJob", 2.0)
    2
    """
    named = f" {unit}" if unit else ""

    def read(field: str, value: Any) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 20:
            number = int(number)
        remedy = hint or f"write a whole number from {least} to {most}{named}"
        if isinstance(number, bool) or not isinstance(number, int):
            raise BadParameter(field, value, f"it must be a whole number{named and f' of{named}'}", remedy)
        if not least <= number <= most:
            raise BadParameter(field, value, f"it must be from {least} to {most}{named}", remedy)
        return number

    return read


def choice(*allowed: str, hint: str = "") -> Reader:
    """One of the allowed words."""

    def read(field: str, value: Any) -> str:
        if value not in allowed:
            raise BadParameter(field, value, "it is not known here", hint or f"write one of {', '.join(allowed)}")
        return str(value)

    return read


def flag(field: str, value: Any) -> bool:
    """Parse a value that must be true or false."""
    if not isinstance(value, bool):
        raise BadParameter(field, value, "it must be true or false", "write true or false")
    return value


def names(width: int) -> Reader:
    """Names in a list, or in a text between commas."""
    read_name = text(width)

    def read(field: str, value: Any) -> tuple[str, ...]:
        listed = value.split(",") if isinstance(value, str) else value
        if not isinstance(listed, Sequence):
            raise BadParameter(field, value, "it must be a list of names", "write a list")
        return tuple(read_name(field, name.strip() if isinstance(name, str) else name) for name in listed)

    return read


def node_specs(field: str, value: Any) -> tuple[Spec, ...]:
    """What a job requires of a node: a spec of ``matchspec/1``, or a list of which one is enough."""
    try:
        return read_job({SPECS: value if isinstance(value, list) else [value]}).specs
    except SpecRefused as refused:
        where = refused.field.removeprefix(SPECS)
        remedy = "docs/explanation/matching-specs.md lists the fields"
        raise BadParameter(f"{field}{where}", refused.value, refused.detail, remedy) from refused


def anything(field: str, value: Any) -> Any:
    """Any value; it is read elsewhere."""
    return value
