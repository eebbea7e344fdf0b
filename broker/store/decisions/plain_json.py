"""JSON that a column of type jsonb takes, whatever names from outside hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# json.dumps would make an encoder for each value
_encoded = json.JSONEncoder(separators=(",", ":")).encode
_quoted = json.encoder.encode_basestring_ascii


def clean_json(value: object) -> str:
    """The value as JSON; PostgreSQL's jsonb holds neither NUL nor lone surrogates, so these are replaced."""
    reported = _encoded(value)
    if "\\u0000" in reported or "\\ud" in reported:
        return _encoded(_clean(value))
    return reported


def clean_counts(counts: Mapping[str, int]) -> str:
    """Whole numbers by name as JSON, as :func:`clean_json` has them, without an encoder for each of many."""
    pairs = [f"{_quoted(name)}:{count}" for name, count in counts.items() if type(count) is int]
    reported = "{" + ",".join(pairs) + "}"
    if len(pairs) < len(counts) or "\\u" in reported:
        return clean_json(dict(counts))
    return reported


def clean_text(value: str) -> str:
    """The text without what a column of type text does not hold."""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {_clean(name): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    return value
