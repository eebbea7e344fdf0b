"""Reading single values of requests: from forms, where unreadable values are dropped, and from JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from broker.pilots.model.codes import NOT_GIVEN

Reader = Callable[[Any], Any]
"""Reads a value; raises ValueError where there is none in it."""

_LARGEST = 2**63 - 1


def whole(value: Any) -> int:
    """A whole number; the decimals of ``"3.0"`` are cut off.

    Raises:
        ValueError: it is no number, none of 64 bits, or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("no number")
    number = value if isinstance(value, int) else _finite(value)
    if abs(number) > _LARGEST:
        raise ValueError("more than 64 bits")
    return int(number)


def decimal(value: Any) -> float:
    """A finite number.

    Raises:
        ValueError: it is no finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("no number")
    return _finite(value)


def not_negative(value: Any) -> int:
    """A whole number, 0 or more.

    Raises:
        ValueError: it is no number, or less than 0.
    """
    number = whole(value)
    if number < 0:
        raise ValueError("negative")
    return number


def text(most: int) -> Reader:
    """Reads a text, cut to its first ``most`` characters, without characters that no database can store."""

    def read(value: Any) -> str:
        if isinstance(value, dict | list | bool):
            raise ValueError("no text")
        return storable(str(value))[:most]

    return read


def storable(value: str) -> str:
    """A text without NUL and halves of surrogate pairs."""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def given(value: Any) -> Any:
    """The value, or None for the texts that stand for none."""
    return None if isinstance(value, str) and value.strip() in NOT_GIVEN else value


def limit_of(value: Any) -> int:
    """A limit: 0, for none, where the value is missing, negative, or cannot be read."""
    try:
        return max(whole(value), 0)
    except ValueError:
        return 0


def optional(value: Any, reader: Reader) -> Any:
    """The value as the reader reads it; None where it is missing or cannot be read."""
    if given(value) is None:
        return None
    try:
        return reader(value)
    except ValueError:
        return None


def _finite(value: float | int | str) -> float:
    if isinstance(value, str) and ("_" in value or len(value) > 40):
        raise ValueError("no number")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError("too large") from error
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number
