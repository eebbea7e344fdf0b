"""JSON without surprises: numbers stay as they were written, no name stands twice, and nothing nests without end."""

from __future__ import annotations

import json
from typing import Any

from broker.domain.json_depth import is_too_deep
from broker.pools.literals import NumberLiteral
from broker.pools.problems import Place, RequirementRefused


def parse_json(text: str, deepest: int) -> Any:
    """The document in a text; its numbers are ``NumberLiteral``.

    Raises:
        RequirementRefused: ``not-json``, ``duplicate-name`` or ``nesting-too-deep``.
    """
    if is_too_deep(text, deepest):
        raise RequirementRefused("nesting-too-deep", f"lists and tables nest deeper than {deepest}")
    try:
        return json.loads(
            text,
            parse_int=NumberLiteral,
            parse_float=NumberLiteral,
            parse_constant=NumberLiteral,
            object_pairs_hook=_without_repetition,
        )
    except json.JSONDecodeError as error:
        raise RequirementRefused("not-json", error.msg, None, Place(error.lineno, error.colno)) from error
    except RecursionError as error:
        raise RequirementRefused("nesting-too-deep", f"lists and tables nest deeper than {deepest}") from error


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RequirementRefused("duplicate-name", "stands twice", name)
        found[name] = value
    return found
