"""JSON and YAML as nested tables of texts, without conversion, constructed objects or aliases."""

from __future__ import annotations

import json
from typing import Any, cast

import yaml

from broker.json_depth import is_too_deep
from broker.pools.model.description import NumberLiteral, Place, RequirementRefused


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
            object_pairs_hook=_unique_pairs,
        )
    except json.JSONDecodeError as error:
        raise RequirementRefused("not-json", error.msg, None, Place(error.lineno, error.colno)) from error
    except RecursionError as error:
        raise RequirementRefused("nesting-too-deep", f"lists and tables nest deeper than {deepest}") from error


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise RequirementRefused("duplicate-name", "stands twice", name)
        table[name] = value
    return table


_LOADER = cast(type[yaml.Loader], getattr(yaml, "CBaseLoader", yaml.BaseLoader))
_DEEPEST = 16


def yaml_tables(text: str) -> Any:
    """The document in a text: tables, lists, texts, and None for empty values; an empty document is an empty table.

    Raises:
        RequirementRefused: ``not-yaml``, ``duplicate-name`` or ``nesting-too-deep``, with the place.
    """
    root: list[Any] = []
    # Each open table or list, with the key that waits for its value.
    opened: list[tuple[dict[str, Any] | list[Any], list[str]]] = [(root, [])]
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            place = _place(event.start_mark)
            if isinstance(event, yaml.AliasEvent):
                raise RequirementRefused("not-yaml", "aliases are not followed; write the value out", None, place)
            if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                opened.pop()
            elif isinstance(event, yaml.ScalarEvent):
                _add(opened[-1], None if _is_null(event) else event.value, place)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                if len(opened) > _DEEPEST:
                    raise RequirementRefused("nesting-too-deep", f"deeper than {_DEEPEST}", None, place)
                inner: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
                _add(opened[-1], inner, place)
                opened.append((inner, []))
    except (yaml.YAMLError, UnicodeError) as error:
        where = _place(getattr(error, "problem_mark", None))
        raise RequirementRefused(
            "not-yaml", str(getattr(error, "problem", None) or "cannot be read"), None, where
        ) from error
    if len(root) > 1:
        raise RequirementRefused("not-yaml", "more than one document")
    return root[0] if root and root[0] is not None else {}


def _add(into: tuple[dict[str, Any] | list[Any], list[str]], value: Any, place: Place | None) -> None:
    table, key = into
    if isinstance(table, list):
        table.append(value)
    elif key:
        table[key.pop()] = value
    elif not isinstance(value, str):
        raise RequirementRefused("not-yaml", "a key is a text", None, place)
    elif value in table:
        raise RequirementRefused("duplicate-name", "stands twice", value[:80], place)
    else:
        key.append(value)


def _place(mark: Any) -> Place | None:
    return None if mark is None else Place(mark.line + 1, mark.column + 1)


def _is_null(event: yaml.ScalarEvent) -> bool:
    return bool(event.implicit[0]) and event.value in ("", "~", "null", "Null", "NULL")
