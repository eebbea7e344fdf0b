"""Answers as plain JSON values: times in UTC with a ``Z``, no infinities, no numpy types.

Commands use this too, even without the extra ``api``, so nothing of HTTP is imported here.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from broker.domain.instants import aware

_JSON = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))
_AS_THEY_ARE = frozenset({type(None), str, int, bool})


def plain(value: Any) -> Any:
    """Return ``value`` as objects, lists, texts, numbers, booleans and null. Infinity (no limit) and NaN become null.

    Raises:
        TypeError: it holds something that is not data.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    convert = _CONVERTERS.get(kind)
    return _of_a_subclass(value) if convert is None else convert(value)


def _of_a_subclass(value: Any) -> Any:
    """Convert a value as :func:`plain` does, if its type is not one of the common ones."""
    if isinstance(value, BaseModel):
        return _model(value)
    if isinstance(value, str | int) and not isinstance(value, Enum):
        return value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, list | tuple):
        return _items(value)
    return _rarer(value)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {name if type(name) is str else str(name): plain(item) for name, item in value.items()}


def _items(value: Sequence[Any]) -> list[Any]:
    return [plain(item) for item in value]


def _model(value: BaseModel) -> dict[str, Any]:
    return {name: plain(item) for name, item in value.__dict__.items()} | _computed(value)


def _instant(value: datetime) -> str:
    return aware(value).isoformat().replace("+00:00", "Z")


# the type decides most values with one lookup
_CONVERTERS: Mapping[type, Callable[[Any], Any]] = {
    float: _number, dict: _mapping, list: _items, tuple: _items, datetime: _instant
}  # fmt: skip


def _computed(value: BaseModel) -> dict[str, Any]:
    computed = type(value).model_computed_fields
    return {name: plain(getattr(value, name)) for name in computed} if computed else {}


def _rarer(value: Any) -> Any:
    if isinstance(value, datetime):
        return _instant(value)
    if isinstance(value, date | Path):
        return str(value)
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Decimal):
        return plain(int(value) if value == value.to_integral_value() else float(value))
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    to_list = getattr(value, "tolist", None)  # numpy scalars and arrays
    if to_list is not None:
        return plain(to_list())
    raise TypeError(f"{type(value).__name__} is not JSON")


def as_json(document: Any) -> bytes:
    """Return a plain document as JSON, without blanks."""
    return _JSON.encode(document).encode()
