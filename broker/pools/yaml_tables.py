"""YAML as nested tables of texts: nothing is converted, constructed or repeated by alias, so that no file is a bomb."""

from __future__ import annotations

from typing import Any, cast

import yaml

from broker.pools.problems import Place, RequirementRefused

_LOADER = cast(type[yaml.Loader], getattr(yaml, "CBaseLoader", yaml.BaseLoader))
_DEEPEST = 16


def yaml_tables(text: str) -> Any:
    """The document in a text: tables, lists, texts, and None for what is empty; an empty document is an empty table.

    Raises:
        RequirementRefused: ``not-yaml``, ``duplicate-name`` or ``nesting-too-deep``, with the place.
    """
    root: list[Any] = []
    # Each open table or list with the key that waits for its value.
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
